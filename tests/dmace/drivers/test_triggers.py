# SPDX-License-Identifier: Apache-2.0
"""The endpoint's driver on registers and pages that only record: exported spans that count, blocks, ticks, words."""

import asyncio

import pytest

from dmace.drivers.endpoint import EndpointDriver
from dmace.drivers.triggers import CounterState, RefusedTrigger
from hw.dma_engine.words import NativeWord
from hw.endpoint.config import TINY, WIDE
from hw.endpoint.registers import WINDOWS, register_map
from hw.triggers.config import counter_address
from hw.triggers.words import ArmWord, Mode, Refusal, TickWord

OWN = WINDOWS["ENDPOINT"]


class Recorded:
    """Registers that hold the latest write, or return given values in turn; ``writes`` and ``stores`` in order."""

    def __init__(self, config=TINY, **values):
        self.names = {OWN + register.offset: register.name for register in register_map(config).registers}
        self.resets = {register.name: register.reset for register in register_map(config).registers}
        self.values, self.writes, self.stores = values, [], []

    async def read(self, offset):
        name = self.names[offset]
        given = self.values.get(name, self.resets[name])
        return given.pop(0) if isinstance(given, list) else given

    async def write(self, offset, value):
        self.writes.append((self.names[offset], value))

    async def store(self, address, data, **options):
        self.stores.append((address >> 12, address & 0xFFF, data, *options.values()))


def _driver(config=TINY, **values):
    bus = Recorded(config, **values)
    return bus, EndpointDriver(bus, config)


def test_identity_has_the_blocks():
    _, driver = _driver(TRIGGER_SIZES=TINY.triggers.pages << 4 | 8)
    with pytest.raises(RuntimeError, match=r"^The engine's sizes are {.*'blocks': 8, .*}, not {.*'blocks': 2, .*}$"):
        asyncio.run(driver.check_identity())


def test_exports_count():
    bus, driver = _driver()
    asyncio.run(driver.define_export(3, base=0x5000, length=0x8000, ports=[0, 1], counts=(1, 40, 12)))
    asyncio.run(driver.define_export(2, base=counter_address(1), length=4096, ports=[1]))
    assert bus.writes == [
        ("EXPORT_BASE_LO", 0x5000), ("EXPORT_BASE_HI", 0), ("EXPORT_LENGTH_LO", 0x8000), ("EXPORT_LENGTH_HI", 0),
        ("EXPORT_COUNTER", 12 << 16 | 1 << 8 | 40), ("EXPORT_ACCESS", 0xC000_0003), ("EXPORT_COMMIT", 3),
        ("EXPORT_BASE_LO", 0), ("EXPORT_BASE_HI", 0xF010_0000), ("EXPORT_LENGTH_LO", 4096), ("EXPORT_LENGTH_HI", 0),
        ("EXPORT_ACCESS", 0x8000_0002), ("EXPORT_COMMIT", 2)]


@pytest.mark.parametrize("counts, message", [
    ((2, 0, 12), "Block must be an integer from 0 to 1, not 2"),
    ((0, 64, 12), "Counter must be an integer from 0 to 63, not 64"),
    ((0, 0, 32), "Value of field 'shift' of register 'EXPORT_COUNTER' must fit in 5 bits, not 32"),
])
def test_exports_are_checked(counts, message):
    bus, driver = _driver()
    with pytest.raises(ValueError, match=f"^{message}$"):
        asyncio.run(driver.define_export(3, base=0, length=1, ports=[0], counts=counts))
    assert not [name for name, _ in bus.writes if name == "EXPORT_COMMIT"]


def test_pages_of_a_block():
    bus, driver = _driver()
    asyncio.run(driver.assign_block(1, [0, 5]))
    assert bus.writes == [("TRIGGER_PAGES_0", 0b100001), ("TRIGGER_COMMIT", 1)]
    bus, driver = _driver(WIDE)
    asyncio.run(driver.assign_block(7, [31, 32, 64]))
    assert bus.writes == [("TRIGGER_PAGES_0", 1 << 31), ("TRIGGER_PAGES_1", 1), ("TRIGGER_PAGES_2", 1),
                          ("TRIGGER_COMMIT", 7)]
    last = WIDE.triggers.pages - 1
    with pytest.raises(ValueError, match=f"^Page must be an integer from 0 to {last}, not {last + 1}$"):
        asyncio.run(driver.assign_block(7, [last + 1]))


