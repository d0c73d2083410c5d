# SPDX-License-Identifier: Apache-2.0
"""A completer between cocotbext-pcie's CQ source and CC sink, with models of registers and doorbells.

The models record what happens in order; :meth:`Bench.check` compares it with what the requests demand.
"""

from collections import deque

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiStreamBus
from cocotbext.pcie.core.tlp import CplStatus, Tlp, TlpAt, TlpAttr, TlpTc, TlpType
from cocotbext.pcie.core.utils import PcieId
from cocotbext.pcie.xilinx.us.interface import CcSink, CqSource
from cocotbext.pcie.xilinx.us.tlp import Tlp_us

__all__ = ["ATOMICS", "CONFIG", "MESSAGE", "SLVERR", "Bench", "Request"]

CONFIG = {"axi_id_width": 4, "doorbell_addr_width": 16}

REGISTERS, DOORBELLS = 0x2_0000, 0x9_8000_0000
"""Addresses of BAR 0 and BAR 2."""

BOUNDARY = 128
OKAY, SLVERR, DECERR = 0, 2, 3
ATOMICS = {TlpType.FETCH_ADD_64: 1, TlpType.SWAP_64: 1, TlpType.CAS_64: 2}
"""Least DW of each atomic operation's payload."""

MESSAGE = 12
"""The first of three types of messages."""

READS = (TlpType.MEM_READ_64, TlpType.MEM_READ_LOCKED_64)


class Request(Tlp_us):
    """A request. ``message``: a type that cocotbext-pcie does not send; ``refuse``: sent during a reset."""

    message, refuse = None, False

    @classmethod
    def make(cls, kind, rng, *, bar, offset, length, first_be=0xf, last_be=None, function=0, at=0, data=None):
        """``offset`` and ``length`` in bytes and DW."""
        request = cls()
        request.fmt_type = kind
        request.bar_id, request.bar_aperture = bar, 16
        request.address = (REGISTERS if bar == 0 else DOORBELLS) + offset
        request.length, request.first_be = length, first_be
        request.last_be = (0xf if length > 1 else 0) if last_be is None else last_be
        request.requester_id = PcieId.from_int(rng.randrange(1 << 16))
        request.completer_id = PcieId(0, 0, function)
        request.tag, request.tc = rng.randrange(256), TlpTc(rng.randrange(8))
        request.attr, request.at = TlpAttr(rng.randrange(8)), TlpAt(at)
        if request.has_data():
            request.data = bytearray(rng.randbytes(4 * length) if data is None else data)
        return request

    def frame(self):
        frame = self.pack_us_cq()
        if self.message is not None:
            frame.data[2] = frame.data[2] & ~(0xf << 11) | self.message << 11
        if self.fmt_type not in (TlpType.MEM_WRITE, TlpType.MEM_WRITE_64) and self.has_data():
            frame.byte_en = [0] * 4 + [0xf] * (len(frame.data) - 4)
        return frame

    @property
    def write(self):
        return self.fmt_type == TlpType.MEM_WRITE_64 and self.message is None

    @property
    def posted(self):
        return self.write or self.message is not None

    @property
    def supported(self):
        known = self.message is None and self.fmt_type in (TlpType.MEM_READ_64, TlpType.MEM_WRITE_64)
        crossing = self.bar_id == 2 and self.address % 4096 + 4 * self.length > 4096
        return (known and not self.refuse and not self.discontinue and self.bar_id in (0, 2)
                and self.completer_id.function == 0 and self.at != TlpAt.TRANSLATE_REQ
                and not (self.write and (self.length > 256 or crossing)))

    @property
    def empty(self):
        return self.length == 1 and self.first_be == 0

    def enables(self):
        return [self.first_be, *[0xf] * (self.length - 2), *([self.last_be] if self.length > 1 else [])]


