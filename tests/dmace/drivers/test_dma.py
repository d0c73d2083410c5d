# SPDX-License-Identifier: Apache-2.0
"""The register-level driver on registers that are only remembered, and the GPU's bookkeeping."""

import asyncio

import pytest

from dmace.drivers.dma import DmaDriver, LogRecord, QueueState
from hw.common.words import CompletionWord
from hw.dma_engine.config import TINY
from hw.dma_engine.registers import ID_VALUE, register_map
from hw.dma_engine.words import Command, Status
from sim.dma.describe import describe_bytes
from sim.dma.gpu import Poller, slots

MAP = register_map(TINY)


class Remembered:
    """Registers that hold what is written; ``writes`` are ``(name, value)`` in order."""

    def __init__(self, **values):
        self.names = {register.offset: register.name for register in MAP.registers}
        self.values = {register.name: register.reset for register in MAP.registers} | values
        self.writes = []

    async def read(self, offset):
        return self.values[self.names[offset]]

    async def write(self, offset, value):
        self.values[self.names[offset]] = value
        self.writes.append((self.names[offset], value))


class Lock:
    held = False

    async def __aenter__(self):
        assert not self.held
        self.held = True

    async def __aexit__(self, *_):
        self.held = False


def test_identity():
    asyncio.run(DmaDriver(Remembered(), TINY).check_identity())
    with pytest.raises(RuntimeError, match=rf"^ID and VERSION are 0x1 and 1, not {ID_VALUE:#x} and 1$"):
        asyncio.run(DmaDriver(Remembered(ID=1), TINY).check_identity())


def test_define_region():
    bus = Remembered()
    asyncio.run(DmaDriver(bus, TINY).define_region(
        9, base=0xFEDC_BA98_7654_3000, length=0x10_0000_0001, domain=0x5A, readable=False, cache=0xF, prot=2, qos=9,
        paged=True, large=True, first_page=0x12))
    assert bus.writes == [
        ("REGION_BASE_LO", 0x7654_3000), ("REGION_BASE_HI", 0xFEDC_BA98), ("REGION_LENGTH_LO", 1),
        ("REGION_LENGTH_HI", 0x10), ("REGION_ACCESS", 0x65A), ("REGION_ATTRIBUTES", 0x4AF),
        ("REGION_PAGES", 0x12_0003), ("REGION_COMMIT", 9)]


def test_define_page():
    bus = Remembered()
    driver = DmaDriver(bus, TINY)
    asyncio.run(driver.define_page(5, 0xFEDC_BA98_7654_0000))
    asyncio.run(driver.define_page(6, None))
    assert bus.writes == [
        ("PAGE_FRAME_LO", 0x7654_0000), ("PAGE_FRAME_HI", 0xFEDC_BA98), ("PAGE_COMMIT", 0x8000_0005),
        ("PAGE_FRAME_LO", 0), ("PAGE_FRAME_HI", 0), ("PAGE_COMMIT", 6)]
    with pytest.raises(ValueError, match=r"^Address of a page must be a multiple of 65536, not 0x8000$"):
        asyncio.run(driver.define_page(5, 0x8000))


def test_region_base_is_a_page():
    with pytest.raises(ValueError, match=r"^Base of a region must be a multiple of 4096, not 0x1001$"):
        asyncio.run(DmaDriver(Remembered(), TINY).define_region(0, base=0x1001, length=1))


def test_ark():
    bus = Remembered()
    driver = DmaDriver(bus, TINY, lock=Lock)
    asyncio.run(driver.define_connection(2, base=0xA5, rc=0x1_0000_0008, domain=0x5A))
    asyncio.run(driver.configure_queue(1, domain=2, sc=0x2_0000_0010, ark=7))
    assert bus.writes == [
        ("CONNECTION_RC_LO", 8), ("CONNECTION_RC_HI", 1), ("CONNECTION_CONFIG", 0x1_5AA5), ("CONNECTION_COMMIT", 2),
        ("QUEUE_ARK", 7), ("QUEUE_SC_LO", 0x10), ("QUEUE_SC_HI", 2), ("QUEUE_RC_LO", 0), ("QUEUE_RC_HI", 0),
        ("QUEUE_CONFIG", 0x902), ("QUEUE_LIMIT", 0), ("QUEUE_COMMIT", 1)]


