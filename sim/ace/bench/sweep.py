"""Throughput over FSMs and slots.

A communicator with a share of FSMs and slots works as in an accelerator that has no more of them, so one accelerator
with many measures all.
"""

from dataclasses import replace

from rich.table import Table

__all__ = ["cases", "largest", "show"]

SHAPES = ((8,), (4, 2, 2))
FSMS = (1, 2, 4, 8, 16)
SLOTS_PER_FSM = (1, 2, 4)
MOST_SLOTS = 32


def largest(config):
    """The accelerator that has all that is swept."""
    return replace(config, fsms=max(config.fsms, *FSMS), slots=max(config.slots, MOST_SLOTS))


def cases(bench, size, *, shapes=SHAPES, fsms=FSMS):
    """``(note, case)`` for each number of FSMs, with as many slots, or more; ``case()`` is a row.

    Few FSMs are slow, and have less than ``size`` bytes to do.
    """
    for shape in shapes:
        for one in fsms:
            part = size * min(one, 4) // 4
            for slots in (one * times for times in SLOTS_PER_FSM if one * times <= min(MOST_SLOTS, bench.config.slots)):
                yield f"{one} FSMs, {slots} slots", lambda shape=shape, one=one, slots=slots, part=part: _point(
                    bench, shape, part, one, slots)


def _point(bench, shape, size, fsms, slots):
    cycles = bench.run(shape, size, fsms=fsms, slots=slots)["cycles"]
    least = max(bench.bound(shape, size))
    return {"nodes": list(shape), "bytes": size, "fsms": fsms, "slots": slots,
            "sram_bytes": slots * bench.config.chunk_bytes, "cycles": cycles, "bound_share": round(least / cycles, 4)}


def show(result, console):
    by_shape = {}
    for row in result["sweep"]:
        by_shape.setdefault(tuple(row["nodes"]), {})[row["fsms"], row["slots"]] = row
    for shape, rows in by_shape.items():
        sram = {slots: row["sram_bytes"] for (_, slots), row in sorted(rows.items())}
        table = Table(title=f"Share of the bound on {'x'.join(map(str, shape))}, over FSMs and SRAM")
        table.add_column("FSMs", justify="right")
        for slots, size in sorted(sram.items()):
            table.add_column(f"{size // 1024} KiB,\n{slots} slot{'s' * (slots > 1)}", justify="right")
        for fsms in sorted({fsms for fsms, _ in rows}):
            table.add_row(f"{fsms}", *(f"{rows[fsms, slots]['bound_share']:.3f}" if (fsms, slots) in rows else ""
                                       for slots in sorted(sram)))
        console.print(table)