class Bench:
    """Sends requests and checks everything that the completer does."""

    def __init__(self, dut, rng, *, stall=0.0):
        self.dut, self.rng, self.stall = dut, rng, stall
        self.memory = bytearray(rng.randbytes(1 << 16))
        self.model = bytearray(self.memory)
        self.cycle = self.sent = self.received = 0
        self.errors = {}                    # address of a register -> response to reads and writes
        self.accesses, self.bursts, self.strobes = deque(), deque(), 0
        self.requests, self.completions = [], []
        self.open_doorbells = True          # the doorbell port accepts
        self.doorbell_errors, self.failed_doorbells = 0.0, 0
        self.register_delay = None          # maximum, else few cycles
        self.cq_cycles, self.cc_cycles, self.burst_cycles = [], [], []

    @classmethod
    async def start(cls, dut, rng, **options):
        bench = cls(dut, rng, **options)
        dut.rst.value, dut.refuse.value = 1, 0
        for pin in ("doorbells__awready", "doorbells__wready", "doorbells__bvalid", "registers__awready",
                    "registers__wready", "registers__bvalid", "registers__arready", "registers__rvalid"):
            getattr(dut, pin).value = 0
        for pin in ("rvalid", "arready", "rlast", "rdata", "rid", "bid"):
            getattr(dut, f"doorbells__{pin}").value = 0
        cocotb.start_soon(Clock(dut.clk, 4, unit="ns").start())
        bench.source = CqSource(AxiStreamBus.from_prefix(dut, "cq", bus_separator="__"), dut.clk, dut.rst)
        bench.sink = CcSink(AxiStreamBus.from_prefix(dut, "cc", bus_separator="__"), dut.clk, dut.rst)
        for end in (bench.source, bench.sink):
            end.log.setLevel("WARNING")
            if bench.stall:
                end.set_pause_generator(bench.stalls())
        await ClockCycles(dut.clk, 3)
        dut.rst.value = 0
        cocotb.start_soon(bench.watch())
        cocotb.start_soon(bench.collect())
        await ClockCycles(dut.clk, 2)
        return bench

    def stalls(self):
        while True:
            yield self.rng.random() < self.stall

    def chance(self):
        return self.rng.random() >= self.stall

    # -- Models: one step per cycle.

    async def watch(self):
        dut, rng = self.dut, self.rng
        addresses, beats, responses = deque(), [], deque()
        writes, read = {}, None
        packet = False                      # within a packet on CC
        while True:
            await RisingEdge(dut.clk)
            self.cycle += 1

            def taken(name, dut=dut):
                return int(getattr(dut, f"{name}valid").value) and int(getattr(dut, f"{name}ready").value)

            self.strobes += int(dut.unsupported.value)
            if taken("cq__t"):
                self.cq_cycles.append(self.cycle)
                self.received += int(dut.cq__tlast.value)
            if packet:
                assert dut.cc__tvalid.value, "a gap in a packet on CC"
            if taken("cc__t"):
                self.cc_cycles.append(self.cycle)
                self.sideband(first=not packet)
                packet = not dut.cc__tlast.value

            # Doorbells.
            if taken("doorbells__aw"):
                assert (int(dut.doorbells__awsize.value), int(dut.doorbells__awburst.value)) == (4, 1)
                addresses.append((int(dut.doorbells__awaddr.value), int(dut.doorbells__awlen.value) + 1))
            if taken("doorbells__w"):
                beats.append((int(dut.doorbells__wdata.value), int(dut.doorbells__wstrb.value)))
                if dut.doorbells__wlast.value:
                    responses.append(list(beats))
                    beats.clear()
            dut.doorbells__bvalid.value = 0
            if addresses and responses:
                address, length = addresses.popleft()
                self.bursts.append((address, length, responses.popleft()))
                self.burst_cycles.append(self.cycle)
                failed = rng.random() < self.doorbell_errors
                self.failed_doorbells += failed
                dut.doorbells__bvalid.value, dut.doorbells__bresp.value = 1, DECERR if failed else OKAY
            for pin in ("aw", "w"):
                getattr(dut, f"doorbells__{pin}ready").value = int(self.open_doorbells and self.chance())

            # Registers.
            if taken("registers__aw"):
                writes["address"] = int(dut.registers__awaddr.value)
            if taken("registers__w"):
                writes["data"] = int(dut.registers__wdata.value), int(dut.registers__wstrb.value)
            if taken("registers__b"):
                dut.registers__bvalid.value = 0
                writes.clear()
            elif len(writes) == 2 and self.due():
                writes["responded"] = True
                (data, strb), address = writes["data"], writes["address"]
                response = self.errors.get(address, OKAY)
                self.accesses.append(("write", address, data, strb, len(self.bursts)))
                if response == OKAY:
                    for lane in range(4):
                        if strb >> lane & 1:
                            self.memory[address + lane] = data >> 8 * lane & 0xff
                dut.registers__bvalid.value, dut.registers__bresp.value = 1, response
            if taken("registers__r"):
                dut.registers__rvalid.value, read = 0, None
            if taken("registers__ar"):
                read = int(dut.registers__araddr.value)
                self.accesses.append(("read", read, None, None, len(self.bursts)))
            elif read is not None and not dut.registers__rvalid.value and self.due():
                dut.registers__rvalid.value = 1
                dut.registers__rresp.value = self.errors.get(read, OKAY)
                dut.registers__rdata.value = int.from_bytes(self.memory[read:read + 4], "little")
            for pin in ("aw", "w", "ar"):
                getattr(dut, f"registers__{pin}ready").value = int(rng.random() >= self.stall)

    def due(self):
        return self.rng.random() < 1 / self.register_delay if self.register_delay else self.chance()

    def sideband(self, *, first):
        """A beat of CC is marked as PG213 demands."""
        keep, last = int(self.dut.cc__tkeep.value), int(self.dut.cc__tlast.value)
        lanes = keep.bit_length()
        assert keep == (1 << lanes) - 1 and (last or lanes == len(self.dut.cc__tkeep))
        if len(self.dut.cc__tdata) == 512:
            assert int(self.dut.cc__tuser.value) == first | last << 6 | (lanes - 1) * last << 8 or not last
            assert int(self.dut.cc__tuser.value) & 0x3f == first

    async def collect(self):
        while True:
            frame = await self.sink.recv()
            self.completions.append((frame, Tlp_us.unpack_us_cc(frame)))

    # -- Requests and what follows from them.

    async def send(self, *requests):
        for request in requests:
            self.requests.append(request)
            self.sent += 1
            await self.source.send(request.frame())

    async def drain(self, limit=20000):
        for _ in range(limit):
            await RisingEdge(self.dut.clk)
            if self.received == self.sent and self.cycle > self.cq_cycles[-1] + 3 and self.dut.idle.value:
                break
        else:
            raise AssertionError("the completer is not idle")
        await ClockCycles(self.dut.clk, 4)

    def check(self):
        """Compare all that happened since the last check with the requests."""
        strobes, bursts, self.failed_doorbells = self.failed_doorbells, 0, 0
        for request in self.requests:
            if not request.supported:
                strobes += 1
                if not request.posted:
                    self.refused(request, *self.first_counts(request))
            elif request.write:
                if request.empty:
                    continue
                if request.bar_id == 2:
                    self.doorbell(request)
                    bursts += 1
                else:
                    strobes += self.register_write(request, bursts)
            else:
                strobes += self.read(request, bursts)
        assert not self.completions and not self.bursts and not self.accesses
        assert self.memory == self.model
        assert self.strobes <= strobes
        assert bool(self.strobes) == bool(strobes)
        self.requests.clear()
        self.strobes = 0

    @staticmethod
    def first_counts(request):
        """Byte count and lower address of a first completion."""
        if request.fmt_type in READS:
            if request.empty:
                return 1, request.address & 0x7c
            return request.get_be_byte_count(), request.address & 0x7c | request.get_first_be_offset()
        if request.fmt_type in ATOMICS:
            return 4 * request.length // (2 if request.fmt_type == TlpType.CAS_64 else 1), 0
        return 4, 0

    def take(self, request, count, lower):
        assert self.completions, f"no completion for {request!r}"
        frame, found = self.completions.pop(0)
        model = Tlp.create_completion_for_tlp(request, request.completer_id)
        assert (found.requester_id, found.tag, found.tc, found.attr) == (
            model.requester_id, model.tag, model.tc, model.attr), request
        assert found.at == request.at and not found.ep and not found.completer_id_enable
        assert found.completer_id == request.completer_id and not found.discontinue
        assert (found.byte_count, found.lower_address) == (count, lower), request
        locked = request.fmt_type == TlpType.MEM_READ_LOCKED_64
        assert (found.fmt_type in (TlpType.CPL_LOCKED, TlpType.CPL_LOCKED_DATA)) == locked
        return frame, found

    def refused(self, request, count, lower):
        frame, found = self.take(request, count, lower)
        assert found.status == CplStatus.UR and found.length == 0
        assert frame.data[3] == request.first_be | request.last_be << 4
        assert frame.data[4:] == request.frame().data[:4]

    def doorbell(self, request):
        assert self.bursts, f"no burst for {request!r}"
        address, length, beats = self.bursts.popleft()
        start = request.address % (1 << CONFIG["doorbell_addr_width"])
        assert address == start & ~15
        assert length == len(beats) == ((start % 16) // 4 + request.length + 3) // 4
        found = {address + 16 * index + lane: data >> 8 * lane & 0xff for index, (data, strb) in enumerate(beats)
                 for lane in range(16) if strb >> lane & 1}
        wanted = {start + 4 * index + lane: request.data[4 * index + lane] for index, be in enumerate(request.enables())
                  for lane in range(4) if be >> lane & 1}
        assert found == wanted, request

    def register_write(self, request, bursts):
        failed = 0
        for index, be in enumerate(request.enables()):
            address = request.address + 4 * index & 0xffff
            word = request.data[4 * index:4 * index + 4]
            kind, at, data, strb, before = self.accesses.popleft()
            assert (kind, at, data, strb) == ("write", address, int.from_bytes(word, "little"), be)
            assert before == bursts, "a register write and a doorbell changed places"
            if address in self.errors:
                failed += 1
                continue
            for lane in range(4):
                if be >> lane & 1:
                    self.model[address + lane] = word[lane]
        return failed

    def read(self, request, bursts):
        """Completions of a read; returns whether it ended with an error."""
        count, lower = self.first_counts(request)
        position = 0
        while position < request.length:
            start = request.address + 4 * position
            length = min(request.length - position, (BOUNDARY - start % BOUNDARY) // 4)
            data = b""
            for index in range(length):
                address = start + 4 * index & 0xffff
                if request.bar_id == 2 or request.empty:
                    data += bytes(4)
                    continue
                kind, at, _, _, before = self.accesses.popleft()
                assert (kind, at) == ("read", address)
                assert before >= bursts, "a register read passed a doorbell write"
                if address in self.errors:
                    self.refused(request, count, lower)
                    return 1
                data += self.model[address:address + 4]
            _, found = self.take(request, count, lower)
            assert found.status == CplStatus.SC and found.length == length and found.check()
            assert found.data == data
            position, count = position + length, count - (4 * length - lower % 4)
            lower = 0
        assert count <= 0 or request.last_be != 0xf or request.first_be == 0, (count, request)
        return 0

