# SPDX-License-Identifier: Apache-2.0
"""A bench for RequesterBuffers: a DMA engine, a transport and the peers' memory in Python.

Writes are compared at the peer: a packet is executed when it retires, in the order of its queue pair. Each packet may
be sent several times, and all copies must be equal.
"""

import os
import random
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field, replace

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from hw.axi import Resp
from hw.rdma import layouts
from hw.rdma.config import TINY, remote_memory
from hw.rdma.protocol import Opcode
from hw.rdma.requester.buffers import RequesterBuffers
from sim.verilator.build import Design
from tests.harness.fields import Fields
from tests.rdma.remote_memory import PAGE, Remote, SparseMemory, pieces

__all__ = ["CONFIGS", "FAR", "LENGTH", "MTUS", "REMOTES", "Burst", "RequesterBench", "Stored", "live_bench", "prepare",
           "simulate_buffers"]

CONFIGS = {
    "TINY": TINY, "SINGLE": replace(TINY, block_beats=1, buffer_beats=512, id_width=4),
    "SMALL": replace(TINY, max_mtu=4096, packets=16, buffer_beats=1024, receive_beats=2048, response_beats=1024),
    "BROAD": replace(TINY, data_width=512, max_mtu=4096, buffer_beats=128, block_beats=2),
}

REMOTES = {3: (1, 0x7654_3210_0000), 5: (2, 0x1_0000_0033), 15: (6, 0xFFFF_0000_0000_0000), 0: (7, 123)}
"""Number -> queue pair and virtual address of offset 0."""

MTUS = {1: 256, 2: 1024, 6: 4096, 7: 512}
SELECTIVE = {2, 7}
LENGTH = 16 * PAGE + 1234
FAR = 0x7FFF_FFFF_F000
"""Length of remote memory 15."""

LAYOUTS = {"writes": layouts.write_layout, "responses": layouts.response_layout, "reads": layouts.read_layout,
           "beats": layouts.read_beat_layout, "posted": layouts.posted_layout, "send": layouts.send_layout,
           "returned": layouts.returned_layout, "retire": layouts.retire_layout, "packets": layouts.transmit_layout}

_HAS_RETH = (Opcode.WRITE_FIRST, Opcode.WRITE_ONLY, Opcode.READ_REQUEST)


@dataclass
class Burst:
    """A burst, the bytes that it must move, and the ones that it did.

    ``data``: bytes of the peer's memory from ``offset``, for a write; ``expects``: beats of a read.
    """

    id: int
    remote: Remote
    offset: int
    resp: Resp
    data: bytes = field(default=b"", repr=False)
    cuts: list = field(default_factory=list)
    done: int = 0
    failed: bool = False
    beats: int = 0


@dataclass
class Stored:
    """A posted packet.

    ``pending``: sends that were not accepted yet. ``copies``: complete packets seen on the line. ``returned``: whether
    all beats of a READ's response were accepted; None before the first.
    """

    index: int
    qp: int
    read: bool
    alone: bool
    length: int
    cost: int
    pending: int = 0
    copies: int = 0
    header: dict = field(default_factory=dict)
    payload: bytes = field(default=b"", repr=False)
    settled: bool = False
    returned: bool | None = None


class _Ports:
    """Ports of a design under cocotb."""

    def __init__(self, dut):
        self._dut, self._found = dut, {}

    def _handle(self, path):
        if path not in self._found:
            self._found[path] = getattr(self._dut, path.replace(".", "__"))
        return self._found[path]

    def get(self, path):
        return int(self._handle(path).value)

    def set(self, path, value):
        self._handle(path).value = int(value)

    async def settle(self):
        await FallingEdge(self._dut.clk)

    async def tick(self):
        await RisingEdge(self._dut.clk)


class _Source:
    """Drives a stream from a queue of payloads."""

    def __init__(self, bench, name, chance):
        self.bench, self.name, self.chance = bench, name, chance
        self.fields = Fields(LAYOUTS[name](bench.config))
        self.queue, self.offered, self._valid = deque(), False, None

    def begin(self):
        if not self.offered and self.queue and self.bench.chance(self.chance):
            self.offered = True
            self.bench.ports.set(f"{self.name}.payload", self.queue[0][0])
        if self._valid != self.offered:
            self.bench.ports.set(f"{self.name}.valid", self.offered)
            self._valid = self.offered

    def end(self):
        """The item that was accepted in this cycle, or None."""
        if self.offered and self.bench.ports.get(f"{self.name}.ready"):
            self.offered = False
            return self.queue.popleft()[1]
        return None

    def put(self, fields, what=None):
        self.queue.append((self.fields.pack(fields), what))


