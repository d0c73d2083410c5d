# SPDX-License-Identifier: Apache-2.0
"""A proof that fails names the assertion and shows the signals by cycle."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from tests.formal.delivery import WIDTH, Delivery
from tests.harness.formal import ProofFailed, prove

pytestmark = [pytest.mark.formal, pytest.mark.long]


class Leaky(wiring.Component):
    """A register that accepts items while it is stalled, and loses them."""

    i: In(stream.Signature(WIDTH))
    o: Out(stream.Signature(WIDTH))

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.i.ready.eq(1)
        with m.If(self.o.ready | ~self.o.valid):
            m.d.sync += [self.o.valid.eq(self.i.valid), self.o.payload.eq(self.i.payload)]
        return m


def test_counterexample():
    message = (r"^leaky failed in mode bmc within 6 cycles:\nAssert failed in top\.component: more items than entries\n"
               r"Signals by cycle \(.*trace\.vcd\):\ncycle +0 +1 +2\n(.*\n)*inside +0 +1 +2\n(.*\n)*constant: ")
    with pytest.raises(ProofFailed, match=message):
        prove(Delivery(Leaky(), capacity=1, wait=0, invariant=None), name="leaky", depth=6)
