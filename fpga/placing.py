# SPDX-License-Identifier: Apache-2.0
"""Placements: nextpnr with several seeds, as many at a time as there are cores, of which the fastest is kept.

From seed to seed a design's clock differs by a twentieth and more.
"""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hw.errors import UserError

from . import tools
from .timing import read_report

__all__ = ["SEEDS", "place"]

SEEDS = (1, 3)
"""Default seeds of a board's placements: those of 1, 2 and 3 with which the ring is fastest."""


def place(nextpnr: tools.Tool, folder: Path, options: Mapping[int, Sequence[str]], *, needs: Sequence[str],
          clock_hz: float, line: Callable[[str], object]) -> dict[int, float | None]:
    """Place and route with each of ``options``, and move the result of the fastest to ``folder``.

    Parameters
    ----------
    nextpnr : Tool
    folder : Path
        Has the files that are needed.
    options : dict
        Of nextpnr, by seed.
    needs : tuple of str
        Files that nextpnr reads.
    clock_hz : float
    line : callable
        Receives each line that nextpnr says with the first seed.

    Returns
    -------
    dict
        MHz by seed; ``None`` where nextpnr failed.

    Raises
    ------
    UserError
        If it failed with every seed.
    """
    folders = {seed: folder / f"seed_{seed}" for seed in options}
    first = next(iter(options))
    failures: list[UserError] = []

    def one(seed: int) -> float | None:
        folders[seed].mkdir(exist_ok=True)
        for name in needs:
            shutil.copy(folder / name, folders[seed] / name)
        try:
            tools.run(nextpnr, [*options[seed], "--json", "board.json", "--report", "timing.json", "--write",
                                "placed.json", "--timing-allow-fail"], folder=folders[seed],
                      log=folders[seed] / "nextpnr.log", line=line if seed == first else lambda text: None)
        except UserError as error:
            failures.append(error)
            return None
        mhz: float = read_report(folders[seed] / "timing.json", wanted_hz=clock_hz)["mhz"]
        return mhz

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        reached = dict(zip(options, pool.map(one, options), strict=True))
    if len(failures) == len(options):
        raise failures[0]
    best = max((seed for seed, mhz in reached.items() if mhz), key=lambda seed: (reached[seed], -seed))
    for file in folders[best].iterdir():
        if file.name not in needs:
            file.replace(folder / file.name)
    for done in folders.values():
        shutil.rmtree(done)
    return reached
