# SPDX-License-Identifier: Apache-2.0
"""Resets between the adapter's clock domain and that of the engine behind it.

FunctionControl, reset of each domain -> EngineReset -> reset of the engine, reset of both ends of all crossings.
Latency: a reset of one domain is one of the other after 1 cycle of its own clock and 3 to 4 of the other's; both end
within 3 round trips.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.stream.reset_handshake import ResetHandshake

__all__ = ["ENGINE_DOMAIN", "EngineReset"]

ENGINE_DOMAIN = "engine"
"""Clock domain of the engine where it is not that of the adapter."""


class EngineReset(wiring.Component):
    """A reset of the adapter or of the engine holds both ends of the crossings in reset, and the engine.

    ``down`` and ``engine_reset`` overlap in each reset, however short it was: none ends before the other has begun. So
    nothing that was in a crossing comes out of it afterwards. Both clocks must run for a reset to end.

    Members
    -------
    reset : ``In(1)``
        In ``sync``: reset the engine.
    down : ``Out(1)``
        In ``sync``: the engine is in reset, and so are the adapter's ends of all crossings. Registered, initially 1.
    engine_reset : ``Out(1)``
        In the engine's domain: reset of the engine, and of its ends of all crossings. Registered, initially 1.
    """

    reset: In(1)
    down: Out(1, init=1)
    engine_reset: Out(1, init=1)

    def elaborate(self, platform):
        m = Module()
        handshake = ResetHandshake(("sync", ENGINE_DOMAIN))
        m.submodules.handshake = ResetInserter(self.reset)(handshake)
        m.d.sync += self.down.eq(handshake.stop[0])
        m.d[ENGINE_DOMAIN] += self.engine_reset.eq(handshake.stop[1])
        return m
