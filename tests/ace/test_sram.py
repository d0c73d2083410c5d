# SPDX-License-Identifier: Apache-2.0
"""The SRAM against a dictionary, and simultaneous streams of consecutive addresses."""

import itertools
import os
import random

import cocotb
import pytest

from hw.ace.config import BASE, TINY
from hw.ace.sram import Sram
from tests.ace.streams import reset, run
from tests.ace.timing import ECP5

pytestmark = pytest.mark.rtl

CONFIGS = {"tiny": TINY, "base": BASE, "ecp5": ECP5}


@pytest.mark.parametrize("config", ["tiny", "ecp5", pytest.param("base", marks=pytest.mark.long)])
def test_sram(simulate, config):
    simulate(Sram(CONFIGS[config]), env={"CONFIG": config})


class _Client:
    """Walk through addresses; each is held until it is accepted."""

    def __init__(self, dut, kind, number, addresses):
        name = f"{kind}__{number}__"
        self.valid, self.ready, self.address, self.data = (
            getattr(dut, name + part) for part in ("valid", "ready", "address", "data"))
        self.name, self.addresses, self.now = f"{kind} {number}", addresses, None
        self.accepted = self.refused = 0

    def drive(self):
        if self.now is None:
            self.now = next(self.addresses)
        self.valid.value = int(self.now is not None)
        self.address.value = self.now or 0

    def sample(self, cycle):
        address, self.now = self.now, None
        if address is None:
            return
        if self.ready.value:
            self.accepted += 1
            self.serve(cycle, address)
        else:
            self.refused += 1
            self.now = address


class _Writer(_Client):
    def __init__(self, dut, number, addresses, contents, rng, width):
        super().__init__(dut, "writes", number, addresses)
        self.contents, self.rng, self.width = contents, rng, width

    def drive(self):
        fresh = self.now is None
        super().drive()
        if fresh:
            self.word = self.rng.getrandbits(self.width)
            self.data.value = self.word

    def serve(self, cycle, address):
        self.contents[address] = self.word


class _Reader(_Client):
    """Sampled before the writers: a read sees the writes of earlier cycles."""

    def __init__(self, dut, number, addresses, writers, latency):
        super().__init__(dut, "reads", number, addresses)
        self.writers, self.latency, self.expected = writers, latency, {}
        self.checked = 0

    def serve(self, cycle, address):
        if address in self.writers[0].contents and all(writer.now != address for writer in self.writers):
            self.expected[cycle + self.latency] = address, self.writers[0].contents[address]

    def sample(self, cycle):
        if cycle in self.expected:
            address, word = self.expected.pop(cycle)
            got = int(self.data.value)
            assert got == word, f"{self.name} at {address:#x}: {got:#x}, not {word:#x}"
            self.checked += 1
        super().sample(cycle)


def _random(rng, spread):
    while True:
        yield None if rng.random() < 0.2 else rng.randrange(spread)


def _clients(dut, addresses, rng, contents):
    """Three readers, then two writers."""
    config = CONFIGS[os.environ["CONFIG"]]
    writers = [_Writer(dut, number, walk, contents, rng, config.data_width)
               for number, walk in enumerate(addresses[3:])]
    return [_Reader(dut, number, walk, writers, config.sram_latency)
            for number, walk in enumerate(addresses[:3])], writers


@cocotb.test()
async def random_traffic(dut):
    """Few addresses: most of them are read soon after they are written."""
    config, rng, contents = CONFIGS[os.environ["CONFIG"]], random.Random(cocotb.RANDOM_SEED), {}
    await reset(dut)
    for spread in (8, 64, config.sram_beats):
        readers, writers = _clients(dut, [_random(rng, spread) for _ in range(5)], rng, contents)
        await run(dut, readers + writers, until=lambda last=readers[2]: last.accepted >= 1000)
        assert readers[0].refused == writers[0].refused == 0
        assert all(client.refused for client in (*readers[1:], writers[1]))
        if spread < config.sram_beats:
            assert all(reader.checked > 500 for reader in readers)


@cocotb.test()
async def walks_side_by_side(dut):
    """Five streams at once, each in its own slot: whatever their first banks, they stall for a few cycles at most."""
    config, rng = CONFIGS[os.environ["CONFIG"]], random.Random(cocotb.RANDOM_SEED)
    contents = {}
    await reset(dut)
    for _ in range(20):
        starts = [slot * config.chunk_beats + rng.randrange(4) for slot in rng.sample(range(config.slots), 5)]
        readers, writers = _clients(dut, [itertools.count(start) for start in starts], rng, contents)
        await run(dut, readers + writers, until=lambda first=readers[0]: first.accepted == 100)
        for client in readers + writers:
            assert client.refused <= 4, f"{client.name} was refused {client.refused} times"