def test_configure_and_command():
    bus = Remembered()
    driver = DmaDriver(bus, TINY, lock=Lock)
    asyncio.run(driver.configure_queue(3, domain=2, rc=0x1_0000_0008, skip_errors=True))
    asyncio.run(driver.reset(3))
    assert bus.writes == [
        ("QUEUE_SC_LO", 0), ("QUEUE_SC_HI", 0), ("QUEUE_RC_LO", 8), ("QUEUE_RC_HI", 1), ("QUEUE_CONFIG", 0x602),
        ("QUEUE_LIMIT", 0), ("QUEUE_COMMIT", 3), ("QUEUE_COMMAND", Command.RESET << 8 | 3)]


def test_state():
    bus = Remembered(QUEUE_STATE=0x307, QUEUE_COUNT=77, QUEUE_RESULT=0x1200_0005)
    state = asyncio.run(DmaDriver(bus, TINY).state(2))
    assert bus.writes == [("QUEUE_SELECT", 2)]
    assert state == QueueState(enabled=1, running=1, held=1, refusing=0, resetting=0, waiting=0, in_flight=3,
                               count=77, failed=5, status=Status.SRC_RIGHTS)


def test_log():
    bus = Remembered(ERROR_LOG=1 << 31 | 3 << 8 | Status.DST_BOUNDS, ERROR_LOG_COUNT=9)
    driver = DmaDriver(bus, TINY)
    assert asyncio.run(driver.pop_log()) == LogRecord(3, Status.DST_BOUNDS, 9)
    assert bus.writes == [("ERROR_LOG_POP", 1)]
    bus.values["ERROR_LOG"] = 0
    assert asyncio.run(driver.pop_log()) is None


def test_refused_write():
    bus = Remembered(REFUSED_WRITE=1 << 31 | MAP["QUEUE_COMMAND"].offset, REFUSED_WORD=0x206)
    driver = DmaDriver(bus, TINY, lock=Lock)
    assert asyncio.run(driver.refused_write()) == \
        "The write of 0x206 to QUEUE_COMMAND was refused: queue must be from 0 to 3, not 6"
    assert bus.writes == [("REFUSED_WRITE", 1 << 31)]
    bus.values["REFUSED_WRITE"] = MAP["QUEUE_COMMAND"].offset
    assert asyncio.run(driver.refused_write()) is None


def test_numbers_are_checked_before_they_are_written():
    bus = Remembered()
    with pytest.raises(ValueError, match=r"^Register 'QUEUE_COMMAND' cannot be written so: "
                                         r"command must be from 1 to 4, not 7$"):
        asyncio.run(DmaDriver(bus, TINY).write("QUEUE_COMMAND", queue=1, command=7))
    assert not bus.writes


def test_interrupt_sources():
    bus = Remembered(IRQ_STATUS=0b100)
    driver = DmaDriver(bus, TINY)
    asyncio.run(driver.enable_interrupts(error=True, register=True))
    asyncio.run(driver.acknowledge(completion=True))
    assert bus.writes == [("IRQ_ENABLE", 0b101), ("IRQ_STATUS", 0b010)]


@pytest.mark.parametrize(("address", "data", "size", "expected"), [
    (0, b"0123456789abcdef", 4, [(b"0123456789abcdef", 0xFFFF)]),
    (32, b"0123456789abcdefGHIJ", 4, [(b"0123456789abcdef", 0xFFFF), (b"GHIJ" + bytes(12), 0xF)]),
    (14, b"abcd", 4, [(bytes(14) + b"ab", 0xC000), (b"cd" + bytes(14), 0x3)]),
    (0, b"0123456789abcdef", 3, [(b"01234567" + bytes(8), 0xFF), (bytes(8) + b"89abcdef", 0xFF00)]),
])
def test_slots(address, data, size, expected):
    assert slots(address, data, size) == expected


def test_poller():
    poller, word = Poller(), CompletionWord(5, 1, Status.TIMEOUT)
    poller.watch(2, "rc", 0x1008)
    assert poller.count(2) == 0
    assert poller.take([(0x1000, bytes(8)), (0x1008, word.pack().to_bytes(8, "little"))]) == [(2, "rc", word)]
    assert poller.seen(2, "rc") == word and poller.seen(2, "sc") == (0, 0, 0) and poller.count(2) == 5
    poller.watch(2, "rc", None)
    assert poller.take([(0x1008, bytes(8))]) == []
    poller.discard(2)
    assert poller.count(2) == 0


def test_describe_bytes():
    assert describe_bytes([(0x1000, 1, 2)]) == "1 wrong byte from 0x1000 to 0x1000, expected 01, got 02"
    assert describe_bytes([(0x1000 + i, i, 255 - i) for i in range(9)]).startswith(
        "9 wrong bytes from 0x1000 to 0x1008, expected 00 01 02 03 04 05 06 07 ..., got ff fe")
