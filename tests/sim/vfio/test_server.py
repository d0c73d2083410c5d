# SPDX-License-Identifier: Apache-2.0
"""The Verilated card behind the vfio-user server: copies, refused addresses, interrupts, resets, lost clients."""

import asyncio
import itertools
import os
import random
import struct
import subprocess
import time

import pytest

from dmace.drivers.dma import DmaDriver
from hw.card.config import PRESETS
from hw.dma_engine.words import NativeWord, RequestFlag, Status
from sim.vfio.harness import build_server

from .client import BAR0, BAR2, CONFIG, DEVICE_CONTROL, RESET, Client, memory

pytestmark = pytest.mark.rtl

BASE, SPAN, WORDS = 0x10_0000, 0x1_0000, 0x12_0000
UNMAPPED = 0x7000_0000
FLUSH = 4
SC = RequestFlag.SC


class Card:
    """A client with memory, a source region 0, a destination region 1, and queue 0 with its SC at WORDS."""

    def __init__(self, path):
        self.client = Client(path)
        self.client.version()
        self.driver = DmaDriver(self, PRESETS["tiny"].endpoint.dma)
        self.memory = memory(WORDS - BASE + 4096)
        self.posted = 0

    async def read(self, offset):
        return self.client.read(BAR0, offset)

    async def write(self, offset, value):
        self.client.write(BAR0, offset, value)

    def run(self, coroutine):
        return asyncio.run(coroutine)

    def set_up(self, *, source=BASE, destination=BASE + SPAN, qos=0):
        async def program():
            await self.driver.check_identity()
            await self.driver.define_region(0, base=source, length=SPAN)
            await self.driver.define_region(1, base=destination, length=SPAN, qos=qos)
            await self.driver.configure_queue(0, sc=WORDS, skip_errors=1)
            await self.driver.start(0)
            # Doorbells may overtake register writes that no read has followed.
            assert (await self.driver.state(0)).running

        self.client.call(RESET)
        self.client.enable()
        os.pwrite(self.memory, bytes(8), WORDS - BASE)
        self.posted = 0
        self.run(program())

    def post(self, source, destination, length, flags=SC):
        word = NativeWord.copy(src=(0, source), dst=(1, destination), length=length, flags=int(flags)).to_bytes()
        self.posted += 1
        self.client.write(BAR2, 0, word[:8])
        self.client.write(BAR2, 8, word[8:])

    def word(self):
        count, result = struct.unpack("<2I", os.pread(self.memory, 8, WORDS - BASE))
        return count, Status(result >> 24)

    def wait(self):
        """Status of the latest failure, once all that was posted has completed."""
        end = time.monotonic() + 60
        while self.word()[0] != self.posted:
            assert time.monotonic() < end, (self.word(), self.posted)
        return self.word()[1]

    def fill(self, rng):
        data = rng.randbytes(SPAN)
        os.pwrite(self.memory, data + bytes(SPAN), 0)
        return data

    def destination(self, offset, length):
        return os.pread(self.memory, length, SPAN + offset)

    def close(self):
        self.client.close()
        os.close(self.memory)


@pytest.fixture(scope="module", params=["dma", *(pytest.param(level, marks=pytest.mark.long)
                                                 for level in ("card", "endpoint"))])
def path(request, tmp_path_factory):
    """The socket of a server that serves one client after the other."""
    socket = tmp_path_factory.mktemp("card") / "socket"
    with subprocess.Popen([build_server("tiny", request.param).path, "--socket", socket], stdout=subprocess.PIPE,
                          text=True) as server:
        server.stdout.readline()
        yield socket
        assert server.poll() is None, "a rule was broken"
        server.terminate()


@pytest.fixture
def card(path):
    one = Card(path)
    one.client.dma_map(BASE, WORDS - BASE + 4096, one.memory)
    yield one
    one.close()


def test_copies(card, seed):
    rng = random.Random(seed)
    card.set_up()
    data = card.fill(rng)
    at = 0
    for length in (1, 7, 64, 100, 512, 513, 4096, 9000, *(rng.randrange(1, 3000) for _ in range(8))):
        source = rng.randrange(SPAN - length)
        card.post(source, at, length)
        assert card.wait() == Status.OK
        assert card.destination(at, length + 1) == data[source:source + length] + b"\0"
        at += length + 1


