# SPDX-License-Identifier: Apache-2.0
"""The table of queue settings, and what derives from it."""

import asyncio
import re
from operator import attrgetter
from pathlib import Path

import pytest
from amaranth import Value

from dmace.drivers.dma import DmaDriver
from hw.dma_engine.config import PRESETS, TINY
from hw.dma_engine.configuration import QueueWriteSignature
from hw.dma_engine.descriptors import RingLocation
from hw.dma_engine.model.engine import DmaModel
from hw.dma_engine.queue_settings import QUEUE_SETTINGS, QueueSetting, Setter, check_queue_settings
from hw.dma_engine.registers import register_map

ENGINE = Path(__file__).parents[2] / "hw" / "dma_engine"
KEYWORDS = [setting for setting in QUEUE_SETTINGS if setting.setter is Setter.KEYWORD]


class _Written:
    """A bus that keeps the latest word written at each offset."""

    def __init__(self):
        self.words = {}

    async def read(self, offset):
        return self.words[offset]

    async def write(self, offset, value):
        self.words[offset] = value


@pytest.mark.parametrize("preset", PRESETS)
def test_members_are_as_wide_as_their_settings(preset):
    """``Value.eq`` truncates or extends without a complaint."""
    config = PRESETS[preset]
    write = QueueWriteSignature(config).create()
    for setting in QUEUE_SETTINGS:
        member = Value.cast(attrgetter(setting.member)(write))
        assert len(member) == setting.bits(config) - setting.low_bits, setting.name


@pytest.mark.parametrize("setting", QUEUE_SETTINGS, ids=lambda setting: setting.name)
def test_stages_use_the_setting(setting):
    last = setting.member.rpartition(".")[2]
    kind = r'_addr"' if last.endswith("_addr") else rf"\.{last}\b"
    for stage in setting.stages:
        text = (ENGINE / stage).read_text(encoding="utf-8")
        # A stage that takes a whole struct (the ring's, the ARK settings) need not name its members.
        assert re.search(rf"{kind}|\.{last}\b|configure\.{setting.member.partition('.')[0]}\b", text), stage


@pytest.mark.parametrize("setting", KEYWORDS, ids=lambda setting: setting.name)
def test_driver_writes_the_setting_to_its_field(setting):
    bus, registers = _Written(), register_map(TINY)
    driver = DmaDriver(bus, TINY)
    for value in (setting.values(TINY)[0], setting.values(TINY)[-1]):
        asyncio.run(driver.configure_queue(1, **{setting.name: value}))
        for other in KEYWORDS:
            register = registers[other.register]
            found = register.unpack(bus.words[register.offset])[other.field]
            assert found == (value if other is setting else other.reset), other.name


@pytest.mark.parametrize("pair", [False, True])
def test_driver_writes_the_ring(pair):
    bus, registers = _Written(), register_map(TINY)
    ring = RingLocation(base=0x12_3000, size=5, records=0x45_6000, pair=pair)
    asyncio.run(DmaDriver(bus, TINY).configure_queue(1, ring=ring))
    register = registers["RING_CONFIG"]
    assert register.unpack(bus.words[register.offset]) == {"size": 5, "records": 1, "pair": int(pair)}


@pytest.mark.parametrize("setting", KEYWORDS, ids=lambda setting: setting.name)
def test_driver_refuses_an_illegal_value(setting):
    bus, last = _Written(), setting.values(TINY)[-1]
    with pytest.raises(ValueError, match=rf"^Setting '{setting.name}' of a queue must be from 0 to {last}, "
                                         rf"not {last + 1}$"):
        asyncio.run(DmaDriver(bus, TINY).configure_queue(1, **{setting.name: last + 1}))
    assert not bus.words


def test_unknown_settings():
    with pytest.raises(TypeError, match=r"^Setting of a queue must be one of domain, skip_errors, target, limit, "
                                        r"priority, weight, not 'colour'$"):
        check_queue_settings(TINY, {"colour": 1})
    with pytest.raises(TypeError, match=r"^Setting of a queue that the model ignores must be one of target, limit, "
                                        r"priority, weight, not 'colour'$"):
        DmaModel(TINY).configure_queue(0, colour=1)


def test_rows_are_checked():
    row = {"name": "colour", "doc": "Colour.", "width": 2, "stages": ()}
    with pytest.raises(ValueError, match=r"^Register of the queue setting 'colour' must be one of QUEUE_SC, QUEUE_RC, "
                                         r"QUEUE_CONFIG, RING_BASE, RING_RECORDS, RING_CONFIG, QUEUE_LIMIT, QUEUE_ARK, "
                                         r"not 'COLOURS'$"):
        QueueSetting(register="COLOURS", **row)
    with pytest.raises(ValueError, match=r"^Reset value of the queue setting 'colour' must be 0, not 1: only members "
                                         r"of 'settings' have another one$"):
        QueueSetting(register="QUEUE_CONFIG", member="colour", reset=1, **row)
    assert QueueSetting(register="QUEUE_CONFIG", reset=1, **row).in_row
