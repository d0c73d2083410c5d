# SPDX-License-Identifier: Apache-2.0
"""Collectives of a ring of accelerators, for a four-state simulation."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dmace.drivers.ace import AceDriver, Share, root_code
from dmace.drivers.registers import wait
from hw.ace.collectives import Collective, OneShot
from hw.ace.config import COLUMN_BYTES, AceConfig
from hw.ace.model.arrays import Bits
from hw.ace.model.collective import results
from hw.ace.numerics.formats import DType, Op
from hw.ace.words import CommandFlag, CommandWord
from sim.four_state.work import BASE, SIZE, Recorder, Work

__all__ = ["ROUND", "UNEVEN", "Call", "collectives"]

_LENGTH = 0x4000
_SOURCE, _DESTINATION, _WORD = 0, _LENGTH, 2 * _LENGTH
_SEND, _RECEIVE = 2, 3
"""Regions."""
_DOMAIN, _QUEUE, _ROOT = 3, 1, 1


class Call(NamedTuple):
    """A collective of FP32: its count, as in NCCL, and the elements between a multiple of 64 bytes and its buffers."""

    collective: Collective
    elements: int
    skew: int


ROUND = (Call(Collective.ALL_REDUCE, 32, 1), Call(Collective.ALL_REDUCE, 320, 0), Call(Collective.BROADCAST, 160, 3),
         Call(Collective.REDUCE_SCATTER, 80, 2))
"""All columns are whole, so that links carry no padding. The first collective is one-shot."""
UNEVEN = tuple(call._replace(elements=call.elements - 5) for call in ROUND)


def collectives(config: AceConfig, calls: Sequence[Call], *, ranks: int = 2, seed: int = 1) -> list[Work]:
    """The work of each rank of a ring: collectives of one queue."""
    random = np.random.default_rng(seed)
    buses = [Recorder() for _ in range(ranks)]
    drivers = [AceDriver(bus, config) for bus in buses]
    for rank, driver in enumerate(drivers):
        _configure(driver, calls, rank, ranks)
    before, after = ([bytearray(SIZE) for _ in range(ranks)] for _ in range(2))
    end = 0
    for call in calls:
        info, element = call.collective.info, end // 4 + call.skew
        inputs = [random.standard_normal(info.sent(call.elements, ranks), np.float32).view(np.uint32)
                  for _ in range(ranks)]
        root = (_ROOT,) if info.rooted else None
        outputs = results(call.collective, (ranks,), inputs, dtype=DType.FP32, count=call.elements, root=root)
        for rank, (sent, received) in enumerate(zip(inputs, outputs, strict=True)):
            _put(before[rank], _SOURCE + 4 * element, sent)
            _put(after[rank], _SOURCE + 4 * element, sent)
            if received is not None:
                _put(after[rank], _DESTINATION + 4 * element, received)
            wait(drivers[rank].post(_QUEUE, CommandWord(
                call.collective, CommandFlag.SC, 0, DType.FP32, Op.SUM, 0, root_code((ranks,), root) if root else 0,
                _SEND, element, _RECEIVE, element, call.elements)))
        longest = max(info.sent(call.elements, ranks), info.received(call.elements, ranks))
        end = (4 * (element + longest) // COLUMN_BYTES + 2) * COLUMN_BYTES
    for memory in after:
        memory[_WORD] = len(calls)
    used = [register.offset for register in drivers[0].map.registers]
    # Those of an FSM and of a slot show their last chunk: X as long as there was none. FSM_STEPS has the receives of
    # the port of its phase.
    unused = [drivers[0].map[name].offset for name in ("FSM_STATE", "FSM_STEPS", "SLOT_STATE")]
    return [Work([offset for offset in used if offset not in unused], used, bus.writes, bus.stores, bytes(old),
                 bytes(new), [_WORD]) for bus, old, new in zip(buses, before, after, strict=True)]


def _configure(driver: AceDriver, calls: Sequence[Call], rank: int, ranks: int) -> None:
    """Define the regions, the queue, and communicator 0 of all ranks."""
    config = driver.config
    wait(driver.define_region(_SEND, base=BASE + _SOURCE, length=_LENGTH, domain=_DOMAIN, writable=False))
    wait(driver.define_region(_RECEIVE, base=BASE + _DESTINATION, length=_LENGTH, domain=_DOMAIN, readable=False))
    wait(driver.configure_queue(_QUEUE, domain=_DOMAIN, sc=BASE + _WORD))
    wait(driver.define_communicator(
        0, shape=(ranks,), coordinates=(rank,), share=Share(0, config.fsms, 0, config.slots), domain=_DOMAIN,
        collectives=[*{call.collective: None for call in calls}, OneShot.ALL_REDUCE]))


def _put(memory: bytearray, start: int, elements: Bits) -> None:
    """Write elements to memory."""
    data = elements.tobytes()
    memory[start:start + len(data)] = data
