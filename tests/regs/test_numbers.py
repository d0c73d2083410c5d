# SPDX-License-Identifier: Apache-2.0
"""No number of a table entry, queue, port or command aliases another one: a walk of all register maps."""

import random
from dataclasses import replace
from typing import NamedTuple

import pytest
from amaranth.lib import wiring
from amaranth.sim import Simulator

from hw.ace import config as ace
from hw.ace import registers as ace_registers
from hw.ace.control import Control
from hw.axi.signature import Resp
from hw.dma_engine import config as dma
from hw.dma_engine import registers as dma_registers
from hw.dma_engine.control.frontpanel import FrontPanel
from hw.endpoint import config as endpoint
from hw.endpoint import registers as endpoint_registers
from hw.endpoint.control import EndpointControl
from hw.rdma import config as rdma
from hw.rdma import registers as rdma_registers
from hw.rdma.control import RdmaControl
from hw.regs import REGISTER_WIDTH, Access
from tests.regs.bench import read, write

SELECTORS = ("_COMMIT", "_COMMAND", "_SELECT", "_CLEAR", "_REVOKE", "_BIN", "LINK_START", "LINK_STOP",
             "TRIGGER_RESET")
"""Suffixes of the registers that select entries of tables, queues, ports and bins."""


class Panel(NamedTuple):
    """A block's registers in gateware, and the fields of each register of :data:`SELECTORS` with their legal values."""

    kind: type
    registers: object
    config: object
    legal: dict
    levels: dict = {}       # inputs of the block other than 0


def _dma(config):
    return Panel(FrontPanel, dma_registers, config, {
        "REGION_COMMIT": {"region": range(config.regions)},
        "PAGE_COMMIT": {"page": range(config.pages), "present": range(2)},
        "CONNECTION_COMMIT": {"connection": range(config.connections)},
        "QUEUE_COMMIT": {"queue": range(config.queues)}, "QUEUE_SELECT": {"queue": range(config.queues)},
        "QUEUE_COMMAND": {"queue": range(config.queues), "command": range(1, 5)},
        "HISTOGRAM_BIN": {"bin": range(16)},
    })


def _ace(config):
    communicators, queues, ports = range(config.communicators), range(config.queues), range(1 << config.ports)
    return Panel(Control, ace_registers, config, {
        "REGION_COMMIT": {"region": range(config.regions)},
        "COMMUNICATOR_COMMIT": {"communicator": communicators}, "COMMUNICATOR_REVOKE": {"communicator": communicators},
        "COMMUNICATOR_SELECT": {"communicator": communicators},
        "PROGRAM_COMMIT": {"address": range(config.program_words)},
        "DIRECTORY_COMMIT": {"collective": range(16), "communicator": communicators},
        "EXTENT_COMMIT": {"row": range(config.extent_rows)}, "QUEUE_COMMIT": {"queue": queues},
        "QUEUE_CLEAR": {"queue": queues}, "QUEUE_SELECT": {"queue": queues}, "FSM_SELECT": {"fsm": range(config.fsms)},
        "SLOT_SELECT": {"slot": range(config.slots)}, "LINK_SELECT": {"port": range(config.ports)},
        "LINK_START": {"ports": ports}, "LINK_STOP": {"ports": ports},
    })


def _endpoint(config):
    triggers = config.triggers
    return Panel(EndpointControl, endpoint_registers, config, {
        "EXPORT_COMMIT": {"export": range(config.exports)}, "TRIGGER_COMMIT": {"block": range(triggers.blocks)},
        "TRIGGER_RESET": {"block": range(triggers.blocks)}, "TRIGGER_SELECT": {"counter": range(triggers.counters)},
    })


def _rdma(config):
    qps = range(config.queue_pairs)
    return Panel(RdmaControl, rdma_registers, config, {
        "QP_COMMIT": {"qp": qps, "open": range(2)}, "QP_SELECT": {"qp": qps},
        "REGION_COMMIT": {"region": range(config.regions)}, "REMOTE_COMMIT": {"remote": range(config.remotes)},
        "RECORDS_COMMIT": {"qp": qps},
    }, {"writable": 1})


