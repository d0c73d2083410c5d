# SPDX-License-Identifier: Apache-2.0
"""Copies of a DMA engine, for a four-state simulation."""

from collections.abc import Sequence

from dmace.drivers.dma import DmaDriver
from dmace.drivers.registers import wait
from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.words import Command, NativeWord
from sim.four_state.work import BASE, SIZE, Recorder, Work

__all__ = ["copies"]

_LENGTH = 0x4000
_SOURCE, _DESTINATION, _WORDS = 0, _LENGTH, 2 * _LENGTH
_DOMAIN, _QUEUE = 3, 1


def copies(config: DmaConfig, lengths: Sequence[int] = (1, 8, 61, 300, 1100)) -> Work:
    """Copies of one queue, from and to odd addresses, of at most 2048 bytes each."""
    bus = Recorder()
    driver = DmaDriver(bus, config)
    wait(driver.define_region(2, base=BASE + _SOURCE, length=_LENGTH, domain=_DOMAIN, writable=False))
    wait(driver.define_region(3, base=BASE + _DESTINATION, length=_LENGTH, domain=_DOMAIN, readable=False))
    wait(driver.configure_queue(_QUEUE, domain=_DOMAIN, sc=BASE + _WORDS, rc=BASE + _WORDS + 8))
    wait(driver.command(_QUEUE, Command.START))
    before = bytes((at * 7 + at // 256) % 256 for at in range(_LENGTH)).ljust(SIZE, b"\0")
    after, stores = bytearray(before), []
    for number, length in enumerate(lengths):
        source, destination = 2049 * number % 0x3000 + 5, 2100 * number + 3
        word = NativeWord.copy(src=(2, source), dst=(3, destination), length=length)
        stores.append((_QUEUE * PAGE_BYTES, word.to_bytes()))
        start = _DESTINATION + destination
        after[start:start + length] = before[_SOURCE + source:_SOURCE + source + length]
    words = (_WORDS, _WORDS + 8)
    for word_at in words:
        after[word_at] = len(lengths)
    registers = [register.offset for register in driver.map.registers]
    return Work(registers, registers, bus.writes, stores, before, bytes(after), words)
