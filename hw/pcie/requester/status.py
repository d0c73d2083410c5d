# SPDX-License-Identifier: Apache-2.0
"""State of the requester as a whole.

ReadPath, WritePath, RequestPacker -> RequesterStatus -> FunctionControl.  Latency: 1 cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["RequesterStatus"]


class RequesterStatus(wiring.Component):
    """Combine the states of the paths.

    Members
    -------
    reads, writes, packer : ``In(1)``
        The part is idle.
    idle : ``Out(1)``
        Registered.
    """

    def __init__(self) -> None:
        super().__init__({**{name: In(1) for name in ("reads", "writes", "packer")}, "idle": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.idle.eq(self.reads & self.writes & self.packer)
        return m
