# SPDX-License-Identifier: Apache-2.0
"""Random programs of a communicator, executed by the machine and compared with the golden model."""

from dataclasses import replace
from itertools import product
from math import prod

import numpy as np

from hw.ace.model.collective import results
from hw.ace.numerics.formats import Op, width
from hw.ace.programs.schedule import assemble
from hw.ace.words import Collective, OneShot, Ordered
from tests.ace.machine import Machine
from tests.ace.numerics.operands import random_pairs, specials

__all__ = ["check", "count_for", "everywhere"]

C = Collective


def everywhere(shape):
    return list(product(*map(range, shape)))


def _operands(rng, dtype, count):
    """Random bits, including NaNs, infinities and values next to others."""
    bits = random_pairs(rng, dtype, count)[1]
    return np.where(rng.random(count) < 0.2, rng.choice(specials(dtype), count), bits)


def check(rng, collective, shape, config, *, dtype, count, both=True, widen=False, spoil=lambda words: words):
    """Run a collective in the machine and compare with the model."""
    dimensions = tuple(int(one) for one in rng.permutation(3)[:len(shape)])
    made = [assemble(config, shape, dimensions, here, both=both, collectives=[collective])
            for here in everywhere(shape)]
    assert not made[0].left_out
    machine = Machine(config, shape, dimensions, [replace(one, words=spoil(one.words)) for one in made], rng)
    plain, ordered, info = C[collective.name], isinstance(collective, Ordered), collective.info
    inputs = [_operands(rng, dtype, info.sent(count, prod(shape))) for _ in everywhere(shape)]
    root = tuple(int(rng.integers(size)) for size in shape) if info.rooted else None
    if info.from_root:
        inputs = [sent if here == root else None for here, sent in zip(everywhere(shape), inputs, strict=True)]
    what = dict(dtype=dtype, count=count, op=Op(rng.integers(3)), root=root, widen=widen)
    got = machine.run(collective, inputs, **what)
    want = results(plain, shape, inputs, both=both, ordered=ordered,
                   one_shot=count * 4 * isinstance(collective, OneShot), **what)
    for rank, (found, wanted) in enumerate(zip(got, want, strict=True)):
        assert (found is None) == (wanted is None), f"rank {rank}, {what}"
        assert found is None or np.array_equal(found, wanted), f"rank {rank}, {what}"


def count_for(rng, collective, shape, dtype, piece):
    """Elements for one to three chunks each way, or fewer; the last of them short."""
    shards = prod(shape) if collective == C.ALL_REDUCE else 1
    return int(rng.integers(1, 1 + int(rng.choice([1, 4])) * piece * shards * 8 // width(dtype)))
