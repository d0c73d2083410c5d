# SPDX-License-Identifier: Apache-2.0
"""Check whether two Verilog files describe the same circuit, whatever its modules and signals are called.

    python scripts/compare_netlists.py before.v after.v

Yosys flattens both; then every cell is labelled by its type, its parameters, its initial value and the labels of its
drivers, in rounds until the labels distinguish no more cells (colour refinement, Weisfeiler and Leman 1968). The
circuits count as equal when every label occurs equally often and every output port has the same label. This verifies
a change that only renames, regroups or rewires through other modules, in seconds and for every input.

Exit status: 0 equal, 1 different (with the cells that first differ), 2 wrong usage.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ROUNDS = 200
SHOWN = 12
_RUN = ("import sys; from pyosys import libyosys as y; design = y.Design(); "
        "[y.run_pass(line.strip(), design) for line in sys.argv[1].split(';')]")


class Netlist:
    """The flat cells of one design, as arrays that :meth:`refine` works on.

    ``labels`` has one 64-bit label per cell, behind them one per bit of an input port, per memory and per constant.
    """

    def __init__(self, path: Path) -> None:
        design = _flatten(path)
        (_, top), = design["modules"].items()
        cells = sorted((name, cell) for name, cell in top["cells"].items() if cell["type"] != "$scopeinfo")
        self.names = [name for name, _ in cells]
        self.types = [cell["type"] for _, cell in cells]
        source: dict[int | str, tuple[int, int]] = {}
        labels: list[int] = []
        initial: dict[int | str, str] = {}
        for net in top["netnames"].values():
            if (value := net["attributes"].get("init")) is not None:
                initial |= {bit: state for bit, state in zip(net["bits"], reversed(value), strict=False)
                            if state in "01"}
        for index, (_, cell) in enumerate(cells):
            outputs = [(port, bits) for port, bits in sorted(cell["connections"].items())
                       if cell["port_directions"][port] == "output"]
            state = []
            for port, bits in outputs:
                state.append([initial.get(bit) for bit in bits])
                for position, bit in enumerate(bits):
                    source[bit] = (index, _hash(port, position))
            parameters = {name: value for name, value in cell["parameters"].items()
                          if name not in ("MEMID", "FORMAT", "PRIORITY")}
            labels.append(_hash(cell["type"], sorted(parameters.items()), state))
        self.outputs = []
        for name, port in sorted(top["ports"].items()):
            for position, bit in enumerate(port["bits"]):
                if port["direction"] == "input":
                    source[bit] = (len(labels), 0)
                    labels.append(_hash("input", name, position))
                else:
                    self.outputs.append((name, position, bit))
        memories = {}
        for name, memory in sorted(top.get("memories", {}).items()):
            memories[name] = len(labels)
            labels.append(_hash("memory", memory["width"], memory["size"], memory["start_offset"]))
        constants = {}
        for value in "01xz":
            constants[value] = len(labels)
            labels.append(_hash("constant", value))
        undriven = len(labels)
        labels.append(_hash("undriven"))

        drivers, salts, owners = [], [], []
        for index, (_, cell) in enumerate(cells):
            for port, bits in sorted(cell["connections"].items()):
                if cell["port_directions"][port] != "output":
                    for position, bit in enumerate(bits):
                        driver, salt = self._driver(bit, source, constants, undriven)
                        drivers.append(driver)
                        salts.append(salt ^ _hash(port, position, "in"))
                        owners.append(index)
            if (memory := cell["parameters"].get("MEMID")) is not None:
                # Reads follow from the memory, and the memory from its writes and contents, in any order.
                memory, reads = memories[memory.removeprefix("\\")], cell["type"].startswith("$memrd")
                drivers.append(memory if reads else index)
                salts.append(_hash("memory"))
                owners.append(index if reads else memory)
        self.cells = len(cells)
        self._base = np.array(labels, dtype=np.uint64)
        self.labels = self._base.copy()
        self._drivers, self._owners = np.array(drivers, dtype=np.int64), np.array(owners, dtype=np.int64)
        self._salts = np.array(salts, dtype=np.uint64)
        self._out = [(name, position, *self._driver(bit, source, constants, undriven))
                     for name, position, bit in self.outputs]

    @staticmethod
    def _driver(bit: int | str, source: Mapping[int | str, tuple[int, int]], constants: Mapping[str, int],
                undriven: int) -> tuple[int, int]:
        return (constants[bit], 0) if isinstance(bit, str) else source.get(bit, (undriven, 0))

    def refine(self) -> int:
        """One round: each cell's label takes in those of its drivers. Returns the number of different labels."""
        mixed = _mix(self.labels[self._drivers] ^ self._salts)
        sums = np.zeros(len(self.labels), dtype=np.uint64)
        np.add.at(sums, self._owners, mixed)
        driven = np.zeros(len(self.labels), dtype=bool)
        driven[self._owners] = True
        self.labels = np.where(driven, _mix(self._base ^ _mix(sums)), self._base)
        return len(np.unique(self.labels[:self.cells]))

    def counts(self) -> Counter[int]:
        return Counter(self.labels[:self.cells].tolist())

    def ports(self) -> dict[tuple[str, int], int]:
        """Label of each bit of an output port."""
        return {(name, position): int(self.labels[driver]) ^ salt for name, position, driver, salt in self._out}


