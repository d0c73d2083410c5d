# SPDX-License-Identifier: Apache-2.0
"""Requests on RQ against cocotbext-pcie's model of the hard block, and against a decoder of the pins."""

import logging

import cocotb
import pytest
from cocotb.triggers import ClockCycles

from hw.pcie.layouts import ReadTlp, write_tlp_layout
from hw.pcie.pins import rq_user_layout
from hw.pcie.requester.rq import RequestPacker
from sim.verilator.design import Design
from tests.harness.fields import Fields
from tests.pcie.requester.bench import Bench, config_of, deprecated, generator

deprecated()
pytestmark = [pytest.mark.rtl, pytest.mark.long]


@pytest.mark.parametrize("width", [128, 256, 512])
def test_request_packer(simulate, width):
    simulate(Design(RequestPacker, config_of(width)), name=f"request_packer_{width}")


class _Bench(Bench):
    """Writes and reads to RQ, whose beats are checked and split into TLPs: ``accepted`` has the words of each."""

    def __init__(self, dut, rng):
        super().__init__(dut, rng, ("data", "writes", "reads"))
        self.width = len(dut.rq__tdata)
        self.count = self.width // 32
        config = config_of(self.width)
        self.write, self.read = Fields(write_tlp_layout(config)), Fields(ReadTlp)
        self.user = Fields(rq_user_layout(self.width))
        # Headers wait until all of their data is offered, and data is offered as a whole.
        self.eager["data"] = 2.0
        self.beats, self.held, self.most = [], [], 0
        self.ready, self.halt, self.quiet = 1.0, 0.0, False
        self.expected = {"writes": [], "reads": []}
        self.writes, self.accepted, self.sent, self.ended, self.open, self.before = 0, [], 0, 0, 0, None

    async def start(self):
        from cocotbext.axi import AxiStreamBus
        from cocotbext.pcie.xilinx.us.interface import RqSink

        self.dut.halt.value = 0
        self.sink = RqSink(AxiStreamBus.from_prefix(self.dut, "rq", bus_separator="__"), self.dut.clk, self.dut.rst,
                           segments=2 if self.width == 512 else 1)
        self.sink.log.setLevel(logging.WARNING)
        self.sink.set_pause_generator(self._stalls())
        await super().start()

    def _stalls(self):
        while True:
            yield self.rng.random() >= self.ready

    def add_write(self, dwords, lane, *, first_be=None, last_be=None):
        rng = self.rng
        header = {"address": rng.getrandbits(60) << 4 & (1 << 62) - 1 | lane, "dwords": dwords, "first_be": 15,
                  "last_be": 15 if dwords > 1 else 0, "attributes": rng.getrandbits(3), "lane": lane}
        header |= {} if first_be is None else {"first_be": first_be, "last_be": last_be}
        header["address"] = self.write.unpack(self.write.pack(header), "address")
        payload = [rng.getrandbits(32) for _ in range(dwords)]
        words = [rng.getrandbits(32) for _ in range(lane)] + payload
        words += [rng.getrandbits(32) for _ in range(-len(words) % self.count)]
        beats = [sum(word << 32 * place for place, word in enumerate(words[at:at + self.count]))
                 for at in range(0, len(words), self.count)]
        self.held.append((beats, self.write.pack(header)))
        self.expected["writes"].append((header, payload))

    def add_read(self):
        rng = self.rng
        header = {"address": self.read.unpack(rng.getrandbits(self.read.width), "address"),
                  "dwords": rng.choice((1, 16, 128, 1024, rng.randint(1, 1024))), "first_be": rng.getrandbits(4),
                  "last_be": rng.getrandbits(4), "attributes": rng.getrandbits(3), "tag": rng.getrandbits(8)}
        self.offers["reads"].append(self.read.pack(header))
        self.expected["reads"].append((header, []))

    def sample(self):
        dut = self.dut
        if int(dut.data__ready.value):
            assert int(dut.data__valid.value), "data is taken before it is valid"
        self.sent += int(dut.sent.value)
        assert self.sent <= self.ended
        valid, ready = int(dut.rq__tvalid.value), int(dut.rq__tready.value)
        # A packet is not interrupted, and a stalled beat is stable.
        assert valid or not self.open
        if self.before:
            assert valid and self._pins() == self.before
        self.before = self._pins() if valid and not ready else None
        idle = int(dut.idle.value)
        assert not (idle and valid)
        if idle:
            assert self.sent == self.ended
        self.quiet = bool(int(dut.halt.value)) and (self.quiet or idle)
        assert not self.quiet or idle
        if valid and ready:
            self.beats.append((self.cycle - 1, *self._pins()))
            self._decode(*self._pins())

    def _pins(self):
        return [int(self.pin(f"rq__{name}").value) for name in ("tdata", "tuser", "tkeep", "tlast")]

    def _decode(self, data, user, keep, last):
        """Split a beat into TLPs."""
        words, ended = [data >> 32 * place & 0xffffffff for place in range(self.count)], self.ended
        if self.width == 512:
            def field(name):
                return self.user.unpack(user, name)

            assert (keep, last) == (0xffff, 0)
            starts, ends = field("starts"), field("ends")
            assert starts in (0, 1, 3) and ends in (0, 1, 3)
            begin = [4 * field(f"start_{number}") for number in range(starts.bit_count())]
            finish = [field(f"end_{number}") for number in range(ends.bit_count())]
            assert begin in ([], [0], [8], [0, 8]) and finish == sorted(finish)
            enables = [(field(f"first_be_{number}"), field(f"last_be_{number}")) for number in range(len(begin))]
        else:
            begin = [] if self.open else [0]
            finish = [keep.bit_length() - 1] if last else []
            assert keep == (2 << finish[0]) - 1 if last else keep == (1 << self.count) - 1
            enables = [(self.user.unpack(user, "first_be"), self.user.unpack(user, "last_be"))]
        # Every DW belongs to the TLP that started last; a second one starts only behind the end of the first.
        for place, word in enumerate(words):
            if begin and begin[0] == place:
                assert not self.open
                begin.pop(0)
                self.accepted.append((self.cycle, enables.pop(0), []))
                self.open = 1
            if self.open:
                self.accepted[-1][2].append(word)
                if finish and finish[0] == place:
                    finish.pop(0)
                    self.open = 0
                    self.ended += self.accepted[-1][2][2] >> 11 & 15 == 1
            else:
                assert place or self.width != 512, "a beat starts with an unused half"
        assert not begin and not finish
        self.most = max(self.most, self.ended - ended)

    def drive(self):
        self.dut.halt.value = self.rng.random() < self.halt
        if self.held and self.rng.random() < self.eager["writes"]:
            beats, header = self.held.pop(0)
            self.offers["data"].extend(beats)
            self.offers["writes"].append(header)

    def done(self):
        return len(self.accepted) == sum(map(len, self.expected.values())) and not self.open

    async def finish(self):
        """Wait for the end, and compare all TLPs."""
        await self.until(self.done)
        self.halt = 0
        await self.until(lambda: int(self.dut.idle.value))
        await ClockCycles(self.dut.clk, 20)
        assert self.sent == self.ended == self.writes + len(self.expected["writes"])
        self.writes = self.sent
        found = {"writes": [], "reads": []}
        for _, enables, words in self.accepted:
            frame = self.sink.recv_nowait()
            assert (frame.data, frame.first_be, frame.last_be) == (words, *enables)
            assert frame.seq_num == 0 and not frame.discontinue
            found["writes" if words[2] >> 11 & 15 else "reads"].append(frame)
        assert self.sink.empty()
        for kind, frames in found.items():
            for frame, (header, payload) in zip(frames, self.expected[kind], strict=True):
                _check(frame, header, payload)
        self.expected = {"writes": [], "reads": []}
        self.kinds, self.accepted = [words[2] >> 11 & 15 for _, _, words in self.accepted], []


