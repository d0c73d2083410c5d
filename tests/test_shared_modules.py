# SPDX-License-Identifier: Apache-2.0
"""Equal modules are emitted once."""

import re

import cocotb
import pytest
from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from cocotb.triggers import Timer

from hw import emit
from hw.shared_modules import with_shared_modules
from hw.stream import Queue


class Add(wiring.Component):
    """Adds a constant, in a child, and to the bits of a view, whose port has no name."""

    def __init__(self, number):
        self.number = number
        super().__init__({"i": In(8), "o": Out(8)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.child = child = Inner(self.number)
        m.d.comb += [child.i.payload.eq(self.i), child.i.valid.eq(1), self.o.eq(child.o)]
        return m


class Inner(wiring.Component):
    def __init__(self, number):
        self.number = number
        super().__init__({"i": In(stream.Signature(8)), "o": Out(8)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.deep = deep = Module()
        m.d.comb += self.i.ready.eq(1)
        # The sum is a port of the inner module that belongs to no signal with a name of its own there.
        deep.d.comb += self.o.eq((self.i.payload + self.number)[:8] ^ Cat(self.i.payload[4:], self.i.payload[:4]))
        return m


class Three(wiring.Component):
    """Two equal modules, and one with another constant."""

    i: In(8)
    o: Out(24)

    def elaborate(self, platform):
        m = Module()
        for number, constant in enumerate((3, 3, 7)):
            m.submodules[f"add_{number}"] = add = Add(constant)
            m.d.comb += [add.i.eq(self.i ^ number), self.o.word_select(number, 8).eq(add.o)]
        return m


def _modules(text):
    return re.findall(r"^module \\?(\S+)\s*\(", text, flags=re.MULTILINE)


def test_equal_modules_are_emitted_once():
    names = _modules(emit.verilog(Three(), name="three"))
    assert [name for name in names if name.startswith("three.add")] == [
        "three.add_0", "three.add_0.child", "three.add_0.child.deep",
        "three.add_2", "three.add_2.child", "three.add_2.child.deep"]


def test_each_instance_can_have_a_module():
    names = _modules(emit.verilog(Three(), name="three", shared=False))
    assert len(names) == 10 and "three.add_1.child.deep" in names


def test_queues_of_a_depth_are_one_module():
    class Chain(wiring.Component):
        i: In(stream.Signature(9))
        o: Out(stream.Signature(9))

        def elaborate(self, platform):
            m = Module()
            last = self.i
            for number, depth in enumerate((8, 8, 16)):
                m.submodules[f"queue_{number}"] = queue = Queue(9, depth=depth)
                m.d.comb += [queue.i.payload.eq(last.payload), queue.i.valid.eq(last.valid),
                             last.ready.eq(queue.i.ready)]
                last = queue.o
            m.d.comb += [self.o.payload.eq(last.payload), self.o.valid.eq(last.valid), last.ready.eq(self.o.ready)]
            return m

    names = _modules(emit.verilog(Chain(), name="chain"))
    assert "chain.queue_0" in names and "chain.queue_1" not in names and "chain.queue_2" in names


def test_numbers_of_inner_and_outer_ports_do_not_mix():
    """The outer module's ports 7 and 1 become 0 and 1, in the order of their use; the inner one's port 7 becomes 0, and
    its ports are in the order of their names. The top keeps its ports."""
    text = r"""module \top
  cell \top.a \a
    connect \port$1$0 \port$7$0
  end
  wire width 2 input 0  \port$7$0

end
module \top.a
  cell \top.a.b \b
    connect \port$7$0 \port$7$0
    connect \x \port$1$0
  end
  wire width 2 input 0  \port$1$0

  wire width 2 input 1  \port$7$0

end
module \top.a.b
  wire width 2 input 0  \y

  attribute \init 2'00
  wire width 2 output 1  \x

  wire width 2 input 2  \port$7$0

end
"""
    assert with_shared_modules(text) == r"""module \top
  cell \top.a \a
    connect \port$1 \port$7$0
  end
  wire width 2 input 0  \port$7$0

end
module \top.a
  cell \top.a.b \b
    connect \port$0 \port$0
    connect \x \port$1
  end
  wire width 2 input 0  \port$0

  wire width 2 input 1  \port$1

end
module \top.a.b
  attribute \init 2'00
  wire width 2 output 0  \x

  wire width 2 input 1  \y

  wire width 2 input 2  \port$0

end
"""


@pytest.mark.rtl
def test_all_instances_work(simulate):
    simulate(Three())


@cocotb.test()
async def all_instances(dut):
    for value in range(256):
        dut.i.value = value
        await Timer(1, "ns")
        for number, constant in enumerate((3, 3, 7)):
            at = value ^ number
            expected = ((at + constant) & 0xFF) ^ (at >> 4 | (at & 0xF) << 4)
            assert int(dut.o.value) >> 8 * number & 0xFF == expected
