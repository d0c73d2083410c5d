# SPDX-License-Identifier: Apache-2.0
"""Chunks of commands: cut as documented, in the slot and FSM of their numbers, also after errors of memory."""

import random
from collections import deque

import pytest

from hw.ace.config import SEQUENCE_WIDTH
from hw.ace.numerics.formats import DType, Reduction, growth, width
from hw.ace.words import Collective, CommandWord, Status
from hw.common.words import CompletionWord
from tests.ace.command_path.front_end import (
    BASES,
    CONFIG,
    RANKS,
    SC,
    STOPPED,
    Host,
    make_command,
    pieces,
    widening,
)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_chunks(seed):
    """Chunks of several collectives in flight, cut as documented, each in the slot and FSM of its number."""
    host = Host(seed)
    rng = random.Random(seed)
    commands = [make_command(
        rng.choice([Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.ALL_GATHER]),
        count=rng.choice((1, 17, 1000, rng.randint(1, 6000))),
        dtype=(dtype := rng.choice(list(DType))), op=rng.choice(list(Reduction)),
        widen=int(growth(dtype) > 0 and rng.random() < 0.5),
        src=(1, rng.randrange(1000)), dst=(2, rng.randrange(1000))) for _ in range(8)]
    expected = [(command, piece) for command in commands for piece in pieces(host.assembly, command)]
    host.stores.extend((0, command.pack(), 0xFFFF) for command in commands[:4])
    later = deque(commands[4:])

    def done():
        # No more words than the queue has free entries.
        if later and len(host.words) >= 4 - len(later):
            host.stores.append((0, later.popleft().pack(), 0xFFFF))
        return len(host.words) == len(commands)

    host.done = done
    host.run()
    assert [word for _, word in host.words] == [(number + 1, 0, 0) for number in range(len(commands))]
    assert {address for address, _ in host.words} == {SC[0]}
    assert len(host.jobs) == len(host.drained) == len(host.chunks) == len(expected)
    for number, (job, chunk, (command, (_, column, count, shard, header))) in enumerate(
            zip(host.jobs, host.chunks, expected, strict=True)):
        size = width(DType(command.dtype)) // 8
        beats = -(-(count << widening(command)) // CONFIG.beat_bytes)
        assert (job["column"], job["piece_bytes"], job["shard_bytes"], job["piece_beats"]) == (
            column, count, shard, beats)
        assert job["base"] == BASES[1] + command.src_offset * size
        assert job["limit"] == (command.count * size if header.split else shard * (
            header.shards if header.src_whole else 1))
        assert job["runs"] == header.fills and job["divide"] == 0
        assert chunk["sequence"] == number and chunk["slot"] == number % CONFIG.slots
        assert chunk["fsm"] == number % CONFIG.fsms and chunk["piece_beats"] == beats
        assert chunk["phases"] == header.phases
    columns = sorted((job["base"], job["column"], job["piece_bytes"]) for job in host.drained)
    assert columns == sorted((BASES[2] + command.dst_offset * (width(DType(command.dtype)) // 8), column, count)
                             for command, (_, column, count, *_) in expected)
    for job in host.drained:
        assert job["divide"] in (0, RANKS)


def test_numbers_wrap():
    """Chunk 65,535 is followed by chunk 0, in the next slot and FSM."""
    host = Host(7, first_chunk=0xFFFD)
    host.stores.extend((0, make_command(Collective.ALL_REDUCE, count=3000).pack(), 0xFFFF) for _ in range(2))
    host.done = lambda: len(host.words) == 2
    host.run()
    assert [word for _, word in host.words] == [(1, 0, 0), (2, 0, 0)]
    assert len(host.chunks) > 6
    for number, chunk in enumerate(host.chunks, start=0xFFFD):
        number %= 1 << SEQUENCE_WIDTH
        assert (chunk["sequence"], chunk["slot"], chunk["fsm"]) == (number, number % CONFIG.slots, number % CONFIG.fsms)


def test_nothing_to_do():
    """A count of 0 completes at once, between collectives with chunks; a barrier has one chunk without moves."""
    host = Host(4)
    commands = [make_command(Collective.ALL_REDUCE, count=3000), make_command(Collective.ALL_REDUCE, count=0),
                make_command(Collective.BARRIER, count=0, dtype=0), make_command(Collective.ALL_REDUCE, count=10)]
    host.stores.extend((0, command.pack(), 0xFFFF) for command in commands)
    host.done = lambda: len(host.words) == 4
    host.run()
    assert [word.count for _, word in host.words] == [1, 2, 3, 4]
    chunks = [len(pieces(host.assembly, command)) for command in commands]
    assert len(host.jobs) == chunks[0] + 1 + chunks[3]
    barrier = host.jobs[chunks[0]]
    assert (barrier["runs"], barrier["piece_beats"]) == (0, 1)


READ, WRITE = 0, 1


@pytest.mark.parametrize(("number", "side"), [
    (0, WRITE), (7, READ),
    *(pytest.param(*error, marks=pytest.mark.long) for error in ((0, READ), (2, READ), (2, WRITE), (7, WRITE)))])
def test_memory_errors(side, number):
    """An error stops the communicator: its work is dropped and later commands are refused until it is opened again."""
    host = Host(20 + number)
    command = make_command(Collective.ALL_REDUCE, count=6000).pack()
    host.stores.extend((0, command, 0xFFFF) for _ in range(3))
    host.errors[number] = (1, 0) if side == 0 else (0, 1)
    reasons = (STOPPED, (Status.READ_ERROR, Status.WRITE_ERROR)[side])
    failures, again = [], []

    def done():
        last = host.words[-1][1] if host.words else CompletionWord(0, 0, 0)
        if last.status and last.failed > len(failures):
            failures.append(last.status)
            host.clears.append(0)
        if (last.count, last.status) == (3, 0) and not again:
            again.append(len(host.jobs))
            host.reopens = True
            host.errors = {}
            host.stores.append((0, command, 0xFFFF))
        return last.count == 4

    host.done = done
    host.run()
    assert failures and set(failures) <= set(reasons) and STOPPED in failures
    assert host.words[-1][1] == (4, len(failures), 0)
    # Every chunk that was cut has completed; those of the last collective are whole, and count from 0.
    whole = len(pieces(host.assembly, CommandWord.unpack(command)))
    assert len(host.jobs) == len(host.chunks) == len(host.drained) == again[-1] + whole
    assert [chunk["sequence"] for chunk in host.chunks[-whole:]] == list(range(whole))
    assert all(chunk["phases"] for chunk in host.chunks[-whole:])
    assert all(job["runs"] for job in host.drained[-whole:])
    assert again[-1] < 3 * whole
    if side == 0:
        assert not all(chunk["phases"] for chunk in host.chunks) and not all(job["runs"] for job in host.drained)
