# SPDX-License-Identifier: Apache-2.0
"""Bursts against a list of the bytes of each: they are contiguous, obey AXI4 and have the right properties."""

import random

import pytest

from hw.ace.bursts import Bursts, burst_bytes
from hw.ace.config import BASE, TINY, ULTRA, WIDE
from hw.ace.layouts import move_layout
from tests.ace.timing import ECP5
from tests.stream.bench import exercise


def _moves(config, rng, count):
    longest, beat = burst_bytes(config), config.beat_bytes
    for _ in range(count):
        size = rng.choice((0, 0, 1, beat - 1, beat, beat + 1, rng.randint(1, 3 * beat), rng.randint(1, 5 * longest)))
        address = (rng.getrandbits(50) << 12) + rng.choice((0, 1, 4096 - size, 4097 - size, rng.getrandbits(12)))
        yield {
            "address": address, "bytes": size, "sram": rng.getrandbits(config.sram_bits),
            "slot": rng.getrandbits(config.slot_bits), "last": rng.getrandbits(1), "dtype": rng.getrandbits(4),
            "widen": rng.getrandbits(1), "divide": 0,
        }


def _expected(config, moves):
    """The valid fields of each burst."""
    beat, longest = config.beat_bytes, burst_bytes(config)
    for move in moves:
        size, address = move["bytes"], move["address"]
        common = {name: move[name] for name in ("sram", "slot", "dtype", "widen")}
        if not size:
            if move["last"]:
                yield {"slot": move["slot"], "empty": 1, "last": 1, "ends": 1}
            continue
        common |= {
            "empty": 0, "lane": address % beat, "end_lane": (address + size - 1) % beat,
            "extra": len(range(address // beat, (address + size - 1) // beat + 1)) > -(-size // beat),
            "quarter": (size - 1) % beat * 4 // beat,
        }
        pages = range(address // longest, (address + size - 1) // longest + 1)
        for page in pages:
            start, end = max(address, page * longest), min(address + size, (page + 1) * longest)
            last = page == pages[-1]
            yield common | {
                "address": start, "len": (end - 1) // beat - start // beat, "first": page == pages[0], "last": last,
                "ends": last and move["last"],
            }


@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.4, 0.4)])
@pytest.mark.parametrize("config", [TINY, BASE, WIDE, ULTRA, ECP5], ids=["tiny", "base", "wide", "ultra", "ecp5"])
def test_bursts(config, stalls, seed):
    moves = list(_moves(config, random.Random(seed), 150))
    expected = list(_expected(config, moves))
    dut = Bursts(config)
    sent, got = exercise(dut, [(dut.i, [move_layout(config).const(move) for move in moves])], [dut.o],
                         expect=len(expected), stalls=stalls, seed=seed)
    assert len(sent) == len(moves)
    for (cycle, burst), want in zip(got, expected, strict=True):
        assert {name: burst[name] for name in want} == want
        if not burst.empty:
            assert burst.address % 4096 + burst.len * config.beat_bytes < 4096, cycle


def test_every_length_and_lane(seed):
    """Short moves at the end of a page: one burst in each cycle."""
    config = TINY
    common = {"sram": 0, "slot": 0, "last": 0, "dtype": 0, "widen": 0, "divide": 0}
    moves = [{"address": 8192 - before, "bytes": size, **common} for before in range(1, 18) for size in range(1, 19)]
    expected = list(_expected(config, moves))
    dut = Bursts(config)
    _, got = exercise(dut, [(dut.i, [move_layout(config).const(move) for move in moves])], [dut.o],
                      expect=len(expected))
    for (_, burst), want in zip(got, expected, strict=True):
        assert {name: burst[name] for name in want} == want
    assert got[-1][0] - got[0][0] == len(expected) - 1
