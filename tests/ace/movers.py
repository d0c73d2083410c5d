# SPDX-License-Identifier: Apache-2.0
"""Common parts of the tests of Fill and Drain: a top with a protocol monitor, chunks of moves, memory."""

import os
import random
import warnings
from typing import NamedTuple

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from cocotb.utils import get_sim_steps

from hw.ace.config import ADDR_WIDTH, PRESETS, TINY
from hw.ace.fill import Fill
from hw.ace.layouts import done_layout, move_layout
from hw.ace.memory_port import MemoryPort
from hw.ace.numerics.formats import DType, growth
from hw.axi import AxiChecker, AxiSignature
from hw.common.wiring import Wiring
from sim.memory import PAGE_BYTES, Memory
from tests.ace.streams import bits, reset
from tests.ace.timing import ECP5, each_alone

__all__ = ["BASE_ADDRESS", "CONFIGS", "DIVIDED", "DRAIN_ALONE", "FILL_ALONE", "WIDENED", "CheckedMover", "Move",
           "MoverBench", "config_named", "config_of", "parameters"]

CONFIGS = {"tiny": TINY, "base": PRESETS["base"], "ecp5": ECP5}
FILL_ALONE = each_alone(TINY, "burst_skid", "fill_output_registers", "registered_read_credits")
DRAIN_ALONE = each_alone(TINY, "burst_skid", "sram_output_register", "sram_word_register", "registered_drain_credits",
                         "response_output_register")

BASE_ADDRESS = 0x7_1234_5000
PAGES = 40
WIDENED = ({}, {"dtype": DType.FP16, "widen": 1}, {"dtype": DType.BF16, "widen": 1},
           {"dtype": DType.E4M3, "widen": 1}, {"dtype": DType.E5M2_SAT, "widen": 1})
"""Moves with conversion, and some without."""
DIVIDED = ({}, {"dtype": DType.FP16, "widen": 1, "divide": 8}, {"dtype": DType.BF16, "divide": 3},
           {"dtype": DType.FP32, "divide": 128}, {"dtype": DType.INT8, "divide": 5},
           {"dtype": DType.INT32, "divide": 12}, {"dtype": DType.E4M3_SAT, "divide": 7},
           {"dtype": DType.E5M2, "widen": 1, "divide": 3})
"""Moves with division, and some without; of each type, in any order."""
# cocotbext-axi uses deprecated features of cocotb; the version of cocotb is pinned.
warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"cocotbext\.")


class CheckedMover(wiring.Component):
    """A mover with a whole ``m_axi`` and its monitor; it has one direction of :class:`MemoryPort`, the other is
    idle."""

    def __init__(self, mover):
        self._mover = mover
        self.config = mover.config
        bus = AxiSignature(addr_width=ADDR_WIDTH, data_width=self.config.data_width, id_width=1)
        super().__init__({
            **{name: member for name, member in mover.signature.members.items() if name != "memory"},
            "m_axi": Out(bus),
        })

    def elaborate(self, platform):
        m = Module()
        wires = Wiring(m, self)
        wires.add(mover=self._mover, memory=MemoryPort(self.config))
        m.submodules.checker = checker = AxiChecker(self.m_axi.signature, name="m_axi")
        m.d.comb += checker.observe(self.m_axi)
        used, idle = ("reads", "writes") if isinstance(self._mover, Fill) else ("writes", "reads")
        wires.connect("mover.memory", f"memory.{used}")
        wires.idle(f"memory.{idle}", "there is one mover")
        wires.connect("memory.bus", "self.m_axi")
        for name in self._mover.signature.members:
            if name != "memory":
                wires.connect(f"mover.{name}", f"self.{name}")
        wires.finish()
        return m


class Move(NamedTuple):
    address: int
    bytes: int
    sram: int
    slot: int
    last: int
    dtype: int = 0
    widen: int = 0
    divide: int = 0

    @property
    def growth(self):
        """log2 of the bytes in the SRAM for each in memory."""
        return growth(self.dtype) if self.widen else 0


