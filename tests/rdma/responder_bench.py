# SPDX-License-Identifier: Apache-2.0
"""A Responder in Amaranth's simulator, with memory that refuses bytes outside its ranges."""

from collections import deque
from dataclasses import dataclass, field

from hw.axi import Resp
from hw.rdma.layouts import (
    connection_layout,
    read_beat_layout,
    read_layout,
    receive_layout,
    region_layout,
    response_layout,
    transmit_layout,
    write_layout,
)
from hw.rdma.protocol import Opcode
from hw.rdma.responder import Responder
from tests.harness.cell import run_cell
from tests.harness.fields import Fields

PAGE = 4096
OKAY, SLVERR = Resp.OKAY.value, Resp.SLVERR.value


@dataclass(frozen=True)
class Request:
    """A request packet on the wire."""

    qp: int
    opcode: int
    psn: int
    payload: bytes = b""
    ackreq: int = 0
    va: int = 0
    rkey: int = 0
    dma_length: int = 0
    imm: int = 0


@dataclass(frozen=True)
class Reply:
    """A packet that the responder sent; ``cycle`` is that of its last beat."""

    qp: int
    opcode: int
    psn: int
    syndrome: int
    msn: int
    payload: bytes
    cycle: int = field(default=0, compare=False)


@dataclass
class Pace:
    """Probabilities of ready per cycle, and cycles that memory takes."""

    writes: float = 1.0
    reads: float = 1.0
    packets: float = 1.0
    beats: float = 1.0
    write_latency: int = 6
    read_latency: int = 8


class Memory:
    """Bytes by address. A write is visible when its response is accepted. ``failing``: pages whose responses are
    errors."""

    def __init__(self, beat):
        self.beat, self.content, self.ranges, self.failing = beat, {}, [], set()

    def allow(self, address, content):
        """Add a range that may be used."""
        self.ranges.append((address, address + len(content)))
        self.content.update(enumerate(content, address))

    def read(self, address, size):
        return bytes(self.content[at] for at in range(address, address + size))

    def check_write(self, address):
        assert address in self.content, f"{address:#x} was written, which is in no region"

    def read_beat(self, address):
        at = address // self.beat * self.beat
        found = [self.content.get(at + lane) for lane in range(self.beat)]
        assert any(one is not None for one in found), f"{at:#x} was read, which is in no region"
        return int.from_bytes(bytes(0xEE if one is None else one for one in found), "little")


