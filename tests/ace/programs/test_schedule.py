# SPDX-License-Identifier: Apache-2.0
"""Programs of all collectives and shapes, executed by a machine that refuses illegal steps."""

import re
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest

from hw.ace.config import BASE, TINY, ULTRA, WIDE
from hw.ace.numerics.formats import DType
from hw.ace.programs.program import Phase, Program, encode
from hw.ace.programs.schedule import Entry, assemble, plan, role_of
from hw.ace.words import Collective, HeaderWord, OneShot, Ordered, SendWord
from tests.ace.programs.random_programs import check, count_for

C = Collective

SMALL = [(1,), (2,), (3,), (4,), (5,), (1, 2), (2, 2), (4, 2), (3, 2), (2, 3), (2, 1, 3), (2, 2, 2)]
LINES = [shape for shape in SMALL if sum(size > 1 for size in shape) <= 1]
MEDIUM = [(8,), (16,), (4, 4), (4, 2, 2), (3, 3, 2), (2, 3, 4)]
LARGE = [C.ALL_REDUCE, C.REDUCE, C.ALL_TO_ALL]


def _name(value):
    return value.name if isinstance(value, (C, Ordered)) else "x".join(map(str, value))


@pytest.mark.parametrize("collective", C, ids=_name)
@pytest.mark.parametrize("shape", SMALL, ids=_name)
def test_small(shape, collective, seed, soak):
    rng = np.random.default_rng([seed, *shape, collective])
    config = replace(TINY, chunk_bytes=1024)
    for _ in range(50 if soak else 2):
        dtype = DType(rng.choice([DType.FP32, DType.INT8]))
        count = count_for(rng, collective, shape, dtype, 256 // prod(shape))
        check(rng, collective, shape, config, dtype=dtype, count=count, both=bool(rng.integers(4)))


@pytest.mark.parametrize("collective", C, ids=_name)
@pytest.mark.parametrize("shape", MEDIUM, ids=_name)
def test_medium(shape, collective, seed, soak):
    rng = np.random.default_rng([seed, *shape, collective])
    for _ in range(20 if soak else 1):
        dtype = DType(rng.choice([DType.FP32, DType.INT8]))
        check(rng, collective, shape, TINY, dtype=dtype, count=count_for(rng, collective, shape, dtype, 64))


@pytest.mark.parametrize("collective", LARGE, ids=_name)
def test_large(collective, seed, soak):
    rng = np.random.default_rng([seed, collective])
    config = replace(BASE, chunk_bytes=8192)
    for _ in range(10 if soak else 1):
        check(rng, collective, (4, 4, 4), config, dtype=DType.FP32, count=600 if collective == C.ALL_REDUCE else 20)


@pytest.mark.parametrize("collective", C, ids=_name)
def test_widened(collective, seed):
    rng = np.random.default_rng([seed, collective])
    config = replace(TINY, chunk_bytes=1024)
    for dtype, shape in product((DType.FP16, DType.BF16, DType.E4M3), [(1,), (4,), (3, 2)]):
        count = count_for(rng, collective, shape, dtype, 64)
        check(rng, collective, shape, config, dtype=dtype, count=count, widen=True)


def _sends(words):
    """Addresses of the sends of the only program in ``words``."""
    header, at = HeaderWord.unpack(words[0]), 0
    at = 1 + header.fills + header.drains
    for _ in range(header.phases):
        count = (words[at] >> 12) & 0xFFF
        yield from range(at + 1, at + 1 + count)
        at += 1 + count


def _with(words, address, **changed):
    return (*words[:address], SendWord.unpack(words[address])._replace(**changed).pack(), *words[address + 1:])


def _too_soon(words):
    """The last send no longer waits for the data that it forwards."""
    *_, last = _sends(words)
    return _with(words, last, need=SendWord.unpack(words[last]).need - 1)


def _all_at_once(words):
    for address in _sends(words):
        words = _with(words, address, need=0)
    return words


def _elsewhere(words):
    first, *_ = _sends(words)
    return _with(words, first, target=(SendWord.unpack(words[first]).target + 1) % 4)


def _copied(words):
    first, *_ = _sends(words)
    return _with(words, first, reduce=0)


def _granted_early(words):
    """A send grants a receive that becomes safe only with the next one."""
    giver, receiver = [at for at in _sends(words) if SendWord.unpack(words[at]).grants][:2]
    assert giver < receiver
    more = SendWord.unpack(words[giver]).grants + SendWord.unpack(words[receiver]).grants
    return _with(_with(words, giver, grants=more), receiver, grants=0)


def _never_granted(words):
    *_, last = [at for at in _sends(words) if SendWord.unpack(words[at]).grants]
    return _with(words, last, grants=0)


@pytest.mark.parametrize("collective, spoil", [
    (C.ALL_REDUCE, _too_soon), (C.ALL_REDUCE, _elsewhere), (C.ALL_REDUCE, _copied), (C.ALL_GATHER, _too_soon),
    (C.REDUCE_SCATTER, _too_soon), (C.ALL_TO_ALL, _too_soon), (C.ALL_TO_ALL, _elsewhere),
    (C.ALL_TO_ALL, _granted_early), (C.ALL_TO_ALL, _never_granted), (C.BARRIER, _all_at_once),
], ids=lambda value: value.name if isinstance(value, C) else value.__name__)
def test_machine_finds_faults(collective, spoil, seed):
    rng = np.random.default_rng(seed)
    with pytest.raises(AssertionError):
        for _ in range(40):
            check(rng, collective, (4,), TINY, dtype=DType.FP32, count=400, both=False, spoil=spoil)


def test_sizes():
    for shape in [(16,), (4, 2, 2), (4, 4, 2)]:
        made = assemble(TINY, shape, range(len(shape)), (0,) * len(shape))
        assert not set(made.left_out) & set(C) and len(made.words) <= 570, (shape, len(made.words))
    made = assemble(TINY, (4, 4, 4), (0, 1, 2), (1, 2, 3), collectives=tuple(C))
    assert made.left_out == {C.ALL_TO_ALL: "112 positions of 64 bytes do not fit a slot of 4096 bytes"}
    assert set(made.directory) == set(C) - {C.ALL_TO_ALL} and len(made.words) <= 446
    for config in (BASE, WIDE, ULTRA):
        assert set(assemble(config, (4, 4, 4), (0, 1, 2), (1, 2, 3)).left_out) == set(Ordered)


@pytest.mark.parametrize("ranks", [2, 3, 5, 7, 12])
@pytest.mark.parametrize("config", [TINY, WIDE, ULTRA], ids=["tiny", "wide", "ultra"])
def test_the_longest_pieces_fit_a_slot(config, ranks):
    """In whole beats, also if a beat is longer than a column."""
    config = replace(config, chunk_bytes=4096, message_bytes=1024)
    program = plan(C.ALL_REDUCE, (ranks,), (0,), (0,))
    piece = HeaderWord.unpack(encode(program, config)[0]).piece * 64
    beats = -(-piece // config.beat_bytes)
    assert 0 < program.positions * beats <= config.chunk_beats
    assert program.positions * (piece + max(64, config.beat_bytes)) > config.chunk_bytes


def test_what_an_all_reduce_sends():
    """In a 4x4x4: 3/4 of the slot along the first dimension, twice; of the remaining quarter, 2 * 3/4 along each of the
    other dimensions."""
    program = plan(C.ALL_REDUCE, (4, 4, 4), (0, 1, 2), (0, 0, 0))
    assert [(phase.port, phase.span * len(phase.sends)) for phase in program.phases] == \
        [(0, 48), (2, 24), (4, 24), (0, 48)]
    assert len(plan(C.ALL_REDUCE, (1, 8, 1), (0, 1, 2), (0, 0, 0)).phases) == 1


@pytest.mark.parametrize("size", [2, 3, 4, 16])
def test_what_an_all_to_all_sends(size):
    for up in (True, False):
        program = plan(C.ALL_TO_ALL, (size,), (0,), (0,), up=up)
        assert program.phases[0].receives == len(program.phases[0].sends) == size * (size - 1) // 2
        assert program.positions == 2 * size - 1


def test_drains_are_runs():
    assert len(plan(C.ALL_TO_ALL, (16,), (0,), (5,)).drains) == 1
    assert len(plan(C.ALL_TO_ALL, (4, 4, 4), (0, 1, 2), (3, 0, 2)).drains) == 1
    assert len(plan(C.ALL_TO_ALL, (4, 2, 2), (0, 1, 2), (3, 0, 1)).drains) <= 16


def test_base_and_directory():
    made = assemble(TINY, (4,), (1,), (2,), base=100)
    plus, minus = (encode(plan(C.ALL_REDUCE, (4,), (1,), (2,), up=up), TINY) for up in (True, False))
    entry = made.directory[C.ALL_REDUCE]
    assert made.base == 100 and entry == Entry(100, 100 + len(plus), True)
    assert list(made.words[:len(plus) + len(minus)]) == plus + minus
    assert not made.directory[C.BARRIER].both
    only_up = assemble(TINY, (4,), (1,), (2,), both=False)
    assert all(entry.plus == entry.minus and not entry.both for entry in only_up.directory.values())


def test_equal_programs_are_stored_once():
    made = assemble(TINY, (1, 1), (0, 1), (0, 0))
    entry = made.directory[C.ALL_REDUCE]
    assert entry.plus == entry.minus
    # Each other role in the last dimension leaves only one possible program.
    words = {role: tuple(encode(plan(C.BROADCAST, (4, 4), (0, 1), (0, 0), role=role), TINY))
             for role in product(range(3), repeat=2)}
    assert len(set(words.values())) == 5
    made = assemble(TINY, (4, 4), (0, 1), (0, 0), both=False, collectives=[C.BROADCAST])
    assert len(made.words) == sum(map(len, set(words.values()))) + 9


def test_what_does_not_fit_the_memory_is_left_out():
    whole = assemble(TINY, (16,), (0,), (0,))
    made = assemble(TINY, (16,), (0,), (0,), base=1024 - len(whole.words) + 1)
    assert set(made.left_out) == {C.ALL_TO_ALL}
    assert made.left_out[C.ALL_TO_ALL] == "124 more words do not fit: 123 of the programs' memory are free"
    full = assemble(TINY, (16,), (0,), (0,), base=1024)
    assert not full.words and not full.directory and set(full.left_out) == {*C, *Ordered, *OneShot}


@pytest.mark.parametrize("data_bytes", [1024, 4096, 32768])
def test_pieces_are_as_long_as_they_can_be(data_bytes):
    config = replace(TINY, chunk_bytes=data_bytes)
    for shape in [(1,), (2,), (3,), (5,), (8,)]:
        program = plan(C.ALL_TO_ALL, shape, (0,), (0,))
        piece = HeaderWord.unpack(encode(program, config)[0]).piece
        assert program.positions * piece * 64 <= data_bytes < program.positions * (piece + 1) * 64


def test_roles():
    def chain(collective, size, root, up):
        return [role_of(collective, here, root, size, up=up) for here in range(size)]

    assert chain(C.BROADCAST, 5, 1, True) == chain(C.REDUCE, 5, 1, False) == [2, 0, 1, 1, 1]
    assert chain(C.BROADCAST, 5, 1, False) == chain(C.REDUCE, 5, 1, True) == [1, 0, 2, 1, 1]
    assert chain(C.REDUCE, 2, 0, True) == [0, 2] and chain(C.REDUCE, 1, 0, True) == [0]


@pytest.mark.parametrize("message, make", [
    ("A communicator must have 1 to 3 dimensions, not 0", lambda: plan(C.ALL_REDUCE, (), (), ())),
    ("A communicator must have 1 to 3 dimensions, not 4", lambda: plan(C.ALL_REDUCE, (2,) * 4, range(4), (0,) * 4)),
    ("A communicator must have 1 to 128 ranks, not a shape of (0, 2)",
     lambda: assemble(TINY, (0, 2), (0, 1), (0, 0))),
    ("A communicator must have 1 to 128 ranks, not a shape of (16, 16)",
     lambda: assemble(TINY, (16, 16), (0, 1), (0, 0))),
    ("Dimensions of the torus for a shape of (4, 2) must be as many different numbers below 3, not (1, 1)",
     lambda: assemble(TINY, (4, 2), (1, 1), (0, 0))),
    ("Dimensions of the torus for a shape of (4,) must be as many different numbers below 3, not (3,)",
     lambda: assemble(TINY, (4,), (3,), (0,))),
    ("Coordinates (4,) are outside a shape of (4,)", lambda: assemble(TINY, (4,), (0,), (4,))),
    ("A program for ALL_REDUCE in 1 dimensions cannot have the role (0,)",
     lambda: plan(C.ALL_REDUCE, (4,), (0,), (0,), role=(0,))),
    ("A program for REDUCE in 2 dimensions cannot have the role None",
     lambda: plan(C.REDUCE, (4, 2), (0, 1), (0, 0))),
    ("128 positions of 64 bytes do not fit a slot of 4096 bytes",
     lambda: encode(plan(C.ALL_REDUCE, (128,), (0,), (0,)), TINY)),
    ("12 positions of 128 bytes do not fit a slot of 1024 bytes",
     lambda: encode(plan(C.ALL_REDUCE, (12,), (0,), (0,)), replace(ULTRA, chunk_bytes=1024, message_bytes=512))),
    ("The program cannot be encoded: sends must fit 12 bits, not 8128",
     lambda: encode(plan(C.ALL_TO_ALL, (128,), (0,), (0,)), WIDE)),
])
def test_errors(message, make):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()


@pytest.mark.parametrize("phase", [{"receives": 1}, {"sends": (SendWord(0, 0, 0, 0, 0),)}])
def test_phases_without_positions_are_refused(phase):
    """An FSM would wait for ever: such a send has no packet, and such a receive never ends."""
    sentence = "^The program cannot be encoded: phase 1 has sends or receives, and a span of 0 positions$"
    with pytest.raises(ValueError, match=sentence):
        encode(Program(positions=1, shards=1, phases=(Phase(port=0, span=0), Phase(port=0, span=0, **phase))), TINY)


_GRANTING = SendWord(0, 0, 0, 0, 0, next=2)
"""A send that grants the receives of the next phase, which is in dimension 1 and has no sends that go back."""


@pytest.mark.parametrize("sends, following", [
    ((_GRANTING,), ()),
    ((_GRANTING._replace(next=3),), (Phase(port=2, span=1, receives=1),)),
    ((_GRANTING._replace(next_both=1),), (Phase(port=2, span=1, receives=1),)),
    ((_GRANTING._replace(next=1),), (Phase(port=0, span=1, receives=1),)),
    ((_GRANTING,), (Phase(port=3, span=1, receives=1),)),
    ((_GRANTING,), (Phase(port=2, span=1, sends=(SendWord(0, 0, 0, 1, 0),), receives=1),)),
    ((_GRANTING, _GRANTING), (Phase(port=2, span=1, receives=1),)),
], ids=["no next phase", "another dimension", "both", "the same dimension", "another direction", "more", "twice"])
def test_wrong_grants_of_the_next_phase_are_refused(sends, following):
    """The neighbours would be granted other receives than the next phase has, or wait for ever."""
    first = Phase(port=0, span=1, sends=sends)
    with pytest.raises(ValueError, match=r"^The program cannot be encoded: one send of phase 0 may grant all"):
        encode(Program(positions=1, shards=1, phases=(first, *following)), TINY)
    right = (replace(first, sends=(_GRANTING,)), Phase(port=2, span=1, receives=1))
    assert encode(Program(positions=1, shards=1, phases=right), TINY)
