# SPDX-License-Identifier: Apache-2.0
"""Engines that are alike are described, and synthesised, once."""

from amaranth import *
from amaranth.lib import wiring

__all__ = ["TWIN", "Twin"]

TWIN = "engine"
"""Name of the Verilog module."""


class Twin(wiring.Component):
    """Placeholder of a component whose Verilog is the module :data:`TWIN`, beside the board's Verilog.

    Parameters
    ----------
    signature : wiring.Signature
        The component's; it is in the ``sync`` domain alone, and has no reset.
    """

    def __init__(self, signature: wiring.Signature) -> None:
        super().__init__(dict(signature.members.items()))

    def elaborate(self, platform: object) -> Instance:
        ports = {f"{'i' if member.flow == wiring.In else 'o'}_{'__'.join(map(str, path))}": value
                 for path, member, value in self.signature.flatten(self)}
        return Instance(TWIN, i_clk=ClockSignal(), **ports)