def compare(before: Netlist, after: Netlist) -> Iterator[str]:
    """Sentences that say how two netlists differ; none if they are the same circuit."""
    if before.cells != after.cells:
        types = Counter(before.types), Counter(after.types)
        yield f"{before.cells:,} cells became {after.cells:,}."
        for kind in sorted({*types[0], *types[1]}):
            if types[0][kind] != types[1][kind]:
                yield f"  {kind}: {types[0][kind]} became {types[1][kind]}."
    seen = (0, 0)
    for number in range(ROUNDS):
        one, other = before.counts(), after.counts()
        if one != other:
            yield f"After {number} rounds these cells have no counterpart:"
            for title, netlist, surplus in (("before", before, one - other), ("after", after, other - one)):
                found = [name for name, label in zip(netlist.names, netlist.labels.tolist(), strict=False)
                         if label in surplus]
                yield f"  {title} ({sum(surplus.values())}): {', '.join(found[:SHOWN])}"
            return
        now = before.refine(), after.refine()
        if now == seen:
            break
        seen = now
    ports = before.ports(), after.ports()
    for bit in sorted({*ports[0], *ports[1]}):
        if ports[0].get(bit) != ports[1].get(bit):
            yield f"Output {bit[0]}[{bit[1]}] has another driver."


def _flatten(path: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "flat.json"
        script = (f"read_verilog -sv {path}; hierarchy -auto-top; proc; flatten; opt_clean; write_json {made}")
        run = subprocess.run([sys.executable, "-c", _RUN, script], capture_output=True, text=True, check=False)
        if run.returncode:
            raise SystemExit(f"Yosys refused {path}: {(run.stderr or run.stdout)[-2000:]}")
        design: dict[str, Any] = json.loads(made.read_text())
        return design


def _hash(*parts: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A bijection of 64-bit words that spreads every bit (the finaliser of MurmurHash3)."""
    values = values ^ (values >> np.uint64(33))
    values = values * np.uint64(0xFF51AFD7ED558CCD)
    values = values ^ (values >> np.uint64(33))
    values = values * np.uint64(0xC4CEB9FE1A85EC53)
    return values ^ (values >> np.uint64(33))


def main() -> int:
    parser = argparse.ArgumentParser(description="Check whether two Verilog files describe the same circuit.")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    args = parser.parse_args()
    for path in (args.before, args.after):
        if not path.is_file():
            parser.error(f"There is no file {path}.")
    netlists = Netlist(args.before), Netlist(args.after)
    found = list(compare(*netlists))
    print("\n".join(found) or f"The same circuit: {netlists[0].cells:,} cells, "
          f"{len(np.unique(netlists[0].labels[:netlists[0].cells])):,} of them distinguished.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