PANELS = {
    "dma tiny": _dma(dma.TINY), "dma wide": _dma(dma.WIDE), "ace tiny": _ace(ace.TINY), "ace wide": _ace(ace.WIDE),
    "ace ring": _ace(replace(ace.TINY, dimensions=1)), "endpoint": _endpoint(endpoint.TINY),
    "rdma": _rdma(rdma.TINY),
}


@pytest.fixture(params=[
    *(name for name in PANELS if name not in ("dma wide", "ace wide", "ace ring")),
    *(pytest.param(name, marks=pytest.mark.long) for name in ("dma wide", "ace wide", "ace ring"))])
def panel(request):
    return PANELS[request.param]


def _run(panel, testbench):
    """Run ``testbench(ctx, bus, irq, driven)``; ``driven`` lists the values of all outputs in each cycle."""
    block, driven = panel.kind(panel.config), []
    outputs = [value for path, member, value in block.signature.flatten(block)
               if member.flow is wiring.Out and path[0] not in ("bus", "irq")]
    simulator = Simulator(block)
    simulator.add_clock(1e-6)

    async def record(ctx):
        async for _clk, _rst, *values in ctx.tick().sample(*outputs):
            driven.append(tuple(values))

    async def bound(ctx):
        for name, level in panel.levels.items():
            ctx.set(getattr(block, name), level)
        await testbench(ctx, block.bus, block.irq, driven)

    simulator.add_testbench(bound)
    simulator.add_testbench(record, background=True)
    simulator.run()


def _numbers(legal, rng):
    """Values to try: all of a short range, or some of a long one, including its ends."""
    return legal if len(legal) <= 8 else sorted({legal[0], legal[1], legal[-1], rng.choice(legal)})


def _bad_words(panel, register, rng):
    """Words for a register with one illegal field, all other fields being legal."""
    legal = panel.legal[register.name]
    assert {field.member for field in register.fields} == set(legal), register.name
    for field in register.fields:
        others = sum(rng.choice(legal[other.member]) << other.lsb for other in register.fields if other is not field)
        end = min((other.lsb for other in register.fields if other.lsb > field.lsb), default=REGISTER_WIDTH)
        for value in range(1 << field.width):
            if value not in legal[field.member]:
                yield field, value, others | value << field.lsb
        for value in _numbers(legal[field.member], rng):
            for bit in range(field.width, end - field.lsb):
                wrong = value | 1 << bit
                yield field, wrong, others | wrong << field.lsb


def test_every_selector_is_walked(panel):
    named = {register.name for register in panel.registers.register_map(panel.config).registers
             if register.name.endswith(SELECTORS)}
    assert named == set(panel.legal)


async def _stage(ctx, bus, panel, registers):
    """Set all staged and selected values to something other than 0."""
    for register in registers.registers:
        if register.name in panel.legal:
            word = register.pack(**{name: legal[1] for name, legal in panel.legal[register.name].items()})
        elif register.has(Access.RW) and register.name != "IRQ_ENABLE":
            word = sum(1 << field.lsb for field in register.fields if field.access is Access.RW)
        else:
            continue
        assert (await write(ctx, bus, register.offset, word))[0] == Resp.OKAY, register.name