def _check(frame, header, payload):
    from cocotbext.pcie.core.tlp import TlpType
    from cocotbext.pcie.xilinx.us.tlp import Tlp_us

    tlp = Tlp_us.unpack_us_rq(frame)
    assert tlp.fmt_type in ((TlpType.MEM_WRITE, TlpType.MEM_WRITE_64) if payload else
                            (TlpType.MEM_READ, TlpType.MEM_READ_64))
    found = {"address": tlp.address >> 2, "dwords": tlp.length, "first_be": tlp.first_be, "last_be": tlp.last_be,
             "attributes": int(tlp.attr)}
    assert found == {name: header[name] for name in found}
    assert tlp.tag == header.get("tag", 0)
    assert (int(tlp.at), tlp.ep, tlp.requester_id_enable, int(tlp.tc), int(tlp.requester_id)) == (0, False, False, 0, 0)
    assert frame.data[4:] == payload and frame.data[3] >> 31 == 0


def _random_write(bench, lengths=None):
    rng = bench.rng
    dwords = rng.choice(lengths or (1, 2, 3, 4, 5, 8, 12, 13, 16, 32, 64, rng.randint(1, 64), rng.randint(1, 256)))
    bench.add_write(dwords, rng.choice((0, rng.randrange(bench.count))),
                    first_be=rng.getrandbits(4), last_be=rng.getrandbits(4))


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(ready=[1.0, 0.4], eager=[1.0, 0.2])
async def random_traffic(dut, ready, eager):
    bench = _Bench(dut, generator())
    bench.ready, bench.eager["writes"], bench.eager["reads"] = ready, eager, eager
    await bench.start()
    for _ in range(80):
        _random_write(bench)
        bench.add_read()
    await bench.finish()


