# SPDX-License-Identifier: Apache-2.0
import re

import pytest
from amaranth.hdl import Module, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, flipped

from hw.stream import Queue, Skid, pipe
from tests.stream.bench import exercise


class Head(data.Struct):
    data: 8
    last: 1


class Tail(data.Struct):
    data: 8
    first: 1


class Row(wiring.Component):
    """Three stages, connected by the function under test, own ports included."""

    i: In(stream.Signature(Head))
    o: Out(stream.Signature(Head))

    def elaborate(self, platform):
        m = Module()
        m.submodules.skid = skid = Skid(Head)
        m.submodules.queue = queue = Queue(Head, depth=4)
        m.submodules.block = block = Queue(Head, depth=4, ram="block")
        pipe(m, flipped(self.i), skid, queue, block, flipped(self.o))
        return m


def test_row():
    dut = Row()
    items = [Head.const({"data": n, "last": n % 3 == 0}) for n in range(100)]
    sent, got = exercise(dut, [(dut.i, items)], [dut.o], expect=100)
    assert [payload for _, payload in got] == items
    # Latencies add up: 1 + 1 + 2.
    assert [cycle for cycle, _ in got] == [cycle + 4 for cycle, _ in sent]


def test_equal_shapes():
    pipe(Module(), Skid(8), Skid(unsigned(8)), Skid(range(200)))
    pipe(Module(), Skid(Head), Skid(data.StructLayout({"data": 8, "last": 1})))


def test_unequal_structs():
    message = (rf"^Stage 1 \(Skid\) offers payloads of {re.escape(repr(Head))}, "
               rf"but stage 2 \(Queue\) takes {re.escape(repr(Tail))}$")
    with pytest.raises(TypeError, match=message):
        pipe(Module(), Skid(Head), Skid(Head), Queue(Tail, depth=2))


def test_unequal_widths():
    message = r"^Stage 0 \(Skid\) offers payloads of unsigned\(8\), but stage 1 \(Skid\) takes unsigned\(9\)$"
    with pytest.raises(TypeError, match=message):
        pipe(Module(), Skid(8), Skid(9))


def test_struct_into_plain_bits():
    message = (rf"^Stage 0 \(Skid\) offers payloads of {re.escape(repr(Head))}, "
               r"but stage 1 \(Skid\) takes unsigned\(9\)$")
    with pytest.raises(TypeError, match=message):
        pipe(Module(), Skid(Head), Skid(9))
