# SPDX-License-Identifier: Apache-2.0
"""Completions of cocotbext-pcie's model of the hard block, as beats of ``s_axi``."""

import logging

import cocotb
import pytest
from cocotb.triggers import ClockCycles

from hw.pcie.layouts import completion_layout
from hw.pcie.pins import rc_user_layout
from hw.pcie.requester.rc import CompletionUnpacker
from hw.pcie.tlp import ErrorCode
from sim.verilator.design import Design
from tests.harness.fields import Fields
from tests.pcie.requester.bench import Bench, config_of, deprecated, generator

deprecated()
pytestmark = [pytest.mark.rtl, pytest.mark.long]


@pytest.mark.parametrize("width", [128, 256, 512])
def test_completion_unpacker(simulate, width):
    simulate(Design(CompletionUnpacker, config_of(width)), name=f"completion_unpacker_{width}")


class _Packet:
    """A completion as decoded from the pins: its words, and the number of those before the hard block withdrew it."""

    def __init__(self):
        self.words, self.intact = [], None


class _Bench(Bench):
    """``beats`` has the cycles in which RC was accepted, ``items`` those of items with their payload.

    If ``patient``, an item is accepted only after it was stalled.
    """

    def __init__(self, dut, rng):
        super().__init__(dut, rng, ())
        self.width = len(dut.rc__tdata)
        self.count = self.width // 32
        self.user = Fields(rc_user_layout(self.width))
        self.item = Fields(completion_layout(config_of(self.width)))
        self.eager, self.ready, self.patient = 1.0, 1.0, False
        self.sent, self.packets, self.items, self.beats = [], [], [], []
        self.current, self.before, self.stalled, self.lost = None, None, 0, 0

    async def start(self):
        from cocotbext.axi import AxiStreamBus
        from cocotbext.pcie.xilinx.us.interface import RcSource

        self.dut.o__ready.value = 0
        self.source = RcSource(AxiStreamBus.from_prefix(self.dut, "rc", bus_separator="__"), self.dut.clk,
                               segments=2 if self.width == 512 else 1)
        self.source.log.setLevel(logging.WARNING)
        self.source.set_pause_generator(self._stalls())
        await super().start()

    def _stalls(self):
        while True:
            yield self.rng.random() >= self.eager

    def send(self, dwords, address, *, discontinue=False, **fields):
        from cocotbext.pcie.core.tlp import TlpType
        from cocotbext.pcie.core.utils import PcieId
        from cocotbext.pcie.xilinx.us.tlp import Tlp_us

        rng, tlp = self.rng, Tlp_us()
        tlp.fmt_type = TlpType.CPL_DATA if dwords else TlpType.CPL
        tlp.lower_address, tlp.byte_count, tlp.length = address, rng.randint(1, 4096), dwords
        tlp.request_completed, tlp.tag, tlp.error_code = rng.random() < 0.5, rng.getrandbits(8), 0
        tlp.requester_id = PcieId.from_int(rng.getrandbits(16))
        tlp.completer_id = PcieId.from_int(rng.getrandbits(16))
        for name, value in fields.items():
            setattr(tlp, name, value)
        tlp.data = bytearray(rng.randbytes(4 * dwords))
        tlp.discontinue = discontinue
        frame = tlp.pack_us_rc()
        frame.byte_en = [15] * len(frame.data)
        self.sent.append((tlp, frame))
        self.source.send_nowait(frame)

    def sample(self):
        dut = self.dut
        if int(dut.rc__tvalid.value):
            if int(dut.rc__tready.value):
                self.beats.append(self.cycle - 1)
                self._decode(*(int(self.pin(f"rc__{name}").value) for name in ("tdata", "tuser", "tkeep", "tlast")))
            else:
                self.stalled += 1
        valid, payload = int(dut.o__valid.value), int(dut.o__payload.value)
        if self.before is not None:
            assert valid and payload == self.before, "an item changes while it is stalled"
        self.before = payload if valid and not int(dut.o__ready.value) else None
        if valid and self.before is None:
            self.items.append((self.cycle - 1, payload))
        if int(dut.rst.value):
            self.items, self.before, self.lost = [], None, len(self.packets)

    def drive(self):
        self.dut.o__ready.value = self.rng.random() < self.ready and (self.before is not None or not self.patient)

    def _decode(self, data, user, keep, last):
        """Collect words of completions from a beat."""
        if self.width == 512:
            starts = {4 * self.user.unpack(user, f"start_{number}") for number in range(4)
                      if self.user.unpack(user, "starts") >> number & 1}
            ends = {self.user.unpack(user, f"end_{number}") for number in range(4)
                    if self.user.unpack(user, "ends") >> number & 1}
        else:
            starts, ends = (() if self.current else (0,)), ((keep.bit_length() - 1,) if last else ())
        for place in range(self.count):
            if place in starts:
                self.current = _Packet()
                self.packets.append(self.current)
            if self.current:
                if self.user.unpack(user, "discontinue") and self.current.intact is None:
                    self.current.intact = len(self.current.words)
                self.current.words.append(data >> 32 * place & 0xffffffff)
            if place in ends:
                self.current = None

    async def finish(self):
        """Wait for the end, and compare all items."""
        await self.until(lambda: len(self.packets) == len(self.sent) and not self.current)
        self.ready, self.patient = 1.0, False
        await ClockCycles(self.dut.clk, 40)
        found = [payload for _, payload in self.items]
        for packet, (tlp, frame) in zip(self.packets[self.lost:], self.sent[self.lost:], strict=True):
            assert packet.words == frame.data
            expected = list(self._expected(packet, tlp))
            taken, found = found[:len(expected)], found[len(expected):]
            for (fields, words), payload in zip(expected, taken, strict=True):
                assert {name: self.item.unpack(payload, name) for name in fields} == fields
                beat = self.item.unpack(payload, "data")
                assert {place: beat >> 32 * place & 0xffffffff for place in words} == words
        assert not found
        self.sent, self.packets, self.items, self.lost = [], [], [], 0

    def _expected(self, packet, tlp):
        """Fields, and words by position, of each item of a completion."""
        payload = packet.words[3:]
        lane = (tlp.lower_address >> 2) % self.count
        intact = len(packet.words) + 1 if packet.intact is None else packet.intact
        number = max(1, -(-(lane + len(payload)) // self.count) if payload else 1)
        for index in range(number):
            places = {lane + offset - self.count * index: offset for offset in range(len(payload))
                      if (lane + offset) // self.count == index}
            # A beat on RC is withdrawn as a whole, so an item is intact if its last word is.
            last = 3 + max(places.values()) if places else 2
            error = tlp.error_code or (ErrorCode.POISONED.value if tlp.ep else 0)
            if not error and (not payload or last >= intact):
                error = ErrorCode.INVALID_LENGTH.value
            yield {"tag": tlp.tag, "address": tlp.lower_address, "dwords": len(payload), "byte_count": tlp.byte_count,
                   "completed": int(tlp.request_completed), "status": int(tlp.status), "first": int(index == 0),
                   "last": int(index == number - 1), "error": error}, {
                       place: payload[offset] for place, offset in places.items()}


def _random_completion(bench, **fields):
    rng = bench.rng
    dwords = rng.choice((1, 2, 4, 5, 6, 12, 13, 14, 16, 32, 64, rng.randint(1, 40), rng.randint(1, 256)))
    address = rng.choice((0, 4 * rng.randrange(16))) + 64 * rng.randrange(64) + rng.randrange(4)
    bench.send(dwords, address, **fields)


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(eager=[1.0, 0.5], ready=[1.0, 0.4])
async def random_traffic(dut, eager, ready):
    bench = _Bench(dut, generator())
    bench.eager, bench.ready, bench.patient = eager, ready, ready < 1
    await bench.start()
    for _ in range(120):
        _random_completion(bench)
    await bench.finish()


@cocotb.test(timeout_time=400, timeout_unit="us")
async def all_lanes_and_lengths(dut):
    """Each length up to a beat and more at each lane, behind completions of every alignment."""
    bench = _Bench(dut, generator())
    lengths = (*range(bench.count + 5), 2 * bench.count + 13)
    cases = [(dwords, lane) for dwords in lengths for lane in range(bench.count)]
    bench.rng.shuffle(cases)
    await bench.start()
    for dwords, lane in cases:
        bench.send(dwords, 4 * lane)
    await bench.finish()


@cocotb.test(timeout_time=400, timeout_unit="us")
async def errors(dut):
    """Errors of each kind, which do not spread to other completions than those withdrawn in the same beat."""
    from cocotbext.pcie.core.tlp import CplStatus

    bench = _Bench(dut, generator())
    bench.ready = 0.8
    await bench.start()
    for _ in range(40):
        for _ in range(bench.rng.randint(0, 3)):
            _random_completion(bench)
        kind = bench.rng.randrange(5)
        if kind == 0:
            bench.send(0, bench.rng.getrandbits(12), status=CplStatus.UR, error_code=ErrorCode.BAD_STATUS.value)
        elif kind == 1:
            bench.send(0, bench.rng.getrandbits(12), length=bench.rng.choice((0, 16)))
        elif kind == 2:
            _random_completion(bench, ep=True, error_code=bench.rng.choice((0, ErrorCode.POISONED.value)))
        elif kind == 3:
            _random_completion(bench, discontinue=True, ep=bench.rng.random() < 0.2)
        else:
            _random_completion(bench, error_code=bench.rng.randint(1, 15), status=CplStatus(bench.rng.choice((0, 4))))
    await bench.finish()


@cocotb.test(timeout_time=400, timeout_unit="us")
async def reset_in_a_packet(dut):
    """Beats of a completion that started before a reset are dropped; all that start after it arrive."""
    bench = _Bench(dut, generator())
    bench.ready = 0.7
    await bench.start()
    for _ in range(12):
        for _ in range(8):
            _random_completion(bench)
        await ClockCycles(dut.clk, bench.rng.randint(2, 25))
        dut.rst.value = 1
        await ClockCycles(dut.clk, 1)
        dut.rst.value = 0
        await bench.finish()
        bench.ready = 0.7


@cocotb.test(timeout_time=400, timeout_unit="us")
async def throughput(dut):
    """One beat of RC per cycle, if a beat completes one item at most; no tready is 0."""
    bench = _Bench(dut, generator())
    await bench.start()
    for dwords in (16, 32, 64, 128):
        bench.beats.clear()
        bench.stalled = 0
        for number in range(30):
            bench.send(dwords, 4 * dwords * number % 4096)
        await bench.finish()
        cycles = bench.beats[-1] - bench.beats[0] + 1
        # With straddling, a completion takes halves of beats: 1.5 beats for 16 DW.
        parts = 2 if bench.width == 512 else 1
        beats = 30 * -(-(dwords + 3) * parts // bench.count) // parts
        dut._log.info(f"{bench.width} bit, {dwords} DW: {cycles / 30} cycles each")
        assert cycles == beats and not bench.stalled


@cocotb.test(timeout_time=400, timeout_unit="us")
async def latency(dut):
    """Two cycles from the beat on RC that completes an item."""
    bench = _Bench(dut, generator())
    await bench.start()
    for dwords, lane in [(1, 0), (0, 1), (bench.count - 3, 3 % bench.count)] * 3:
        first = len(bench.beats)
        bench.send(dwords, 4 * lane)
        await bench.until(lambda: bench.items)
        cycles, items = bench.beats[first:], [cycle for cycle, _ in bench.items]
        await bench.finish()
        assert items[0] - cycles[0] == 2, (dwords, lane)