class ResponderBench:
    """Drives one cycle after another; ``replies`` and ``faults`` collect what leaves."""

    def __init__(self, ctx, dut, rng, pace=None):
        self.ctx, self.dut, self.rng, self.pace = ctx, dut, rng, pace or Pace()
        self.config = config = dut.config
        self.memory = Memory(config.beat_bytes)
        self.cycle = 0
        self.queue, self.replies, self.faults = deque(), [], []
        self.taps = []          # called with each reply
        # Responses: cycle, kind, bytes to be written, and the ID unless it is 0.
        self.responses, self.beats = deque(), deque()
        self.burst = self.packet = None
        self.first_write_beats, self.accepted, self.write_beats = [], [], 0
        self.receive, self.transmit = Fields(receive_layout(config)), Fields(transmit_layout(config))
        self.write, self.read_burst = Fields(write_layout(config)), Fields(read_layout(config))
        self.respond, self.read_beat = Fields(response_layout(config)), Fields(read_beat_layout(config))
        self.counted = dict.fromkeys(dut.counts.signature.members, 0)
        self._driven = {}

    def set(self, name, signal, value):
        if self._driven.get(name) != value:
            self._driven[name] = value
            self.ctx.set(signal, value)

    # -- Settings.

    async def start(self):
        await self.run(self.config.sweep_rows + 2)

    async def open(self, qp, **fields):
        values = {"open": 1, "mtu": 0, "remote_write": 1, "remote_read": 1, "qpn": 0x100 + qp, **fields}
        await self._strobe(self.dut.connections, qp=qp, entry=(Fields(connection_layout()), values))

    async def region(self, number, **fields):
        await self._strobe(self.dut.regions, region=number, entry=(Fields(region_layout()), {"valid": 1, **fields}))

    async def take(self, qp, head):
        await self._strobe(self.dut.taken, qp=qp, head=head)

    async def stop(self, qp):
        await self._strobe(self.dut.stop, qp=qp)

    async def mark(self, qp):
        await self._strobe(self.dut.marked, qp=qp)

    async def _strobe(self, port, **fields):
        for name, value in fields.items():
            target = getattr(port, name)
            if isinstance(value, tuple):
                target, value = target.as_value(), value[0].pack(value[1])
            self.ctx.set(target, value)
        self.ctx.set(port.valid, 1)
        await self.step()
        self.ctx.set(port.valid, 0)

    async def status(self, qp):
        self.ctx.set(self.dut.status.qp, qp)
        await self.run(4)
        status = self.dut.status
        return self.ctx.get(status.busy), self.ctx.get(status.expected), self.ctx.get(status.messages)

    # -- Requests.

    def send(self, request):
        """Queue the beats of a request."""
        width, payload = self.config.beat_bytes, request.payload
        beats = max(1, -(-len(payload) // width))
        header = {f"header.{name}": getattr(request, name)
                  for name in ("qp", "opcode", "psn", "ackreq", "va", "rkey", "dma_length", "imm")}
        for number in range(beats):
            fields = {**header, "header.length": len(payload)} if number == 0 else {}
            chunk = payload[number * width:(number + 1) * width]
            chunk += bytes(self.rng.getrandbits(8) for _ in range(width - len(chunk)))
            self.queue.append((self.receive.pack({
                **fields, "data": int.from_bytes(chunk, "little"), "first": number == 0, "last": number == beats - 1}),
                request if number == 0 else None))

    # -- Time.

    async def run(self, cycles):
        for _ in range(cycles):
            await self.step()

    async def drain(self, quiet=60, limit=100_000):
        """Run until nothing has happened for some cycles."""
        idle = 0
        for _ in range(limit):
            before = len(self.replies)
            await self.step()
            busy = (self.queue or self.responses or self.beats or self.burst or self.packet
                    or len(self.replies) != before)
            idle = 0 if busy else idle + 1
            if idle >= quiet:
                return
        raise AssertionError(f"not idle after {limit} cycles")

    async def step(self):
        ctx, dut, pace, rng = self.ctx, self.dut, self.pace, self.rng
        chance = lambda probability: probability >= 1 or rng.random() < probability  # noqa: E731
        self.set("rv", dut.requests.valid, bool(self.queue))
        if self.queue:
            self.set("rp", dut.requests.payload.as_value(), self.queue[0][0])
        self.set("wr", dut.memory_writes.ready, chance(pace.writes))
        self.set("rr", dut.memory_reads.ready, chance(pace.reads))
        self.set("pr", dut.packets.ready, chance(pace.packets))
        responds = bool(self.responses) and self.responses[0][0] <= self.cycle
        self.set("bv", dut.memory_responses.valid, responds)
        if responds:
            self.set("bp", dut.memory_responses.payload.as_value(), self.respond.pack(
                {"resp": self.responses[0][1], "id": sum(self.responses[0][3:])}))
        returns = bool(self.beats) and self.beats[0][0] <= self.cycle and chance(pace.beats)
        self.set("dv", dut.memory_beats.valid, returns)
        if returns:
            _, value, resp, last = self.beats.popleft()
            self.set("dp", dut.memory_beats.payload.as_value(),
                     self.read_beat.pack({"data": value, "resp": resp, "last": last}))
            assert ctx.get(dut.memory_beats.ready)
        if self.queue and ctx.get(dut.requests.ready):
            _, request = self.queue.popleft()
            if request is not None:
                self.accepted.append((self.cycle, request))
        if ctx.get(dut.memory_writes.valid) and self._driven["wr"]:
            self._written(ctx.get(dut.memory_writes.payload.as_value()))
        if ctx.get(dut.memory_reads.valid) and self._driven["rr"]:
            self._read(ctx.get(dut.memory_reads.payload.as_value()))
        if responds and ctx.get(dut.memory_responses.ready):
            _, resp, content, *_ = self.responses.popleft()
            if resp == OKAY:
                self.memory.content.update(content)
        if ctx.get(dut.packets.valid) and self._driven["pr"]:
            self._sent(ctx.get(dut.packets.payload.as_value()))
        if ctx.get(dut.fault.valid):
            self.faults.append((ctx.get(dut.fault.qp), ctx.get(dut.fault.code)))
        for name in self.counted:
            self.counted[name] += ctx.get(getattr(dut.counts, name))
        await ctx.tick()
        self.cycle += 1

    def _written(self, value):
        get, width = lambda name: self.write.unpack(value, name), self.config.beat_bytes
        self.write_beats += 1
        if get("first"):
            assert self.burst is None
            address, beats = get("addr"), get("len") + 1
            assert get("id") == 0
            assert address // PAGE == (address // width * width + beats * width - 1) // PAGE, "crosses 4 KiB"
            self.burst = [address // width * width, beats, {}]
            self.first_write_beats.append(self.cycle)
        at, left, content = self.burst
        strobes, data = get("strb"), get("data")
        for lane in range(width):
            if strobes >> lane & 1:
                self.memory.check_write(at + lane)
                content[at + lane] = data >> 8 * lane & 0xFF
        assert get("last") == (left == 1)
        if left > 1:
            self.burst = [at + width, left - 1, content]
            return
        self.burst = None
        failed = any(address // PAGE in self.memory.failing for address in content)
        self.responses.append((self.cycle + self.pace.write_latency, SLVERR if failed else OKAY, content))

    def _read(self, value):
        get, width = lambda name: self.read_burst.unpack(value, name), self.config.beat_bytes
        address, beats = get("addr"), get("len") + 1
        first = address // width * width
        assert get("id") == 0 and address // PAGE == (first + beats * width - 1) // PAGE, "crosses 4 KiB"
        for number in range(beats):
            at = first + number * width
            resp = SLVERR if at // PAGE in self.memory.failing else OKAY
            self.beats.append((self.cycle + self.pace.read_latency, self.memory.read_beat(at), resp,
                               number == beats - 1))

    def _sent(self, value):
        get = lambda name: self.transmit.unpack(value, name)  # noqa: E731
        if get("first"):
            assert self.packet is None
            self.packet = {name: get(f"header.{name}")
                           for name in ("qp", "opcode", "psn", "syndrome", "msn", "length", "lane")}, bytearray()
        header, content = self.packet
        content += get("data").to_bytes(self.config.beat_bytes, "little")
        if not get("last"):
            return
        self.packet = None
        length, lane = header.pop("length"), header.pop("lane")
        if length:
            assert len(content) // self.config.beat_bytes == -(-(lane + length) // self.config.beat_bytes)
        if header["opcode"] == Opcode.READ_MIDDLE:
            header["syndrome"] = header["msn"] = 0
        reply = Reply(**header, payload=bytes(content[lane:lane + length]), cycle=self.cycle)
        self.replies.append(reply)
        for tap in self.taps:
            tap(reply)


def run_bench(config, body, rng, pace=None):
    """Run ``body`` with a bench after reset."""
    dut = Responder(config)

    async def testbench(ctx):
        bench = ResponderBench(ctx, dut, rng, pace)
        await bench.start()
        await body(bench)

    run_cell(dut, testbench)
