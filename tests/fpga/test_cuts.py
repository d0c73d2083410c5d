# SPDX-License-Identifier: Apache-2.0
"""Mapping of gates to LUTs: known depths, and random gates whose LUTs must compute the same."""

import random

import pytest

from fpga.cuts import LUT, best_cuts


def _levels(best, net):
    return 1 + max((_levels(best, source) for source in best[net]), default=0) if net in best else 0


def _tree(first, inputs):
    """Gates of a balanced binary tree over nets, and its root; ``first`` is the first new net."""
    gates, nets = {}, [*inputs]
    while len(nets) > 1:
        gates[first] = nets[:2]
        nets, first = [*nets[2:], first], first + 1
    return gates, nets[0]


@pytest.mark.parametrize("inputs, levels", [(1, 0), (2, 1), (4, 1), (6, 1), (7, 2), (16, 2), (64, 3)])
def test_trees(inputs, levels):
    gates, root = _tree(1000, range(inputs))
    assert _levels(best_cuts(gates, {}, [root]), root) == levels


def test_chain():
    # Each LUT takes 5 gates of a chain: its first has two new inputs, the others one.
    gates = {100 + at: [at, 99 + at if at else 0] for at in range(20)}
    assert _levels(best_cuts(gates, {}, [119]), 119) == 4


def test_an_inverter_is_a_lut_alone_and_none_behind_another_gate():
    best = best_cuts({10: [0], 11: [0, 1], 12: [11]}, {}, [10, 12])
    assert best == {10: {0}, 11: {0, 1}, 12: {0, 1}}


def test_box_is_a_level_and_stays():
    best = best_cuts({10: [0, 1], 12: [11, 2]}, {11: [10]}, [12])
    assert (best[11], best[12], _levels(best, 12)) == ({10}, {11, 2}, 3)


def test_loop():
    with pytest.raises(ValueError, match="depends on itself"):
        best_cuts({1: [2, 0], 2: [1, 0]}, {}, [1])


@pytest.mark.parametrize("seed", range(60))
def test_luts_compute_what_their_gates_do(seed):
    rng = random.Random(seed)
    gates = {net: [rng.randrange(max(0, net - 15), net) for _ in range(rng.choice((1, 2, 3, 4, 4)))]
             for net in range(8, 80)}
    tables = {net: rng.getrandbits(16) for net in gates}
    best = best_cuts(gates, {}, [70, 75, 79])

    def gate(net, values):
        if net not in values:
            index = sum(gate(source, values) << at for at, source in enumerate(gates[net]))
            values[net] = tables[net] >> index & 1
        return values[net]

    for _ in range(20):
        inputs = {net: rng.randrange(2) for net in range(8)}
        everything = dict(inputs)
        for net in gates:
            gate(net, everything)
        for net, cut in best.items():
            assert len(cut) <= LUT
            # Nothing but the cut is known: a net that does not follow from it would have no value.
            assert gate(net, {source: everything[source] for source in cut}) == everything[net]