def test_a_number_beyond_its_table_does_nothing(panel):
    """The block receives no command, no selection changes, and the first such write is recorded."""
    registers, rng = panel.registers.register_map(panel.config), random.Random(1)
    refused, refused_word, status = (registers[name] for name in ("REFUSED_WRITE", "REFUSED_WORD", "IRQ_STATUS"))

    async def testbench(ctx, bus, irq, driven):
        await _stage(ctx, bus, panel, registers)
        await write(ctx, bus, registers["IRQ_ENABLE"].offset, registers["IRQ_ENABLE"].pack(register=1))
        for register in (registers[name] for name in panel.legal):
            shown = (await read(ctx, bus, register.offset))[0]
            await ctx.tick()
            before, words = driven[-1], []
            assert refused.unpack((await read(ctx, bus, refused.offset))[0])["valid"] == ctx.get(irq) == 0
            for field, value, word in _bad_words(panel, register, rng):
                what, legal = f"{register.name}.{field.name} of {value:#x}", panel.legal[register.name][field.member]
                words.append(word)
                del driven[:]
                assert (await write(ctx, bus, register.offset, word))[0] == Resp.SLVERR, what
                await ctx.tick().repeat(2)
                assert set(driven) == {before}, what
                assert ctx.get(irq), what
                assert register.illegal(word) == f"{field.name} must be from {legal[0]} to {legal[-1]}, not {value}"
            assert (await read(ctx, bus, register.offset))[0] == shown, register.name
            found = refused.unpack((await read(ctx, bus, refused.offset))[0])
            assert found == {"offset": register.offset, "valid": 1}
            assert (await read(ctx, bus, refused_word.offset))[0] == words[0] != words[-1]
            assert (await read(ctx, bus, status.offset))[0] == status["register"].mask
            for cleared, mask in ((refused, refused["valid"].mask), (status, status["register"].mask)):
                await write(ctx, bus, cleared.offset, mask)
            await ctx.tick()
    _run(panel, testbench)


@pytest.mark.parametrize("register, field, count", [
    ("COMMUNICATOR_SHARE", "fsm_first", ace.TINY.fsms), ("COMMUNICATOR_SHARE", "slot_first", ace.TINY.slots),
    ("COMMUNICATOR_SHARE", "fsm_bits", ace.TINY.fsm_bits + 1),
    ("COMMUNICATOR_SHARE", "slot_bits", ace.TINY.slot_bits + 1),
    ("DIRECTORY_ENTRY", "plus", ace.TINY.program_words), ("DIRECTORY_ENTRY", "minus", ace.TINY.program_words),
    ("COMMUNICATOR_MODE", "ports", 1 << ace.TINY.ports),
])
def test_staged_numbers_of_the_accelerator_are_checked(register, field, count):
    """Without a check, the number of a missing FSM, slot, program word or port would alias an existing one."""
    panel = PANELS["ace tiny"]
    registers = panel.registers.register_map(panel.config)
    register = registers[register]

    async def testbench(ctx, bus, irq, driven):
        for value, response in ((count - 1, Resp.OKAY), (count, Resp.SLVERR)):
            assert (await write(ctx, bus, register.offset, value << register[field].lsb))[0] == response
        assert (await read(ctx, bus, register.offset))[0] == count - 1 << register[field].lsb
    _run(panel, testbench)


def test_every_number_of_a_table_is_taken(panel):
    registers, rng = panel.registers.register_map(panel.config), random.Random(1)

    async def testbench(ctx, bus, irq, driven):
        await _stage(ctx, bus, panel, registers)
        for register in (registers[name] for name in panel.legal):
            for field in register.fields:
                seen, legal = set(), panel.legal[register.name]
                fixed = sum(values[-1] << register[name].lsb for name, values in legal.items() if name != field.member)
                numbers = _numbers(legal[field.member], rng)
                for value in numbers:
                    del driven[:]
                    response, _ = await write(ctx, bus, register.offset, fixed | value << field.lsb)
                    assert response == Resp.OKAY and register.illegal(fixed | value << field.lsb) is None
                    await ctx.tick().repeat(2)
                    seen.add(tuple(driven))
                # Each number has a distinct effect on the outputs; that of a link port is on the registers.
                assert len(seen) == len(numbers) or register.name == "LINK_SELECT", f"{register.name}.{field.name}"
        assert not (await read(ctx, bus, registers["IRQ_STATUS"].offset))[0]
    _run(panel, testbench)
