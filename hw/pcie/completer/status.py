# SPDX-License-Identifier: Apache-2.0
"""State of the completer as a whole.

The completer's stages -> CompleterStatus -> control.  Latency: 1 cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["CompleterStatus"]


class CompleterStatus(wiring.Component):
    """Combine the stages' strobes and states.

    Members
    -------
    filter_unsupported, doorbells_unsupported, registers_unsupported : ``In(1)``
        Strobes. Two in one cycle count as one.
    filter_idle, split_idle, doorbells_idle, packer_idle : ``In(1)``
    unsupported, idle : ``Out(1)``
        Registered.
    """

    def __init__(self) -> None:
        super().__init__({
            **{f"{name}_unsupported": In(1) for name in ("filter", "doorbells", "registers")},
            **{f"{name}_idle": In(1) for name in ("filter", "split", "doorbells", "packer")},
            "unsupported": Out(1), "idle": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.d.sync += [
            self.unsupported.eq(self.filter_unsupported | self.doorbells_unsupported | self.registers_unsupported),
            self.idle.eq(self.filter_idle & self.split_idle & self.doorbells_idle & self.packer_idle),
        ]
        return m