def parameters(**values):
    """Environment that carries the parameters of a pytest function."""
    return {f"MOVER_{name.upper()}": value for name, value in values.items()}


def parameter(name):
    return os.environ[f"MOVER_{name.upper()}"]


def config_named(name):
    return (CONFIGS | FILL_ALONE | DRAIN_ALONE)[name]


def config_of(dut):
    return config_named(dut._name.partition("_")[2])


class MoverBench:
    """Memory, moves, and their expected results."""

    def __init__(self, dut, *, latency=8, stalls=None):
        self.dut, self.config = dut, config_of(dut)
        self.stalls = stalls or parameter("stalls")
        self.seed = os.environ["COCOTB_RANDOM_SEED"]
        self.rng = random.Random(f"{dut._name} {self.stalls} {self.seed}")
        self.memory = Memory(dut, period=get_sim_steps(4, "ns"), latency=latency, seed=self.seed,
                             stalls="none" if self.stalls == "none" else "random")
        self.contents = bytearray(self.rng.randbytes(PAGES * PAGE_BYTES))
        self.memory.write(BASE_ADDRESS, bytes(self.contents))
        self.faulty = set()
        self.counted = 0

    async def start(self):
        await reset(self.dut)

    def fail(self, *pages, **response):
        for page in pages:
            self.memory.fail_page(BASE_ADDRESS + page * PAGE_BYTES, **response)
            self.faulty.add(page)

    def fails(self, move):
        """Whether a part of the move gets an error response from memory."""
        first, end = move.address - BASE_ADDRESS, move.address - BASE_ADDRESS + move.bytes
        return any(first < (page + 1) * PAGE_BYTES and end > page * PAGE_BYTES for page in self.faulty) and end > first

    def place(self, move):
        """The move's bytes as a slice of ``contents``."""
        return slice(move.address - BASE_ADDRESS, move.address - BASE_ADDRESS + move.bytes)

    def length(self):
        rng, beat = self.rng, self.config.beat_bytes
        return rng.choice((0, rng.randint(1, beat), 64, rng.randint(1, 200), rng.randint(1, 1100),
                           rng.randint(900, 2200), beat * rng.randint(1, 8)))

    def chunks(self, count, lengths=None, kinds=({},)):
        """Moves of ``count`` chunks. Each has its own range of memory, and its slot in the SRAM."""
        rng, config, moves, cursor = self.rng, self.config, [], 100
        for _ in range(count):
            slot, left = rng.randrange(config.slots), config.chunk_bytes
            mine, beat = rng.randint(1, 6), slot * config.chunk_beats
            for number in range(mine):
                kind = rng.choice(kinds)
                move = Move(0, 0, 0, 0, 0, **kind)
                size = min(self.length() if lengths is None else rng.choice(lengths), left >> move.growth)
                # Whole elements of converted moves.
                size -= size % 4 if kind else 0
                beats = -(-(size << move.growth) // config.beat_bytes)
                moves.append(Move(BASE_ADDRESS + cursor, size, beat, slot, number == mine - 1, **kind))
                beat += beats
                left -= beats * config.beat_bytes
                cursor += size
                cursor += rng.choice((0, 0, rng.randrange(70), -cursor % config.beat_bytes))
        assert cursor < PAGES * PAGE_BYTES, cursor
        return moves

    def beats(self, moves):
        """Beats on ``m_axi``."""
        size = self.config.beat_bytes
        return sum((move.address + move.bytes - 1) // size - move.address // size + 1 for move in moves if move.bytes)

    def words(self, moves):
        """Moves as the stream carries them."""
        return [bits(move_layout(self.config), move._asdict()) for move in moves]

    def ended(self, moves):
        """Expected payloads of ``done``."""
        expected, error = [], False
        for move in moves:
            error |= self.fails(move)
            if move.last:
                expected.append(bits(done_layout(self.config), {"slot": move.slot, "error": error}))
                error = False
        return expected