def test_interrupts(card, seed):
    card.set_up()
    card.fill(random.Random(seed))
    events = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(3)]
    card.client.set_irqs(0, events)
    for number in range(1, 4):
        card.post(0, 0, 64, flags=SC | RequestFlag.IRQ)
        card.wait()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                assert os.eventfd_read(events[1]) == 1
                break
            except BlockingIOError:
                continue
        assert number == card.posted
    # Without its eventfd the vector is masked; the others have seen nothing.
    card.client.set_irqs(1, [], count=1)
    card.post(0, 0, 64, flags=SC | RequestFlag.IRQ)
    card.wait()
    card.client.read(BAR0, 0)
    for event in events:
        with pytest.raises(BlockingIOError):
            os.eventfd_read(event)
        os.close(event)


@pytest.mark.parametrize("where, status", [("source", Status.READ_DECERR), ("destination", Status.WRITE_DECERR)])
def test_unmapped(card, seed, where, status):
    """An address that is not mapped fails its request alone. A posted write is reported with the flush only."""
    card.set_up(**{where: UNMAPPED}, qos=FLUSH)
    card.fill(random.Random(seed))
    card.post(0, 0, 300)
    assert card.wait() == status
    card.set_up(qos=FLUSH)
    data = card.fill(random.Random(seed))
    card.post(0, 0, 300)
    assert card.wait() == Status.OK and card.destination(0, 300) == data[:300]


@pytest.mark.parametrize("how", ["function", "device"])
def test_reset(card, seed, how):
    """A reset under load: no write afterwards, registers at their reset values, and then correct work."""
    rng = random.Random(seed)
    for _ in range(5):
        card.set_up()
        data = card.fill(rng)
        for number in range(6):
            card.post(number * 9000, number * 9000, 9000)
        if how == "function":
            card.client.write(CONFIG, DEVICE_CONTROL, 0x8000, 2)
        else:
            card.client.call(RESET)
        before = os.pread(card.memory, WORDS - BASE + 8, 0)
        assert card.client.read(BAR0, 0) == 0xFFFF_FFFF, "memory access is disabled"
        card.client.enable()
        assert not card.run(card.driver.state(0)).running
        assert card.client.read(CONFIG, 0x108) > 0
        time.sleep(0.05)
        assert os.pread(card.memory, WORDS - BASE + 8, 0) == before
        card.set_up()
        card.post(5, 7, 1000)
        assert card.wait() == Status.OK and card.destination(7, 1000) == data[5:1005]


def test_client_vanishes(path, seed):
    """A client ends in the middle of traffic: nothing is written afterwards, and the next one finds an idle card."""
    for _ in range(5):
        one = Card(path)
        one.client.dma_map(BASE, WORDS - BASE + 4096, one.memory)
        one.set_up()
        one.fill(random.Random(seed))
        for number in range(6):
            one.post(number * 9000, number * 9000, 9000)
        one.client.close()
        two = Card(path)
        before = os.pread(one.memory, WORDS - BASE + 8, 0)
        two.client.dma_map(BASE, WORDS - BASE + 4096, two.memory)
        two.set_up()
        data = two.fill(random.Random(seed))
        two.post(1, 2, 2000)
        assert two.wait() == Status.OK and two.destination(2, 2000) == data[1:2001]
        assert os.pread(one.memory, WORDS - BASE + 8, 0) == before
        os.close(one.memory)
        two.close()


def test_time(card, seed):
    """Cycles count only while the card has work."""
    card.set_up()
    card.fill(random.Random(seed))
    cycles = []
    for _ in range(3):
        cycles.append(card.client.read(CONFIG, 0x108))
        card.post(0, 0, 64)
        card.wait()
        time.sleep(0.3)
    cycles.append(card.client.read(CONFIG, 0x108))
    spent = [after - before for before, after in itertools.pairwise(cycles)]
    # 125 cycles of memory latency, of which the level `endpoint` has one for each write, and pipelines.
    assert all(150 < cycle < 450 for cycle in spent), spent
