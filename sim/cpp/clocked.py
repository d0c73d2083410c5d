# SPDX-License-Identifier: Apache-2.0
"""A component whose inputs and reset come out of flip-flops, which Verilator simulates faster."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In

__all__ = ["ClockedInputs"]


class ClockedInputs(wiring.Component):
    """``component`` with the same ports; what its inputs are set to, and its reset, it gets at the next clock edge.

    Verilator evaluates logic behind an input of the top module once for what the program set there and once more after
    the edge. As Amaranth writes a reset into the logic in front of each flip-flop, that would be most of a design.
    """

    def __init__(self, component: wiring.Component) -> None:
        self._component = component
        super().__init__(component.signature)

    def elaborate(self, platform):
        m = Module()
        component = self._component
        m.domains.clocked = clocked = ClockDomain(local=True)
        m.d.comb += clocked.clk.eq(ClockSignal())
        reset = Signal(reset_less=True)         # or the reset would hold it at 0
        m.d.sync += reset.eq(ResetSignal())
        m.d.comb += clocked.rst.eq(reset)
        m.submodules.component = DomainRenamer("clocked")(component)
        for (_, member, outer), (_, _, inner) in zip(self.signature.flatten(self),
                                                     component.signature.flatten(component), strict=True):
            if member.flow == In:
                m.d.sync += Value.cast(inner).eq(outer)
            else:
                m.d.comb += Value.cast(outer).eq(inner)
        return m
