# SPDX-License-Identifier: Apache-2.0
"""Mapping of gates to LUTs with the fewest levels on every path.

Gates -> the inputs of a LUT for each net. A cut of a net is a set of nets that determine it; one of at most ``LUT``
nets is a LUT. Cuts are found from the inputs to the outputs, of each net the best ``KEPT`` only (Mishchenko and others,
"Combinational and Sequential Mapping with Priority Cuts", ICCAD 2007). Gates are shared among LUTs, which costs area,
and are not rearranged: a synthesis tool that does both may need fewer levels, and one that saves area more.
"""

from collections.abc import Iterable, Mapping

__all__ = ["KEPT", "LUT", "best_cuts"]

LUT = 6
"""Inputs of a LUT."""

KEPT = 10
"""Cuts that are kept for each net. With more, levels hardly change."""

_Cut = frozenset[int]


def best_cuts(gates: Mapping[int, list[int]], boxes: Mapping[int, list[int]],
              outputs: Iterable[int]) -> dict[int, _Cut]:
    """For ``outputs``, and all nets in front of them that are driven by gates or boxes, the inputs of their LUT.

    Parameters
    ----------
    gates, boxes : mapping
        Net -> inputs of the gate that drives it, or of a cell that is one level by itself, as a read of LUT RAM.
    outputs : iterable
        Nets whose levels matter. All other nets without a driver here are at level 0.

    Raises
    ------
    ValueError
        If the gates have a loop.
    """
    levels: dict[int, int] = {}
    cuts: dict[int, list[_Cut]] = {}
    best: dict[int, _Cut] = {}
    for net in _in_order({**gates, **boxes}, outputs):
        own = frozenset((net,))
        if net in gates:
            found = _merge([cuts[source] for source in gates[net]], levels)
            best[net], cuts[net] = found[0], [*found, own]
        else:
            cuts[net] = [own]
            if net in boxes:
                best[net] = frozenset(boxes[net])
        levels[net] = 1 + max((levels[source] for source in best[net]), default=0) if net in best else 0
    return best


def _merge(inputs: list[list[_Cut]], levels: Mapping[int, int]) -> list[_Cut]:
    """Cuts of a gate from those of its inputs, the fewest levels first, then the fewest nets.

    The last cut of each input is the input itself. That of all inputs is kept, too: others may have too many nets
    together with those of the next input.
    """
    found: dict[_Cut, int] = {frozenset(): 0}
    direct: _Cut = frozenset()
    for cuts in inputs:
        direct |= cuts[-1]
        joined = {one | other for one in found for other in cuts if len(one | other) <= LUT}
        found = {cut: max((levels[net] for net in cut), default=0) for cut in joined}
        kept = sorted(found, key=lambda cut: (found[cut], len(cut), sorted(cut)))[:2 * KEPT]
        found = {cut: found[cut] for cut in (*kept, direct)}
    return list(found)[:KEPT]


def _in_order(drivers: Mapping[int, list[int]], outputs: Iterable[int]) -> list[int]:
    """All nets in front of ``outputs``, each behind those that it depends on. Without recursion: paths are long."""
    order: list[int] = []
    done: set[int] = set()
    entered: set[int] = set()
    for output in outputs:
        stack = [output]
        while stack:
            net = stack[-1]
            missing = [source for source in drivers.get(net, ()) if source not in done]
            if net in done or not missing:
                stack.pop()
                if net not in done:
                    done.add(net)
                    order.append(net)
            elif net in entered:
                raise ValueError(f"Net {net} depends on itself")
            else:
                entered.add(net)
                stack += missing
    return order
