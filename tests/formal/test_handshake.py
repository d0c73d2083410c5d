# SPDX-License-Identifier: Apache-2.0
"""Link: the handshake of its two ends over a channel that drops, delays, duplicates and reorders packets. Bounded, from
power-up.
"""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Const, Cover, Format, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from hw.ace.config import LINK_SESSION_WIDTH
from hw.ace.layouts import LinkState
from hw.ace.link.state import LinkControl
from tests.formal.small import ACE
from tests.harness.formal import prove

pytestmark = [pytest.mark.formal, pytest.mark.long]

PACKET = data.StructLayout({"some": 1, "control": 1, "refuse": 1, "state": LinkState, "session": LINK_SESSION_WIDTH,
                            "peer": LINK_SESSION_WIDTH})
"""Parts of a packet that the handshake uses. ``peer``: of a CREDIT packet, the session that it names; of another, the
one for which its CRC was computed. ``session``: that of its sender; only CREDIT packets contain it."""

QUIET = 3
"""Cycles after reset in which no port sends: it begins its new session in the second one."""

PROGRESS = 12
"""Cycles in which both ends receive what the other one sends, after which they are UP or one is DOWN."""


class Handshake(wiring.Component):
    """Both ends' ``LinkControl``, and a model of their senders, receivers and channel.

    In each cycle each end may send a CREDIT packet or, if it is UP, another one, and receive the packet that the other
    end sends, or an earlier one, or none. At any time an end may be reset, started, stopped, or go DOWN.
    A CRC matches only for the session for which it was computed.

    ``progress``: the link comes up; no packet is old, other than CREDIT packets are not sent, and ends are only reset.
    Else: the packets are of the right sessions.
    """

    def __init__(self, *, progress=False):
        self._progress = progress
        super().__init__({f"{name}_{end}": In(width) for end in range(2) for name, width in (
            ("send", 1), ("data", 1), ("keep", 1), ("choice", 2), ("start", 1), ("stop", 1), ("rst", 1),
            ("violated", 1), ("empty", 1))})

    def _of(self, name, end):
        return getattr(self, f"{name}_{end}")

    def elaborate(self, platform):
        m = Module()
        ends = [LinkControl(ACE) for _ in range(2)]
        states, sent, quiets, disturbed = [end.session.state for end in ends], [], [], []
        for number, dut in enumerate(ends):
            m.submodules[f"end_{number}"] = ResetInserter(self._of("rst", number))(dut)
            packet = Signal(PACKET, name=f"sent_{number}")
            refuses, refused = Signal(name=f"refuses_{number}"), Signal(LINK_SESSION_WIDTH, name=f"refused_{number}")
            other = self._of("data", number) & (states[number] == LinkState.UP)
            quiet = Signal(range(QUIET + 1), init=QUIET, name=f"quiet_{number}")
            with m.If(self._of("rst", number)):
                m.d.sync += quiet.eq(QUIET)
            with m.Elif(quiet != 0):
                m.d.sync += quiet.eq(quiet - 1)
            m.d.comb += [
                packet.some.eq((self._of("send", number) | other) & ~self._of("rst", number) & (quiet == 0)),
                packet.control.eq(~other),
                packet.state.eq(states[number]), packet.session.eq(dut.session.number),
                packet.refuse.eq(refuses & ~other),
                packet.peer.eq(Mux(packet.refuse, refused, dut.commands.peer)),
                dut.settings.start.eq(self._of("start", number)), dut.settings.stop.eq(self._of("stop", number)),
                dut.sender.violated.eq(self._of("violated", number)), dut.receiver.empty.eq(self._of("empty", number)),
            ]
            with m.If(packet.some & packet.control):
                m.d.sync += refuses.eq(0)
            with m.If(dut.commands.refuse):
                m.d.sync += [refuses.eq(1), refused.eq(dut.received.payload.session)]
            with m.If(self._of("rst", number)):
                m.d.sync += refuses.eq(0)
            sent.append(packet)
            quiets.append(quiet)
            disturbed.append(Cat(self._of(name, number) for name in ("start", "stop", "rst", "violated")).any())
        for number, dut in enumerate(ends):
            now = sent[1 - number]
            kept, comes, arrives = (Signal(PACKET, name=f"{name}_{number}") for name in ("kept", "comes", "arrives"))
            with m.If(now.some & self._of("keep", number)):
                m.d.sync += kept.eq(now)
            with m.Switch(self._of("choice", number)):
                with m.Case(1):
                    m.d.comb += comes.eq(now)
                with m.Case(2):
                    m.d.comb += comes.eq(kept)
            # As in the receiver.
            m.d.sync += arrives.eq(Mux(self._of("rst", number), 0, comes))
            named, accepts, received = Signal(), Signal(), dut.received.payload
            m.d.comb += [named.eq(arrives.peer == dut.session.number),
                         accepts.eq((states[number] == LinkState.INIT) | (states[number] == LinkState.UP))]
            taken = arrives.some & ~arrives.control & accepts & named
            m.d.sync += [
                dut.received.valid.eq((arrives.some & arrives.control | taken) & ~self._of("rst", number)),
                received.control.eq(arrives.control), received.state.eq(arrives.state), received.named.eq(named),
                received.session.eq(Mux(arrives.control, arrives.session, 0)), received.refuse.eq(arrives.refuse),
                received.recent.eq(1),
            ]
            m.d.comb += Assert(~taken | (arrives.session == dut.commands.peer),
                               Format("a packet of another session is accepted"))

        up = [state == LinkState.UP for state in states]
        bound, was, calm = Signal(), Signal(), Signal()
        m.d.comb += bound.eq((ends[0].commands.peer == ends[1].session.number)
                             & (ends[1].commands.peer == ends[0].session.number))
        m.d.sync += [was.eq(up[0] & up[1]), calm.eq(~Cat(disturbed).any())]
        # Both ends send a CREDIT packet in each cycle, and receive it at once.
        clean, many = Signal(range(PROGRESS + 1)), Const(PROGRESS)
        clear = ~Cat(disturbed).any() & Cat(
            self._of("choice", end)[0] & ~self._of("choice", end)[1] & self._of("send", end) & ~self._of("data", end)
            & self._of("empty", end) & (states[end] != LinkState.DOWN) & (quiets[end] == 0) for end in range(2)).all()
        m.d.sync += clean.eq(Mux(clear, Mux(clean == many, many, clean + 1), 0))
        again, once = Signal(), Signal()
        m.d.sync += [once.eq(once | (up[0] & up[1])), again.eq(again | (once & ~up[0] & ~up[1]))]
        m.d.comb += [
            Assert(~(up[0] & up[1]) | bound, Format("both are UP, in other sessions")),
            Assert(~(was & calm) | (up[0] & up[1]), Format("an old packet ends a session")),
            Cover(again & up[0] & up[1] & (ends[0].session.number == 3)),
            # A packet is sent only by a port that is UP, and in one cycle at most one.
            Assume(~Cat(self._of("send", end) & self._of("data", end) for end in range(2)).any()),
        ]
        if self._progress:
            m.d.comb += [
                Assert((clean < many) | (up[0] & up[1]) | Cat(state == LinkState.DOWN for state in states).any(),
                       Format("the link does not come up")),
                *(Assume(~Cat(self._of("data", end), self._of("start", end), self._of("stop", end),
                              self._of("violated", end), self._of("choice", end)[1]).any()) for end in range(2)),
            ]
        return m


def test_handshake():
    prove(Handshake(), name="link-handshake", depth=15)


def test_link_comes_up():
    prove(Handshake(progress=True), name="link-comes-up", depth=19)


def test_handshake_is_reached():
    """Both ends are UP, no longer, and UP again in later sessions."""
    prove(Handshake(), name="link-handshake-reached", depth=24, mode="cover")