class _Sink:
    """Accepts a stream; while it stalls, checks that the item stays."""

    def __init__(self, bench, name, chance):
        self.bench, self.name, self.chance = bench, name, chance
        self.fields = Fields(LAYOUTS[name](bench.config))
        self._ready = self._stalled = None

    def begin(self):
        ready = self.bench.chance(self.chance)
        if ready != self._ready:
            self.bench.ports.set(f"{self.name}.ready", ready)
            self._ready = ready

    def end(self):
        ports = self.bench.ports
        valid = ports.get(f"{self.name}.valid")
        assert valid or self._stalled is None, "an offered item was withdrawn"
        if not valid:
            return None
        value = ports.get(f"{self.name}.payload")
        assert self._stalled in (None, value), "an offered item changed"
        self._stalled = None if self._ready else value
        return value if self._ready else None


class RequesterBench:
    """Drives all ports of a unit whose configuration is ``config``.

    Parameters
    ----------
    dut
        Under cocotb.
    config : RdmaConfig
    rng : random.Random
    source, sink : float
        Chance per cycle that an idle source offers its next item, and that a sink accepts.
    resends : float
        Chance that a packet is sent again, each time.
    fails : float
        Chance that a packet makes its queue pair fail.
    automatic : bool
        The transport works by itself; else the test calls ``send``, ``give`` and ``retire``.
    """

    def __init__(self, dut, config, rng, *, source=1.0, sink=1.0, resends=0.0, fails=0.0, automatic=True):
        self.ports, self.config, self.rng = _Ports(dut), config, rng
        self.resends, self.fails, self.automatic = resends, fails, automatic
        self.sources = {name: _Source(self, name, source)
                        for name in ("writes", "reads", "send", "returned", "retire")}
        self.sinks = {name: _Sink(self, name, sink)
                      for name in ("responses", "beats", "posted", "packets")}
        self.cycle, self.seen = 0, Counter()
        self.remotes, self.mtu, self.selective = {}, {}, {}
        self.writes, self.reads = {}, {}            # ID -> burst
        self.order = defaultdict(deque)             # queue pair -> packets posted and not retired
        self.posted = {}                            # index -> packet
        self.sends = deque()                        # expected on ``packets``: packet, PSN, ackreq
        self.failed = set()                         # queue pairs
        self.messages = {}                          # queue pair -> message in progress at the peer
        self.times = defaultdict(list)
        self.kinds, self.errors = [], 0             # of posted packets: whether it is a READ; beats with an error
        self._packet = None

    def chance(self, probability):
        return probability >= 1 or (probability > 0 and self.rng.random() < probability)

    # -- Settings.

    async def start(self):
        for name in ("connections", "remotes"):
            self.ports.set(f"{name}.valid", 0)
        for _ in range(self.config.sweep_rows + 2):
            await self.step()

    async def connect(self, qp, *, mtu, selective=False, is_open=True):
        self.mtu[qp], self.selective[qp] = mtu, selective
        await self._commit("connections", "qp", qp, layouts.connection_layout(), {
            "open": is_open, "mtu": mtu.bit_length() - 9, "selective": selective})

    async def define(self, number, *, qp, va, length, valid=True):
        remote = Remote(number, qp, self.rng.getrandbits(32), va, length, SparseMemory(self.rng))
        self.remotes[number] = remote
        await self._commit("remotes", "remote", number, layouts.remote_layout(self.config), {
            "valid": valid, "qp": qp, "rkey": remote.rkey, "va": va, "length": length})
        return remote

    async def _commit(self, name, index, number, layout, fields):
        self.ports.set(f"{name}.valid", 1)
        self.ports.set(f"{name}.{index}", number)
        self.ports.set(f"{name}.entry", Fields(layout).pack(fields))
        await self.step()
        self.ports.set(f"{name}.valid", 0)

    # -- The DMA engine.

    def write(self, burst_id, remote, offset, size, *, resp=Resp.OKAY, lead=0, trail=0, gap=None, number=None):
        """A burst of ``size`` bytes from ``offset``, of which ``lead`` beats at the start, ``trail`` at the end, and
        beat ``gap`` have no strobes."""
        beat_bytes = self.config.beat_bytes
        first, beats = offset // beat_bytes, (offset + size - 1) // beat_bytes - offset // beat_bytes + 1
        assert burst_id not in self.writes and beats <= 256 and offset // PAGE == (offset + size - 1) // PAGE
        content, kept, data = self.rng.randbytes(beats * beat_bytes), [], b""
        for index in range(beats):
            low = offset % beat_bytes if index == 0 else 0
            high = (offset + size - 1) % beat_bytes if index == beats - 1 else beat_bytes - 1
            strobes = 0
            if lead <= index < beats - trail and index != gap:
                strobes = (1 << high + 1) - (1 << low)
                kept.append((first + index) * beat_bytes + low)
                data += content[index * beat_bytes + low:index * beat_bytes + high + 1]
            self.sources["writes"].put({
                "id": burst_id, "addr": remote_memory(remote.number if number is None else number, offset),
                "len": beats - 1, "data": int.from_bytes(content[index * beat_bytes:][:beat_bytes], "little"),
                "strb": strobes, "first": index == 0, "last": index == beats - 1}, ("write", burst_id, index))
        burst = Burst(burst_id, remote, kept[0] if kept else offset, resp)
        if resp == Resp.OKAY and kept:
            burst.data = data
            burst.cuts = pieces(burst.offset, len(data), self.mtu[remote.qp],
                                from_start=burst.offset % beat_bytes == 0 and not self.selective[remote.qp])
        self.writes[burst_id] = burst

    def read(self, burst_id, remote, offset, beats, *, resp=Resp.OKAY, number=None):
        """A burst of ``beats`` beats from the byte at ``offset``."""
        assert burst_id not in self.reads
        beat_bytes = self.config.beat_bytes
        self.sources["reads"].put({
            "id": burst_id, "addr": remote_memory(remote.number if number is None else number, offset),
            "len": beats - 1}, ("read", burst_id))
        end = (offset // beat_bytes + beats) * beat_bytes
        burst = Burst(burst_id, remote, offset, resp)
        if resp == Resp.OKAY:
            clipped = min(end, remote.length)
            data = remote.memory.read(offset, clipped - offset)
            burst.data = bytes(offset % beat_bytes) + data + bytes(end - clipped)
            burst.cuts = pieces(offset, len(data), self.mtu[remote.qp], from_start=False)
        burst.beats = beats
        self.reads[burst_id] = burst

    # -- The transport.

    def _post(self, item):
        fields = self.sinks["posted"].fields
        packet = Stored(*(fields.unpack(item, name) for name in ("index", "qp", "read", "alone", "length", "cost")))
        assert packet.index not in self.posted, f"entry {packet.index} is in use"
        assert packet.cost <= self.config.mtu_beats + 2 and (packet.read or not packet.length)
        self.posted[packet.index] = packet
        self.order[packet.qp].append(packet)
        self.times["posted"].append(self.cycle - 1)
        self.kinds.append(packet.read)
        if self.automatic and packet.qp not in self.failed:
            self.send(packet)

    def send(self, packet):
        packet.pending += 1
        psn, ackreq = self.rng.getrandbits(24), self.rng.getrandbits(1)
        self.sources["send"].put({"index": packet.index, "psn": psn, "ackreq": ackreq}, ("send", packet, psn, ackreq))

    def _work(self):
        """Retire oldest packets that were sent, or that belong to a failed queue pair."""
        sends = self.sources["send"]
        for qp, order in self.order.items():
            if not order:
                continue
            packet = order[0]
            if qp not in self.failed and not packet.copies:
                continue
            # A packet may retire as soon as all its sends were offered.
            waits = packet.pending == 1 and sends.offered and sends.queue[0][1][1] is packet
            if packet.pending and not waits:
                continue
            if not packet.settled and qp not in self.failed:
                if self.chance(self.resends):
                    self.send(packet)
                    self.seen["sent again"] += 1
                    continue
                if self.chance(self.fails):
                    self.failed.add(qp)
            packet.settled = True
            if packet.read and qp not in self.failed and packet.returned is None:
                self.give(packet)
            if packet.returned is not False:
                self.retire(packet, failed=qp in self.failed and not packet.returned)
                self.seen["retired while offered"] += waits

    def retire(self, packet, *, failed=False):
        assert self.order[packet.qp].popleft() is packet
        self.sources["retire"].put({"index": packet.index, "failed": failed}, ("retire", packet))
        if not packet.read and not failed:
            self._execute(packet)
        elif not failed:
            assert packet.qp not in self.messages, "a READ within a message"
        self.seen[f"failed {'READ' if packet.read else 'write'}"] += failed

    def _execute(self, packet):
        qp, header, size = packet.qp, packet.header, len(packet.payload)
        opcode = header["opcode"]
        if opcode in (Opcode.WRITE_FIRST, Opcode.WRITE_ONLY):
            assert qp not in self.messages, "a message starts within another"
            self.messages[qp] = [self._remote(header), header["va"], header["dma_length"]]
        message = self.messages[qp]
        remote, va, left = message
        if opcode in (Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE):
            assert size == self.mtu[qp] and not self.selective[qp] and left > size
        if opcode in (Opcode.WRITE_LAST, Opcode.WRITE_ONLY):
            assert size == left
            del self.messages[qp]
        assert remote.qp == qp and 0 < size <= self.mtu[qp]
        message[1:] = va + size, left - size
        remote.memory.write(va - remote.va, packet.payload)
        burst = self._burst(self.writes, remote, va - remote.va, size)
        assert packet.alone == (len(burst.cuts) == 1)
        burst.done += 1
        self.seen[Opcode(opcode).name] += 1

    def _remote(self, header):
        return next(remote for remote in self.remotes.values() if remote.rkey == header["rkey"])

    def _burst(self, bursts, remote, offset, size):
        return next(burst for burst in bursts.values() if burst.remote is remote and (offset, size) in burst.cuts)

    def give(self, packet):
        """The response to a READ."""
        header = packet.header
        remote = self._remote(header)
        offset, size = header["va"] - remote.va, header["dma_length"]
        assert offset >= 0 and offset + size <= remote.length and size == packet.length <= self.mtu[remote.qp]
        assert packet.alone == (len(self._burst(self.reads, remote, offset, size).cuts) == 1)
        content, beat = remote.memory.read(offset, size), self.config.beat_bytes
        for at in range(0, size, beat):
            piece, last = content[at:at + beat], at + beat >= size
            piece += self.rng.randbytes(beat - len(piece))
            self.sources["returned"].put(
                {"index": packet.index, "data": int.from_bytes(piece, "little"), "first": at == 0, "last": last},
                ("returned", packet, last))
        packet.returned = False

    # -- Observations.

    def _emit(self, item):
        fields = self.sinks["packets"].fields
        first, last = fields.unpack(item, "first"), fields.unpack(item, "last")
        assert first == (self._packet is None)
        if first:
            header = {name: fields.unpack(item, f"header.{name}") for name in (
                "qp", "opcode", "ackreq", "psn", "va", "rkey", "dma_length", "length", "lane")}
            self._packet = header, bytearray()
            self.times["packets"].append(self.cycle - 1)
        header, content = self._packet
        content += fields.unpack(item, "data").to_bytes(self.config.beat_bytes, "little")
        self.times["packet beats"].append(self.cycle - 1)
        if not last:
            return
        self._packet = None
        packet, psn, ackreq = self.sends.popleft()
        assert (header["psn"], header["ackreq"], header["qp"]) == (psn, ackreq, packet.qp)
        beats = max(1, -(-(header["lane"] + header["length"]) // self.config.beat_bytes))
        assert len(content) == beats * self.config.beat_bytes
        payload = bytes(content[header["lane"]:][:header["length"]])
        if packet.read:
            assert (header["opcode"], header["length"], header["lane"]) == (Opcode.READ_REQUEST, 0, 0)
        reth = ("va", "rkey", "dma_length") if header["opcode"] in _HAS_RETH else ()
        seen = {name: header[name] for name in ("opcode", "length", *reth)}
        assert not packet.copies or (packet.header, packet.payload) == (seen, payload), "copies differ"
        packet.header, packet.payload = seen, payload
        packet.copies += 1
        assert packet.cost == (2 if packet.read else beats + 2)

    def _respond(self, item):
        fields = self.sinks["responses"].fields
        burst = self.writes.pop(fields.unpack(item, "id"))
        self.times["responses"].append(self.cycle - 1)
        resp = Resp(fields.unpack(item, "resp"))
        if burst.resp == Resp.OKAY and burst.remote.qp in self.failed and resp != Resp.OKAY:
            assert resp == Resp.SLVERR and burst.cuts
            self.seen["failed burst"] += 1
            return
        assert resp == burst.resp, f"burst {burst} has {resp!r}"
        assert burst.done == len(burst.cuts)
        if resp == Resp.OKAY:
            assert burst.remote.memory.read(burst.offset, len(burst.data)) == burst.data
        self.seen[f"write {resp.name}"] += 1

    def _deliver(self, item):
        fields = self.sinks["beats"].fields
        burst = self.reads[fields.unpack(item, "id")]
        resp, beat = Resp(fields.unpack(item, "resp")), self.config.beat_bytes
        if resp == Resp.OKAY:
            assert burst.resp == Resp.OKAY
            assert fields.unpack(item, "data").to_bytes(beat, "little") == burst.data[burst.done * beat:][:beat]
        elif burst.resp == Resp.OKAY:
            assert burst.remote.qp in self.failed and resp == Resp.SLVERR
            burst.failed = True
            self.errors += 1
        else:
            assert resp == burst.resp
        burst.done += 1
        self.times["beats"].append(self.cycle - 1)
        assert fields.unpack(item, "last") == (burst.done == burst.beats)
        if burst.done == burst.beats:
            del self.reads[burst.id]
            self.seen["failed read" if burst.failed else f"read {resp.name}"] += 1

    def _accepted(self, what):
        match what:
            case ("send", packet, psn, ackreq):
                self.sends.append((packet, psn, ackreq))
                packet.pending -= 1
            case ("returned", packet, True):
                packet.returned = True
            case ("retire", packet):
                del self.posted[packet.index]

    async def step(self):
        """One cycle."""
        for end in (*self.sources.values(), *self.sinks.values()):
            end.begin()
        await self.ports.settle()
        found = {name: sink.end() for name, sink in self.sinks.items()}
        taken = [(name, source.end()) for name, source in self.sources.items()]
        self.stalled = self.ports.get("counts.stalled")
        self.seen["stalled"] += self.stalled
        self.seen["refused"] += self.ports.get("counts.refused")
        await self.ports.tick()
        self.cycle += 1
        for name, handle in (("posted", self._post), ("packets", self._emit), ("responses", self._respond),
                             ("beats", self._deliver)):
            if found[name] is not None:
                handle(found[name])
        for name, what in taken:
            if what is not None:
                self.times[f"{name} in"].append(self.cycle - 1)
                self._accepted(what)
        if self.automatic:
            self._work()

    @property
    def busy(self):
        return bool(self.writes or self.reads or self.posted or self.sends
                    or any(source.queue for source in self.sources.values()))

    async def drain(self, limit=2000):
        """Until nothing is in flight, and then until all entries and blocks are free.

        ``limit``: cycles without progress.
        """
        last, since = None, self.cycle
        while self.busy:
            await self.step()
            progress = len(self.sources["writes"].queue), sum(map(len, self.times.values())), len(self.posted)
            if progress != last:
                last, since = progress, self.cycle
            assert self.cycle - since < limit, f"{self.writes} {self.reads} {self.posted} {self.sends}"
        for _ in range(8):
            await self.step()
        assert self.free() == (self.config.packets, self.config.blocks)

    def free(self):
        """Free entries and blocks."""
        return self.ports.get("free.packets"), self.ports.get("free.blocks")


async def prepare(bench):
    """Open the queue pairs and define the remote memories above."""
    await bench.start()
    for qp, mtu in MTUS.items():
        await bench.connect(qp, mtu=min(mtu, bench.config.max_mtu), selective=qp in SELECTIVE)
    for number, (qp, va) in REMOTES.items():
        await bench.define(number, qp=qp, va=va, length=FAR if number == 15 else LENGTH)


async def live_bench(dut, **options):
    """A prepared bench on a design under cocotb, after a reset; the configuration is named by ``RDMA_CONFIG``."""
    cocotb.start_soon(Clock(dut.clk, 4, unit="ns").start())
    dut.rst.value = 1
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    rng = random.Random(f"{os.environ['COCOTB_RANDOM_SEED']} {options}")
    bench = RequesterBench(dut, CONFIGS[os.environ["RDMA_CONFIG"]], rng, **options)
    await prepare(bench)
    return bench


def simulate_buffers(simulate, name, testcase, **env):
    """Run cocotb tests of the calling module on configuration ``name``."""
    simulate(Design(RequesterBuffers, CONFIGS[name]), testcase=testcase, name=f"requester_buffers_{name.lower()}",
             env={"RDMA_CONFIG": name, **env})
