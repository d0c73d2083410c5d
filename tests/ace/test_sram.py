# SPDX-License-Identifier: Apache-2.0
"""The SRAM against a dictionary, and simultaneous streams of consecutive addresses."""

import itertools
import os
import random
from collections import deque
from dataclasses import replace

import cocotb
import pytest

from hw.ace.config import BASE, TINY
from hw.ace.sram import Sram, longest_stall, write_latency
from tests.ace.streams import reset, run
from tests.ace.timing import ECP5

pytestmark = pytest.mark.rtl

CONFIGS = {"tiny": TINY, "base": BASE, "ecp5": ECP5, "two": replace(TINY, pipes=2), "four": replace(TINY, pipes=4)}


@pytest.mark.parametrize("config", ["tiny", "two", *(
    pytest.param(name, marks=pytest.mark.long) for name in ("ecp5", "base", "four"))])
def test_sram(simulate, config):
    simulate(Sram(CONFIGS[config]), env={"CONFIG": config})


class _Client:
    """Walk through addresses; each is held until it is accepted."""

    def __init__(self, dut, name, addresses):
        self.valid, self.ready, self.address = (getattr(dut, f"{name}__{part}") for part in (
            "valid", "ready", "address"))
        self.dut, self.name, self.addresses, self.now = dut, name, addresses, None
        self.accepted = self.refused = self.stalls = self.longest = 0

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
            self.stalls = 0
            self.serve(cycle, address)
        else:
            self.refused += 1
            self.stalls += 1
            self.longest = max(self.longest, self.stalls)
            self.now = address


class _Contents:
    """Contents of the SRAM, and writes that were accepted: (cycle, address, word)."""

    def __init__(self):
        self.words, self.coming = {}, deque()

    def settle(self, cycle):
        """Writes that take place before the reads of this cycle."""
        while self.coming and self.coming[0][0] < cycle:
            _, address, word = self.coming.popleft()
            self.words[address] = word

    def is_written(self, cycle, address):
        return any(at == cycle and where == address for at, where, _ in self.coming)


class _Fill(_Client):
    def __init__(self, dut, addresses, contents, rng, config):
        super().__init__(dut, "fill", addresses)
        self.contents, self.rng, self.config = contents, rng, config

    def drive(self):
        fresh = self.now is None
        super().drive()
        if fresh:
            self.word = self.rng.getrandbits(self.config.data_width)
            self.dut.fill__data.value = self.word

    def serve(self, cycle, address):
        self.contents.coming.append((cycle + write_latency(self.config), address, self.word))


class _Reader(_Client):
    """A read sees the writes that take place in earlier cycles."""

    OUTPUT = "data"

    def __init__(self, dut, name, addresses, contents, config):
        super().__init__(dut, name, addresses)
        self.data = getattr(dut, f"{name}__{self.OUTPUT}")
        self.contents, self.latency, self.expected = contents, config.sram_latency, {}
        self.checked = 0

    def serve(self, cycle, address):
        if address in self.contents.words and not self.contents.is_written(cycle, address):
            self.expected[cycle + self.latency] = address, self.contents.words[address]

    def sample(self, cycle):
        self.contents.settle(cycle)
        if cycle in self.expected:
            address, word = self.expected.pop(cycle)
            got = int(self.data.value)
            assert got == word, f"{self.name} at {address:#x}: {got:#x}, not {word:#x}"
            self.checked += 1
        super().sample(cycle)


class _Update(_Reader):
    """An update with a random new word; its operand is checked as a read."""

    OUTPUT = "operand"

    def __init__(self, dut, number, addresses, contents, rng, config):
        self.rng, self.config, self.results = rng, config, {}
        self.cycle = 0
        super().__init__(dut, f"updates__{number}", addresses, contents, config)

    def drive(self):
        fresh = self.now is None
        super().drive()
        if fresh:
            self.reads = self.rng.getrandbits(1)
            getattr(self.dut, f"{self.name}__reads").value = self.reads
        getattr(self.dut, f"{self.name}__result").value = self.results.pop(self.cycle + 1, 0)

    def sample(self, cycle):
        self.cycle = cycle
        super().sample(cycle)

    def serve(self, cycle, address):
        if self.reads:
            super().serve(cycle, address)
        word = self.rng.getrandbits(self.config.data_width)
        at = cycle + write_latency(self.config)
        self.results[at] = word
        self.contents.coming.append((at, address, word))


