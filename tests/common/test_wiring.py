# SPDX-License-Identifier: Apache-2.0
"""Connections by name: missing and duplicate connections, and those of different shapes, are refused."""

import pytest
from amaranth import *
from amaranth.hdl import Fragment
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from hw import connections
from hw.common.wiring import Wiring, WiringError

BEAT = data.StructLayout({"data": 8, "last": 1})
OTHER = data.StructLayout({"data": 8, "first": 1})
WRITE = wiring.Signature({"valid": Out(1), "index": Out(2)})


class Source(wiring.Component):
    lanes: Out(stream.Signature(BEAT)).array(2)
    limits: In(WRITE)
    busy: Out(1)

    def elaborate(self, platform):
        m = Module()
        for number, lane in enumerate(self.lanes):
            m.d.comb += [lane.valid.eq(1), lane.payload.data.eq(number + 1)]
            with m.If(self.limits.valid & (self.limits.index == number)):
                m.d.comb += lane.payload.last.eq(1)
        m.d.comb += self.busy.eq(self.lanes[0].ready)
        return m


class Sink(wiring.Component):
    i: In(stream.Signature(BEAT))
    limits: In(WRITE)
    total: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.i.ready.eq(1), self.total.eq(self.i.payload.data + self.limits.index)]
        return m


class Echo(wiring.Component):
    i: In(WRITE)
    o: Out(WRITE)

    def elaborate(self, platform):
        m = Module()
        wiring.connect(m, wiring.flipped(self.i), wiring.flipped(self.o))
        return m


class OddSink(wiring.Component):
    i: In(stream.Signature(OTHER))
    limits: In(wiring.Signature({"valid": Out(1)}))
    total: Out(4)

    def elaborate(self, platform):
        return Module()


GOOD = (
    ("connect", "source.lanes[0]", "first.i"),
    ("connect", "source.lanes[1]", "second.i"),
    ("broadcast", "self.limits", "source.limits", "first.limits", "second.limits"),
    ("connect", "first.total", "self.totals[0]"),
    ("connect", "second.total", "self.totals[1]"),
    ("leave_open", "source.busy", "its level is not used"),
)


class Both(wiring.Component):
    limits: In(WRITE)
    totals: Out(8).array(2)

    def __init__(self, calls=GOOD, sink=Sink):
        self.calls, self.sink = calls, sink
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        wires = Wiring(m, self)
        wires.add(source=Source(), first=self.sink(), second=Sink())
        for name, *arguments in self.calls:
            getattr(wires, name)(*arguments)
        wires.finish()
        return m


def _refused(calls, sentence, sink=Sink):
    with pytest.raises(WiringError) as caught:
        Fragment.get(Both(calls, sink), None)
    assert str(caught.value) == sentence


def test_connected_parts_work():
    dut = Both()

    async def bench(ctx):
        ctx.set(dut.limits.index, 2)
        await ctx.delay(1e-9)
        assert [ctx.get(total) for total in dut.totals] == [3, 4]

    simulator = Simulator(dut)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize(("index", "missing"), [
    (0, "first.i, source.lanes[0]"),
    (1, "second.i, source.lanes[1]"),
    (2, "first.limits, second.limits, self.limits, source.limits"),
    (3, "first.total, self.totals[0]"),
    (4, "second.total, self.totals[1]"),
    (5, "source.busy"),
])
def test_each_missing_connection_is_refused(index, missing):
    _refused(GOOD[:index] + GOOD[index + 1:], f"Not connected in Both: {missing}.")


def test_an_unconnected_interface_is_named_once():
    _refused(GOOD[2:], "Not connected in Both: first.i, second.i, source.lanes.")


@pytest.mark.parametrize(("calls", "sentence"), [
    ([("connect", "source.lanes[0]", "first.i"), ("connect", "source.lanes[0]", "second.i")],
     "source.lanes[0] is connected twice in Both."),
    ([("connect", "source.lanes[0]", "first.i"), ("leave_open", "source.lanes", "no reason")],
     "source.lanes is connected twice in Both: source.lanes[0] is connected too."),
    ([("connect", "source.lanes", "first.i")],
     "source.lanes and first.i cannot be connected in Both: source.lanes has [0].payload, which first.i lacks."),
    ([("connect", "source.lane", "first.i")], "There is no source.lane in Both."),
    ([("connect", "third.i", "first.i")], "There is no third.i in Both."),
    ([("connect", "source", "first")], "There is no source in Both."),
    ([("connect", "first.i", "second.i")],
     "first.i and second.i cannot be connected in Both: payload is an input of both."),
    ([("connect", "first.total", "second.total")],
     "first.total and second.total cannot be connected in Both: the port itself is an output of both."),
    ([("broadcast", "source.lanes[0]", "first.i")],
     "In source.lanes[0] of Both, ready is an input, so it must be driven."),
    ([("leave_open", "source.lanes[0]", "why not")],
     "In source.lanes[0] of Both, ready is an input, so it must be driven."),
    ([("tie_off", "source.busy", "why not")], "In source.busy of Both, the port itself is an output, so it must be "
     "read by one."),
    ([("leave_open", "source.busy", "")], "source.busy of Both is left unconnected without a reason."),
])
def test_wrong_connections_are_refused(calls, sentence):
    _refused(calls, sentence)


@pytest.mark.parametrize(("calls", "start"), [
    ([("connect", "source.lanes[0]", "first.i")],
     "source.lanes[0] and first.i cannot be connected in Both: payload is StructLayout({'data': 8, 'last': 1}) in the "
     "one and StructLayout({'data': 8, 'first': 1}) in the other."),
    ([("connect", "first.total", "self.totals[0]")],
     "first.total and self.totals[0] cannot be connected in Both: the port itself is 4 in the one and 8 in the "
     "other."),
    ([("broadcast", "self.limits", "first.limits")],
     "self.limits and first.limits cannot be connected in Both: self.limits has index, which first.limits lacks."),
])
def test_other_shapes_are_refused(calls, start):
    _refused(calls, start, OddSink)


def test_inputs_can_be_tied_off():
    calls = [call if call[0] != "broadcast" else ("broadcast", "self.limits", "first.limits", "second.limits")
             for call in GOOD]
    Fragment.get(Both([*calls, ("tie_off", "source.limits", "no limits here")]), None)


def test_open_interface_counts_as_read():
    """An unread interface of a submodule is refused, unless it is left open for a stated reason."""
    def wired(*calls):
        class Top(wiring.Component):
            limits: In(WRITE)

            def elaborate(self, platform):
                m = Module()
                wires = Wiring(m, self)
                wires.add(echo=Echo())
                wires.connect("self.limits", "echo.i")
                for name, *arguments in calls:
                    getattr(wires, name)(*arguments)
                return m

        return Fragment.get(Top(), None)

    for name in ("leave_open", "idle"):
        connections.check(wired((name, "echo.o", "not needed")))
    with pytest.raises(connections.UnreadInterface, match=r"^Interfaces without a reader: echo\.o\.$"):
        connections.check(wired())


def test_unused_interface_is_idle():
    """The inputs of an idle interface have drivers, and a reason is required."""
    calls = [call for call in GOOD if call[1] != "source.lanes[1]"]
    idle = [("idle", "source.lanes[1]", "one lane is enough"), ("idle", "second.i", "one lane is enough")]
    fragment = Fragment.get(Both([*calls, *idle]), None)
    connections.check(fragment)
    _refused([*calls, ("idle", "source.lanes[1]", "")], "source.lanes[1] of Both is left unconnected without a reason.")
    _refused([*calls, idle[1]], "Not connected in Both: source.lanes[1].")