@cocotb.test(timeout_time=400, timeout_unit="us")
async def all_lanes_and_lengths(dut):
    """Each length up to a beat and more from each lane, behind writes of every alignment, with reads between them."""
    bench = _Bench(dut, generator())
    cases = [(dwords, lane) for dwords in (*range(1, bench.count + 14), 64) for lane in range(bench.count)]
    bench.rng.shuffle(cases)
    await bench.start()
    bench.eager["reads"] = 0.2
    for number, (dwords, lane) in enumerate(cases):
        bench.add_write(dwords, lane)
        if number % 4 == 0:
            bench.add_read()
    await bench.finish()
    assert bench.most == 1 + (bench.width == 512), "no two writes ended in one beat"


@cocotb.test(timeout_time=400, timeout_unit="us")
async def halts(dut):
    """No TLP starts during a halt: those that were planned before leave, and once idle, the packer stays so."""
    bench = _Bench(dut, generator())
    bench.ready = 0.7
    await bench.start()
    for _ in range(100):
        _random_write(bench)
        bench.add_read()
    for _ in range(20):
        bench.halt = 0
        await ClockCycles(dut.clk, bench.rng.randint(1, 10))
        bench.halt = 1
        started = len(bench.accepted)
        await bench.until(lambda: bench.quiet, limit=400)
        # A planned beat has two starts at most.
        assert len(bench.accepted) - started <= 2 * 8
        await ClockCycles(dut.clk, bench.rng.randint(1, 20))
    bench.halt = 0.5
    await bench.finish()


PACE = {
    # Width: DW of a write, its lane, whether there is a read for each, cycles of two writes with their reads.
    512: [(16, 0, True, 4), (64, 0, True, 10), (64, 0, False, 9), (16, 0, False, 3), (4, 0, True, 2), (1, 5, True, 2),
          (256, 0, False, 33), (64, 8, True, 10), (12, 0, True, 3), (1, 0, False, 2), (28, 0, True, 5),
          # Five beats of data each.
          (64, 8, False, 10)],
    256: [(16, 0, True, 8), (64, 0, False, 18), (64, 4, False, 18), (32, 0, True, 12)],
    128: [(16, 0, True, 12), (64, 0, False, 34), (64, 1, True, 36)],
}


@cocotb.test(timeout_time=400, timeout_unit="us")
async def throughput(dut):
    """Saturated traffic takes as many beats as its DW need, without gaps."""
    pairs, width = 10, len(dut.rq__tdata)
    bench = _Bench(dut, generator())
    await bench.start()
    for dwords, lane, reads, beats in PACE[width]:
        bench.halt = 1.0
        await ClockCycles(dut.clk, 5)
        for _ in range(2 * pairs):
            bench.add_write(dwords, lane)
            if reads:
                bench.add_read()
        await ClockCycles(dut.clk, 2 * pairs + 5)
        first = len(bench.beats)
        bench.halt = 0.0
        await bench.finish()
        cycles = bench.beats[-1][0] - bench.beats[first][0] + 1
        dut._log.info(f"{width} bit, {dwords} DW at {lane}{' and a read' * reads}: {cycles / pairs / 2} cycles each")
        assert abs(cycles - beats * pairs) <= 2, (dwords, lane, reads, cycles)


@cocotb.test(timeout_time=400, timeout_unit="us")
async def latency(dut):
    """Cycles from a header to its first beat: 3 of a read, 4 of a write, 5 of one with an early load."""
    bench = _Bench(dut, generator())
    await bench.start()
    for lane in (None, *range(bench.count)):
        if lane is None:
            bench.add_read()
        else:
            bench.add_write(8, lane)
        first = len(bench.beats)
        await bench.until(lambda: int(dut.reads__valid.value) or int(dut.writes__valid.value))
        start = bench.began["reads" if lane is None else "writes"]
        await bench.finish()
        assert bench.beats[first][0] - start == (3 if lane is None else 4 + (4 < lane)), lane


@cocotb.test(timeout_time=400, timeout_unit="us")
async def neither_starves(dut):
    """While both wait, one write at most starts between two reads, and three reads between two writes."""
    bench = _Bench(dut, generator())
    await bench.start()
    for _ in range(60):
        _random_write(bench)
        bench.add_read()
    await bench.finish()
    kinds = "".join("RW"[kind] for kind in bench.kinds)
    both = kinds[:min(kinds.rindex("W"), kinds.rindex("R"))]
    assert "WW" not in both and "RRRR" not in both, kinds
