# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""A design with an undriven input of a submodule is refused."""

import pytest
from amaranth import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from hw import emit
from hw.connections import UndrivenInput

pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")

PAIR = wiring.Signature({"a": Out(data.StructLayout({"x": 2, "y": 2})), "b": Out(1)})


class Add(wiring.Component):
    operands: In(PAIR)
    carry: In(1)
    o: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.operands.a.x + self.operands.a.y + self.carry + self.operands.b)
        return m


class Top(wiring.Component):
    i: In(4)
    o: Out(4)

    def __init__(self, missing=()):
        self.missing = missing
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.rows = rows = memory.Memory(shape=4, depth=4, init=[])
        m.submodules.inner = inner = Add()
        read = rows.read_port()
        statements = {"a": inner.operands.a.eq(read.data), "b": inner.operands.b.eq(self.i[0]),
                      "carry": inner.carry.eq(self.i[1]), "o": self.o.eq(inner.o)}
        m.d.comb += read.addr.eq(self.i[2:])
        m.d.comb += [statement for name, statement in statements.items() if name not in self.missing]
        return m


def test_a_whole_design_is_emitted():
    assert "module \\top.inner" in emit.verilog(Top(), name="top")


@pytest.mark.parametrize(("missing", "named"), [
    (("a",), "inner.operands.a"), (("b",), "inner.operands.b"), (("carry",), "inner.carry"),
    (("b", "carry"), "inner.carry, inner.operands.b"),
])
def test_an_unconnected_input_is_refused(missing, named):
    with pytest.raises(UndrivenInput) as caught:
        emit.verilog(Top(missing), name="top")
    assert str(caught.value) == f"Inputs without a driver: {named}."


def test_a_port_of_the_top_is_no_submodule():
    assert "module top(" in emit.verilog(Add(), name="top")
