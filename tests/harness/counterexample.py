# SPDX-License-Identifier: Apache-2.0
"""A solver's trace as a table of signals by cycle."""

import re

__all__ = ["show_trace"]

LINES = 60
"""Signals shown; those that change come first."""


def show_trace(text, place):
    """The signals of a trace by cycle.

    Parameters
    ----------
    text : str
        A value change dump, as ``yosys-smtbmc`` writes it: one positive edge of ``smt_clock`` per cycle.
    place : str
        Path of the module whose assertion failed, below ``top``. Its signals are shown, and those of the modules around
        it and directly within it.

    Returns
    -------
    str
        One line per signal, with hexadecimal values by cycle, then those that never change on a line of their own.
    """
    names, cycles = _read(text)
    around = place.split(".")
    shown = {name: key for name, key in names.items() if _is_near(name.split(".")[1:-1], around)}
    # A signal has one name in each module that it passes: the shortest one is enough.
    unique, changing, constant = set(), [], []
    for name in sorted(shown, key=lambda name: (name.count("."), name)):
        values = tuple(cycle.get(shown[name], 0) for cycle in cycles)
        label = ".".join(name.split(".")[2:]) or name.split(".")[-1]
        if (name.split(".")[-1], values) in unique or re.search(r"\$|_witness_|^clk$|\.clk$", label):
            continue
        unique.add((name.split(".")[-1], values))
        (changing if len(set(values)) > 1 else constant).append((label, values))
    width = max((len(label) for label, _ in changing), default=0)
    digits = max([2, *(len(f"{value:x}") for _, values in changing[:LINES] for value in values)])
    rows = [f"{'cycle':<{width}} " + " ".join(f"{number:>{digits}}" for number in range(len(cycles)))]
    rows += [f"{label:<{width}} " + " ".join(f"{value:>{digits}x}" for value in values)
             for label, values in changing[:LINES]]
    if len(changing) > LINES:
        rows.append(f"and {len(changing) - LINES} more in the trace")
    some = [f"{label}={values[0]:x}" for label, values in constant if values[0]]
    return "\n".join(rows + ([f"constant: {', '.join(some[:LINES])}; all others are 0"] if some else []))


def _is_near(path, around):
    """Whether a module's ``path`` is that of ``around``, above it, or one level below."""
    return path == around[:len(path)] or path[:-1] == around


def _read(text):
    """Variables by hierarchical name, and their values in each cycle."""
    names, scopes, cycles, values = {}, [], [], {}
    for line in text.splitlines():
        words = line.split()
        if line.startswith("$scope"):
            scopes.append(words[2])
        elif line.startswith("$upscope"):
            scopes.pop()
        elif line.startswith("$var") and words[1] == "wire":
            names[".".join([*scopes, words[4]])] = words[3]
        elif line.startswith("#"):
            if int(line[1:]) % 10 == 5:     # the negative edge: all values of the cycle are known
                cycles.append(dict(values))
        elif line.startswith("b"):
            values[words[1]] = int(re.sub("[xz]", "0", words[0][1:]), 2)
    return names, cycles
