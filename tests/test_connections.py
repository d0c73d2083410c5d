# SPDX-License-Identifier: Apache-2.0
"""A design with an undriven port or with an unread interface is refused."""

import pytest
from amaranth import *
from amaranth.hdl import Fragment
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw import emit
from hw.connections import UndrivenInput, UndrivenOutput, UnreadInterface, check

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


STATUS = wiring.Signature({"count": Out(4), "some": Out(2).array(2), "nothing": Out(0)})


class Counter(wiring.Component):
    status: Out(wiring.Signature({"of": Out(STATUS).array(2)}))
    commands: In(stream.Signature(4))
    level: Out(4)
    memory: Out(4)

    def __init__(self, missing=()):
        self.missing = missing
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.rows = rows = memory.Memory(shape=4, depth=4, init=[])
        read = rows.read_port()
        first, second = self.status.of
        statements = {
            "count": first.count.eq(self.level), "some": first.some[1].eq(self.level), "level": self.level.eq(2),
            "second": second.count.eq(1), "ready": self.commands.ready.eq(first.count[0]),
        }
        m.d.comb += [self.memory.eq(read.data), read.addr.eq(self.commands.payload), first.some[0].eq(0),
                     second.some[0].eq(second.count), second.some[1].eq(1)]
        m.d.sync += [statement for name, statement in statements.items() if name not in self.missing]
        return m


class Reader(wiring.Component):
    o: Out(4)

    def __init__(self, missing=(), reads=("status.of[0].count", "status.of[1].some[1]")):
        self.missing, self.reads = missing, reads
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.counter = counter = Counter(self.missing)
        read = {"status.of[0].count": counter.status.of[0].count, "status.of[1].some[1]": counter.status.of[1].some[1]}
        m.d.comb += [counter.commands.valid.eq(1), counter.commands.payload.eq(2)]
        m.d.sync += self.o.eq(sum((read[name] for name in self.reads), 0))
        return m


def test_unread_single_ports_are_allowed():
    """Such as ``level`` and ``memory``."""
    assert "module \\top.counter" in emit.verilog(Reader(), name="top")


@pytest.mark.parametrize(("missing", "named"), [
    (("count",), "counter.status.of.0.count"), (("some",), "counter.status.of.0.some.1"),
    (("ready",), "counter.commands.ready"),
    (("level", "second"), "counter.level, counter.status.of.1.count"),
])
def test_an_undriven_output_is_refused(missing, named):
    with pytest.raises(UndrivenOutput) as caught:
        emit.verilog(Reader(missing), name="top")
    assert str(caught.value) == f"Outputs without a driver: {named}."


def test_an_undriven_output_of_the_top_is_refused():
    with pytest.raises(UndrivenOutput) as caught:
        emit.verilog(Top(("o",)), name="top")
    assert str(caught.value) == "Outputs without a driver: o."


def test_an_output_that_is_constant_on_purpose_is_driven():
    class Constant(wiring.Component):
        o: Out(4)

        def elaborate(self, platform):
            m = Module()
            m.d.comb += self.o.eq(0)
            return m

    assert "module top(" in emit.verilog(Constant(), name="top")


@pytest.mark.parametrize(("reads", "named"), [
    (("status.of[0].count",), "counter.status.of.1"), (("status.of[1].some[1]",), "counter.status.of.0"),
    ((), "counter.status.of.0, counter.status.of.1"),
])
def test_an_unread_interface_is_refused(reads, named):
    """The component's own reads of it do not count: it reads the first one's ``count``, the second one's, too."""
    with pytest.raises(UnreadInterface) as caught:
        emit.verilog(Reader(reads=reads), name="top")
    assert str(caught.value) == f"Interfaces without a reader: {named}."


class Indexed(wiring.Component):
    """Reads an interface only where ``place`` says."""

    i: In(4)
    o: Out(8)

    def __init__(self, place):
        self.place = place
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.source = source = Strobe()
        m.d.comb += source.i.eq(self.i)
        index, elements = source.strobe.index, Array(self.o.bit_select(number, 1) for number in range(4))
        match self.place:
            case "nothing":
                m.d.comb += self.o.eq(self.i)
            case "target part":
                m.d.sync += self.o.word_select(index[:1], 4).eq(self.i)
            case "target element":
                m.d.sync += elements[index].eq(1)
            case "test":
                m.d.comb += self.o.eq(0)
                with m.If(index == 3):
                    m.d.comb += self.o.eq(1)
            case "reset":
                m.d.sync += self.o.eq(Mux(ResetSignal(), 0, index))
            case "memory address" | "memory data":
                m.submodules.rows = rows = memory.Memory(shape=4, depth=4, init=[])
                read, write = rows.read_port(), rows.write_port()
                m.d.comb += [self.o.eq(read.data), write.en.eq(1), read.addr.eq(self.i), write.addr.eq(self.i),
                             write.data.eq(self.i)]
                m.d.comb += read.addr.eq(index) if "address" in self.place else write.data.eq(index)
            case "cell":
                m.submodules.cell = Instance("CELL", i_a=index, o_b=self.o)
        return m


class Strobe(wiring.Component):
    i: In(4)
    strobe: Out(wiring.Signature({"valid": Out(1), "index": Out(2)}))

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.strobe.valid.eq(self.i[3]), self.strobe.index.eq(self.i)]
        return m


@pytest.mark.parametrize("place", [
    "target part", "target element", "test", "reset", "memory address", "memory data", "cell"])
def test_each_read_counts(place):
    check(Fragment.get(Indexed(place), None))


def test_a_target_is_no_read():
    with pytest.raises(UnreadInterface, match=r"^Interfaces without a reader: source\.strobe\.$"):
        check(Fragment.get(Indexed("nothing"), None))
