# SPDX-License-Identifier: Apache-2.0
"""One-shot programs: executed by a machine that refuses illegal steps; what they send, and in which order they add."""

from functools import reduce
from math import prod

import numpy as np
import pytest

from hw.ace.config import BASE, TINY
from hw.ace.model.collective import results
from hw.ace.model.numerics import combine
from hw.ace.numerics.formats import DType, Op
from hw.ace.programs.schedule import assemble, plan
from hw.ace.words import Collective, OneShot, PhaseWord, SendWord
from tests.ace.programs.random_programs import check, everywhere

ALL_REDUCE = OneShot.ALL_REDUCE
SHAPES = [(1,), (2,), (3,), (4,), (5,), (8,), (16,), (1, 2), (2, 2), (4, 2), (3, 2), (2, 3), (2, 1, 3), (2, 2, 2),
          (4, 4), (4, 2, 2), (3, 3, 2), (2, 3, 4)]


def _name(value):
    return "x".join(map(str, value))


@pytest.mark.parametrize("shape", SHAPES, ids=_name)
def test_results(shape, seed, soak):
    rng = np.random.default_rng([seed, *shape])
    for count in (1, 17, 1000, *rng.integers(1, 3000, 20 if soak else 1)):
        check(rng, ALL_REDUCE, shape, TINY, dtype=DType(rng.choice([DType.FP32, DType.INT8])), count=int(count))
    check(rng, ALL_REDUCE, shape, TINY, dtype=DType.BF16, count=300, widen=True)


@pytest.mark.parametrize("size", range(2, 33))
def test_hops(size):
    """Half of the ring in one direction, the rest in the other; each round forwards what came in the previous one."""
    for rank in range(size):
        program = plan(ALL_REDUCE, (size,), (1,), (rank,))
        phase, = program.phases
        up, back = ([send for send in phase.sends if not send.local and send.back == back] for back in (0, 1))
        sums = [send for send in phase.sends if send.local]
        assert (phase.port, phase.receives, phase.both) == (2, size // 2, size > 2) and program.early
        assert [send.need for send in up] == list(range(size // 2))
        assert [send.need for send in back] == list(range((size - 1) // 2))
        assert [send.need for send in sums] == [(size - 1) // 2] * (size - 1)
        # Sends of a round precede those of later ones, and the sums all of them.
        order = [size if send.local else send.need for send in phase.sends]
        assert order == sorted(order) and phase.granted >= len(phase.sends)


def test_it_is_rank_order_on_a_ring(seed):
    """Also as a plain loop over the ranks has it."""
    rng = np.random.default_rng(seed)
    inputs = list(rng.standard_normal((5, 200)).astype(np.float32).view(np.uint32))
    what = dict(dtype=DType.FP32, count=200)
    short = results(Collective.ALL_REDUCE, (5,), inputs, one_shot=800, **what)
    assert all((one == two).all() for one, two in zip(
        short, results(Collective.ALL_REDUCE, (5,), inputs, ordered=True, **what), strict=True))
    loop = reduce(lambda one, two: combine(Op.SUM, one, two, a_type=DType.FP32), inputs)
    assert (short[3] == loop).all()
    longer = results(Collective.ALL_REDUCE, (5,), inputs, one_shot=799, **what)
    assert (longer[0] != loop).any()


def test_order_on_a_torus(seed):
    """Sums of the first dimension, then of the second."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((3, 4, 50)).astype(np.float32)
    made = results(Collective.ALL_REDUCE, (3, 4), list(values.reshape(12, 50).view(np.uint32)), dtype=DType.FP32,
                   count=50, one_shot=200)
    first = (values[0] + values[1]) + values[2]
    want = ((first[0] + first[1]) + first[2]) + first[3]
    assert all((one.view(np.float32) == want).all() for one in made)


@pytest.mark.parametrize("spoil", ["need", "target", "source", "reduce", "back", "early"])
def test_machine_finds_faults(spoil, seed):
    rng = np.random.default_rng(seed)

    def spoilt(words):
        """The last forwarded part (or a sum) is wrong."""
        header, fill, drain, phase, *sends = words
        sends = [SendWord.unpack(word) for word in sends]
        forwards = [number for number, send in enumerate(sends) if not send.local]
        at = forwards[-1] if spoil != "reduce" else len(sends) - 1
        send = sends[at]
        changed = {"need": {"need": send.need - 1}, "target": {"target": send.target % 3 + 1},
                   "source": {"source": 0}, "reduce": {"reduce": 0}, "back": {"back": 1 - send.back},
                   "early": {"target": 0}}[spoil]
        sends[at] = send._replace(**changed)
        return (header, fill, drain, phase, *(send.pack() for send in sends))

    with pytest.raises(AssertionError):
        for _ in range(40):
            check(rng, ALL_REDUCE, (4,), TINY, dtype=DType.FP32, count=100, spoil=spoilt)


def test_what_it_sends():
    """In 4x2x2: three pieces on both links of the first dimension, one on a link of each other."""
    program = plan(ALL_REDUCE, (4, 2, 2), (0, 1, 2), (3, 0, 1))
    assert [(phase.port, sum(not send.local for send in phase.sends)) for phase in program.phases] == [
        (0, 3), (2, 1), (4, 1)]
    assert program.positions == 6 and not plan(ALL_REDUCE, (1, 1), (0, 1), (0, 0)).phases


def test_sizes():
    for config in (TINY, BASE):
        for shape in [(16,), (32,), (64,), (4, 4, 4)]:
            made = assemble(config, shape, tuple(range(len(shape))), (0,) * len(shape), collectives=OneShot)
            longest = config.chunk_bytes // 64 >= (program := plan(
                ALL_REDUCE, shape, tuple(range(len(shape))), (0,) * len(shape))).positions
            assert (not made.left_out) == longest
            assert len(made.words) <= 3 + 2 * sum(shape) and program.positions == 1 + sum(size - 1 for size in shape)


def test_words():
    word = PhaseWord(5, 255, 1, 100, 60, 100)
    assert PhaseWord.unpack(word.pack()) == word and SendWord.unpack(SendWord(1, 2, 3, 4, 1, 0, 1).pack()).local
    assert len(everywhere((4, 2))) == prod((4, 2))
