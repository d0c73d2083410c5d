# SPDX-License-Identifier: Apache-2.0
"""The AXI4 monitor as formal properties: it is neither contradictory nor blind."""

import pytest
from amaranth.hdl import Cat, Cover, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.axi import AxiChecker, AxiSignature, Burst
from tests.harness.formal import ProofFailed, prove

pytestmark = [pytest.mark.formal, pytest.mark.long]

BUS = AxiSignature(addr_width=12, data_width=16, id_width=1)


class Reachable(wiring.Component):
    """Both sides are assumed to keep the rules, and may do anything else."""

    def __init__(self):
        super().__init__({pin: In(member.shape) for pin, member in BUS.members.items()})

    def elaborate(self, platform):
        m = Module()
        m.submodules.checker = checker = AxiChecker(
            BUS, max_outstanding=2, manager="assume", subordinate="assume")
        m.d.comb += checker.observe(self)

        # Bursts of two beats have completed on both channels, write data arrived before its address, and
        # two of each have been outstanding.
        seen = Signal(5)
        events = Cat(
            self.rvalid & self.rready & self.rlast & (checker.reads == 2),
            self.bvalid & self.bready & (checker.writes == 2),
            self.arvalid & self.arready & (self.arlen == 1),
            self.awvalid & self.awready & (self.awlen == 1),
            self.wvalid & self.wready & (checker.writes == 0) & ~self.awvalid,
        )
        m.d.sync += [seen.eq(seen | events), Cover(seen.all() & (checker.reads == 0) & (checker.writes == 0))]
        return m


def test_rules_allow_traffic():
    prove(Reachable(), name="axi-reachable", depth=12, mode="cover")


class Writer(wiring.Component):
    """A manager that writes one burst of three beats after another; ``flaw`` makes it break a rule."""

    awready: In(1)
    wready: In(1)
    bid: In(1)
    bresp: In(2)
    bvalid: In(1)

    def __init__(self, flaw=None):
        self.flaw = flaw
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        bus = BUS.create()
        m.submodules.checker = checker = AxiChecker(BUS, max_outstanding=2, subordinate="assume")
        m.d.comb += [
            bus.awready.eq(self.awready), bus.wready.eq(self.wready),
            bus.bid.eq(self.bid), bus.bresp.as_value().eq(self.bresp), bus.bvalid.eq(self.bvalid),
            *checker.observe(bus),
        ]

        # Address and data go their own ways; the next burst starts after the response.
        busy = Signal()
        address = Signal()
        data = Signal()
        beat = Signal(2)
        last = 1 if self.flaw == "short" else 2
        m.d.comb += [
            bus.awvalid.eq(address),
            bus.awaddr.eq(0xFFC if self.flaw == "page" else 0xFFA),
            bus.awlen.eq(2),
            bus.awsize.eq(1),
            bus.awburst.eq(Burst.INCR),
            bus.wvalid.eq(data),
            bus.wstrb.eq(3),
            bus.wlast.eq(beat == last),
            bus.bready.eq(1),
        ]
        with m.If(~busy):
            m.d.sync += [busy.eq(1), address.eq(1), data.eq(1), beat.eq(0)]
        with m.Elif(bus.bvalid):
            m.d.sync += busy.eq(0)
        with m.If(address & (bus.awready | (self.flaw == "impatient"))):
            m.d.sync += address.eq(0)
        with m.If(data & bus.wready):
            m.d.sync += beat.eq(beat + 1)
            with m.If(bus.wlast):
                m.d.sync += data.eq(0)
        return m


def test_writer_keeps_the_rules():
    prove(Writer(), name="axi-writer", depth=9)


@pytest.mark.parametrize("flaw", ["short", "page", "impatient"])
def test_flaw_is_found(flaw):
    with pytest.raises(ProofFailed, match=rf"^axi-writer-{flaw} failed in mode bmc within 9 cycles:\n(.*\n)*.*"
                                          r"Assert failed in top\.component\.checker"):
        prove(Writer(flaw), name=f"axi-writer-{flaw}", depth=9)
