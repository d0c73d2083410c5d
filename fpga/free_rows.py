"""Rows of an ECP5 that are kept free of logic, so that the wires between the others find their way.

nextpnr fills a tile before it takes the next one: of a design that takes half of the part, nearly half of the tiles
would have all eight LUTs in use, and the router would spend most of its time on nets that push each other aside. So
each fourth row is taken by LUTs without pins, which may not be moved. Of smaller designs the timing-driven placer
makes one dense heap as well, whose last hundreds of nets do not come to an end; the smallest are routed without.
"""

from collections import Counter

__all__ = ["FREE", "luts", "places", "reserve"]

FREE = "$free"
"""Begins the names of cells that only keep a place free."""

_EVERY = 4

_ROWS = [row for row in range(2, 94) if row % 12 != 10]
"""Of an 85F's tiles with LUTs; in the rows between them are block RAM and multipliers."""

_COLUMNS = range(2, 125)

_ALL = 8 * len(_ROWS) * len(_COLUMNS)

_LUTS = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6}
"""That a cell takes; a LUT-RAM has four, and its writer takes the place of two."""


def places():
    """LUTs that are kept free on an 85F, by nextpnr's names."""
    return [f"X{column}/Y{row}/SLICE{part}.K{lut}"
            for row in _ROWS[::_EVERY] for column in _COLUMNS for part in "ABCD" for lut in "01"]


def luts(cells):
    """How many of the part's LUTs the cells of a netlist take."""
    kinds = Counter(cell["type"] for cell in cells.values())
    return sum(kinds[kind] * count for kind, count in _LUTS.items())


def reserve(netlist, device):
    """Keep rows free where a design takes from a sixth to two thirds of an 85F; returns the number of LUTs.

    Parameters
    ----------
    netlist : dict
        Yosys's JSON of a module ``board``; a LUT without pins is put on each of :func:`places`.
    device : str
        Such as ``LFE5U-85F``.
    """
    cells = netlist["modules"]["board"]["cells"]
    if not device.endswith("-85F") or not _ALL / 6 < luts(cells) < 2 * _ALL / 3:
        return 0
    found = places()
    for number, place in enumerate(found):
        cells[f"{FREE}{number}"] = {"type": "LUT4", "parameters": {"INIT": "0" * 16}, "attributes": {"BEL": place},
                                    "port_directions": {}, "connections": {}}
    return len(found)
