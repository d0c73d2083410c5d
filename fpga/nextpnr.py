"""Placing and routing by nextpnr: a netlist to ``placed.json`` and the report ``timing.json``.

Of a large design, placing and routing are two runs. Router 1, the only one that ends where it minds the clock, takes
hours then; router 2 ends in minutes where it does not. The placement, which makes most of the clock, still minds it.
"""

import json
import re

from . import tools

__all__ = ["LARGE", "place_and_route", "progress"]

LARGE = 20_000
"""LUT4s from which on a design is large: the DMA engine, `tiny`, has 12,000 and takes router 1 four minutes."""

_RESULTS = ("--report", "timing.json", "--write", "placed.json", "--timing-allow-fail")


def place_and_route(nextpnr, folder, options, *, split, line):
    """Run nextpnr on ``board.json`` in ``folder``.

    Parameters
    ----------
    nextpnr : :class:`fpga.tools.Tool`
    options : list of str
        Part, constraints and clock.
    split : bool
        Large designs are placed and routed in two runs; needs an FPGA that router 2 knows.
    line : callable
        Receives each line of the logs.
    """
    def run(log, *more):
        tools.run(nextpnr, [*options, *more], folder=folder, log=folder / log, line=line)

    if not split or (folder / "board.json").read_text(encoding="utf-8").count('"type": "LUT4"') < LARGE:
        run("nextpnr.log", "--json", "board.json", *_RESULTS)
        return
    run("nextpnr.log", "--json", "board.json", "--no-route", "--write", "between.json", "--timing-allow-fail")
    between = folder / "between.json"
    design = json.loads(between.read_text(encoding="utf-8"))
    for module in design["modules"].values():
        # What the first run was asked for would go before the options of the second.
        for name in ("router", "timing_driven"):
            module["settings"].pop(name)
    between.write_text(json.dumps(design), encoding="utf-8")
    run("nextpnr-route.log", "--json", "between.json", "--no-pack", "--no-place", "--no-tmdriv", "--router", "router2",
        *_RESULTS)
    between.unlink()


def progress(status):
    """What nextpnr is at, from a line of its log, to ``status(what)``."""
    def line(text):
        for pattern, what in ((r"Info: Packing (.*)", "packing {}"),
                              (r"Info:\s+at iteration #(\d+), type ALL", "placing, round {}"),
                              (r"Info:\s+at iteration #(\d+): temp", "refining the placement, round {}"),
                              (r"Info:\s+(\d+) \|", "routing, {} wires"), (r"Info: Routing\.\.", "routing"),
                              (r"Info:\s+iter=\d+ wires=\d+ overused=(\d+)", "routing, {} wires used twice")):
            if found := re.match(pattern, text):
                status(what.format(*found.groups()))
                return
    return line