def _random(rng, spread):
    while True:
        yield None if rng.random() < 0.2 else rng.randrange(spread)


def _clients(dut, walk, rng):
    """All users in order of precedence, each with its own ``walk()``; readers are sampled before the writer."""
    config, contents = CONFIGS[os.environ["CONFIG"]], _Contents()
    updates = [_Update(dut, number, walk(), contents, rng, config) for number in range(config.pipes)]
    payloads = [_Reader(dut, f"payloads__{number}", walk(), contents, config) for number in range(config.pipes)]
    return [_Reader(dut, "drain", walk(), contents, config), _Fill(dut, walk(), contents, rng, config), *updates,
            *payloads]


@cocotb.test()
async def random_traffic(dut):
    """Few addresses: most of them are read soon after they are written."""
    config, rng = CONFIGS[os.environ["CONFIG"]], random.Random(cocotb.RANDOM_SEED)
    await reset(dut)
    for spread in (8, 64, config.sram_beats):
        clients = _clients(dut, lambda spread=spread: _random(rng, spread), rng)
        await run(dut, clients, until=lambda last=clients[-1]: last.accepted >= 1000)
        readers = [client for client in clients if isinstance(client, _Reader)]
        assert all(client.refused for client in clients[2:])
        assert max(client.longest for client in clients) <= longest_stall(config)
        # Drain and fill stall for overdue requests only.
        assert all(20 * client.refused < client.accepted for client in clients[:2])
        if spread < config.sram_beats:
            assert all(reader.checked > (250 if isinstance(reader, _Update) else 500) for reader in readers)
        await _quiet(dut, clients)


async def _quiet(dut, clients):
    """Let all writes take place."""
    for client in clients:
        client.addresses, client.now = itertools.repeat(None), None
    config = CONFIGS[os.environ["CONFIG"]]
    left = iter(range(write_latency(config) + config.sram_latency + 2))
    await run(dut, clients, until=lambda: next(left, None) is None)


@cocotb.test()
async def one_bank(dut):
    """All users request the same bank all the time: each has its turn within the longest stall."""
    config, rng = CONFIGS[os.environ["CONFIG"]], random.Random(cocotb.RANDOM_SEED)
    await reset(dut)
    clients = _clients(dut, lambda: itertools.repeat(0), rng)
    await run(dut, clients, until=lambda last=clients[-1]: last.accepted >= 50)
    assert max(client.longest for client in clients) <= longest_stall(config)
    assert min(client.accepted for client in clients) >= 40
    await _quiet(dut, clients)


async def _walk(dut, walk, rng):
    """Let each user ``walk()`` for a while: it stalls for a few cycles at most."""
    config = CONFIGS[os.environ["CONFIG"]]
    users, clients = 2 + 2 * config.pipes, _clients(dut, walk, rng)
    if config.pipes == 4:
        clients = clients[:-2]      # as many readers as banks
    await run(dut, clients, until=lambda first=clients[0]: first.accepted == 60)
    for client in clients:
        assert client.refused <= users, f"{client.name} was refused {client.refused} times"
    await _quiet(dut, clients)


@cocotb.test()
async def strided_walks(dut):
    """Streams of single beats at distances of a piece of 64 beats: their banks differ from beat to beat."""
    config, rng = CONFIGS[os.environ["CONFIG"]], random.Random(cocotb.RANDOM_SEED)
    await reset(dut)
    starts = iter(rng.sample(range(64), 2 + 2 * config.pipes))
    await _walk(dut, lambda: (at % config.sram_beats for at in itertools.count(next(starts), 64)), rng)


@cocotb.test()
async def walks_side_by_side(dut):
    """Streams of all users, each in its own slot, whatever their first banks."""
    config, rng = CONFIGS[os.environ["CONFIG"]], random.Random(cocotb.RANDOM_SEED)
    await reset(dut)
    users, banks = 2 + 2 * config.pipes, 4 if config.pipes == 1 else 8
    for _ in range(20):
        starts = iter([slot * config.chunk_beats + rng.randrange(banks) for slot in rng.sample(
            range(config.slots), min(users, config.slots))] * 2)
        await _walk(dut, lambda starts=starts: itertools.count(next(starts)), rng)
