# SPDX-License-Identifier: Apache-2.0
"""The sweep over all tables after reset: LUT RAM and block RAM keep their contents over ``rst``.

Sweep -> every table.  One row per cycle in all tables at once, for as many cycles as the longest table has rows,
rounded up to a power of two.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from .sizes import EngineSizes

__all__ = ["Sweep", "SweepSignature"]


class SweepSignature(wiring.Signature):
    """While ``active``, each table writes its initial value to the row ``address``.

    Parameters
    ----------
    config : DmaConfig or AceConfig
        ``sweep_rows`` is the number of rows of the longest table.

    Members
    -------
    active : ``Out(1)``
        From the first cycle after reset until the last row has been written.
    address : ``Out(range(sweep_rows))``
        A shorter table uses the low bits and is written more than once.
    """

    def __init__(self, config: EngineSizes) -> None:
        super().__init__({"active": Out(1), "address": Out(range(config.sweep_rows))})


class Sweep(wiring.Component):
    """Counts through all rows once after reset.

    Parameters
    ----------
    config : DmaConfig or AceConfig

    Members
    -------
    init : ``Out(SweepSignature)``
    """

    def __init__(self, config: EngineSizes) -> None:
        super().__init__({"init": Out(SweepSignature(config))})

    def elaborate(self, platform):
        m = Module()
        width = len(self.init.address)
        done = Signal(width + 1)
        m.d.comb += [self.init.active.eq(~done[width]), self.init.address.eq(done[:width])]
        with m.If(self.init.active):
            m.d.sync += done.eq(done + 1)
        return m