def test_reset_waits_for_its_own_block():
    bus, driver = _driver(TRIGGER_BUSY=[0b11, 0b10, 0b01])
    asyncio.run(driver.reset_block(1))
    assert bus.writes == [("TRIGGER_RESET", 1)] and bus.values["TRIGGER_BUSY"] == []


def test_counter_is_read_once_it_is_valid():
    bus, driver = _driver(TRIGGER_STATE=[0x00FF_000D, 0x8001_010E], TRIGGER_REMAINING=77)
    assert asyncio.run(driver.read_counter(1, 5)) == CounterState(Mode.REPEAT, 3, 0x8001, 77)
    assert bus.writes == [("TRIGGER_SELECT", 69)]


def test_sum_counts_down():
    assert CounterState(Mode.SUM, 0, 0, (1 << 32) - 10).total == 10
    assert CounterState(Mode.SUM, 0, 0, 0).total == 0


def test_refusal_is_read_and_cleared():
    bus, driver = _driver(TRIGGER_REFUSED=[0x8004_0105, 0x0004_0105])
    assert asyncio.run(driver.refused_trigger()) == RefusedTrigger(1, 5, Refusal.OVERFLOW)
    assert bus.writes == [("TRIGGER_REFUSED", 1 << 31)]
    assert asyncio.run(driver.refused_trigger()) is None and len(bus.writes) == 1


def test_stores_of_a_tenant():
    """Ticks in pairs to the block's tick page; words and the arm word to the slot of the counter."""
    bus, driver = _driver()
    ticks = [TickWord.add(number, number, generation=7) for number in (1, 2, 3)]
    request = NativeWord.signal(dst=(1, 8), value=9)
    arm = ArmWord.arm(mode=Mode.ONCE, page=2, threshold=4, pair=True)

    async def store():
        await driver.tick(1, *ticks, offset=48, delay=6)
        await driver.prepare(1, 63, [request, ticks[0]])
        await driver.arm(1, 63, arm)

    asyncio.run(store())
    pages = TINY.dma.queues + TINY.ace.queues
    assert bus.stores == [
        (pages + 1, 48, ticks[0].to_bytes() + ticks[1].to_bytes(), 6), (pages + 1, 48, ticks[2].to_bytes(), 6),
        (pages + 3, 0xFC0, request.to_bytes()), (pages + 3, 0xFD0, ticks[0].to_bytes() + bytes(8)),
        (pages + 3, 0xFE0, arm.to_bytes())]


@pytest.mark.parametrize("name, arguments, message", [
    ("tick", (2, TickWord.add(0)), "Block must be an integer from 0 to 1, not 2"),
    ("prepare", (0, 64, [TickWord.add(0)]), "Counter must be an integer from 0 to 63, not 64"),
    ("prepare", (0, 0, []), "A counter posts one or two words, not 0"),
    ("prepare", (0, 0, [TickWord.add(0)] * 3), "A counter posts one or two words, not 3"),
    ("arm", (-1, 0, ArmWord.arm(mode=Mode.DISARM, page=0)), "Block must be an integer from 0 to 1, not -1"),
    ("reset_block", (2,), "Block must be an integer from 0 to 1, not 2"),
    ("read_counter", (0, 64), "Counter must be an integer from 0 to 63, not 64"),
])
def test_numbers_are_checked(name, arguments, message):
    bus, driver = _driver()
    with pytest.raises(ValueError, match=f"^{message}$"):
        asyncio.run(getattr(driver, name)(*arguments))
    assert not bus.stores and not bus.writes


@pytest.mark.parametrize("offset, count, align", [(8, 2, 16), (4, 1, 8), (-16, 1, 8), (4096, 2, 16)])
def test_offset_of_ticks(offset, count, align):
    bus, driver = _driver()
    with pytest.raises(ValueError, match=f"^Offset of ticks must be a multiple of {align} in the page, not {offset}$"):
        asyncio.run(driver.tick(0, *[TickWord.add(0)] * count, offset=offset))
    asyncio.run(driver.tick(0, TickWord.add(0), offset=4088))
    assert [store[:2] for store in bus.stores] == [(TINY.triggers.tick_page(0), 4088)]
