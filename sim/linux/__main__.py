# SPDX-License-Identifier: Apache-2.0
"""``python -m sim.linux``: run the simulated card in a virtual machine, and report what passed."""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from hw.card import PRESET_NAMES
from hw.errors import UserError
from sim.linux.guest import PARTS
from sim.linux.run import DEFAULT_PARTS, Options, run
from sim.vfio.harness import LEVELS

__all__ = ["main", "parse"]

_SOAK_LIMIT = 4 * 3600


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One sentence, and status 2."""
        sentence = message[0].upper() + message[1:].rstrip(".")
        raise UserError(f"{sentence}.")


def _parts(text: str) -> tuple[str, ...]:
    parts = tuple(part for part in text.split(",") if part)
    unknown = [part for part in parts if part not in PARTS]
    if unknown or not parts:
        raise UserError(f"There is no part {unknown[0] if unknown else text!r}; the parts are {', '.join(PARTS)}.")
    return tuple(dict.fromkeys(parts))


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise UserError(f"A number of requests or seconds must be at least 1, not {text!r}.")
    return int(text)


def parse(words: Sequence[str]) -> Options:
    """Options of a command line. Raises :class:`UserError` for wrong ones."""
    shown = "; ".join(f"{part}: {what}" for part, what in PARTS.items())
    parser = _Parser(prog="python -m sim.linux", description=__doc__, allow_abbrev=False)
    parser.add_argument("--parts", type=_parts, metavar="A,B",
                        help=f"what to run (default: {','.join(DEFAULT_PARTS)}). {shown}")
    parser.add_argument("--soak", action="store_true", help="the part soak after the others")
    parser.add_argument("--requests", type=_positive, default=1_000_000, metavar="N",
                        help="requests of the part soak (default: 1,000,000), with a kill or reset for each 5,000")
    parser.add_argument("--preset", choices=PRESET_NAMES, default="tiny", help="of the card (default: tiny)")
    parser.add_argument("--level", choices=LEVELS, default="card",
                        help="the whole card (default), its endpoint without PCIe, or its DMA engine with PCIe")
    parser.add_argument("--iommu", choices=("on", "off"), default="on",
                        help="off: show that the card is refused without one")
    parser.add_argument("--accelerator", choices=("tcg", "kvm"), default="tcg",
                        help="of QEMU (default: tcg); kvm needs /dev/kvm")
    parser.add_argument("--vfio", choices=("container", "iommufd"),
                        help="interface of the kernel that libdmace uses (default: its choice)")
    parser.add_argument("--limit", type=_positive, metavar="SECONDS",
                        help=f"of the virtual machine (default: 360, and {_SOAK_LIMIT:,} with soak)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="folder for logs (default: build/linux/logs)")
    given = parser.parse_args(words)
    parts = given.parts or (DEFAULT_PARTS if given.iommu == "on" else ("refused",))
    if given.soak and "soak" not in parts:
        parts = (*parts, "soak")
    if given.iommu == "off" and parts != ("refused",):
        raise UserError("--iommu off runs the part refused alone: without an IOMMU no other part can open the card.")
    limit = given.limit or (_SOAK_LIMIT if "soak" in parts else 360)
    return Options(parts=parts, level=given.level, preset=given.preset, iommu=given.iommu == "on", limit=limit,
                   accelerator=given.accelerator, vfio=given.vfio, requests=given.requests, keep=given.keep)


def main(words: Sequence[str] | None = None) -> int:
    """Exit status: 0 if all parts passed, 1 if not or something could not be built, 2 for wrong arguments."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        options = parse(sys.argv[1:] if words is None else words)
        faults = run(options, say=lambda line: print(line, flush=True))
    except UserError as error:
        print(f"linux: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        print("linux: interrupted", file=sys.stderr)
        return 130
    for fault in faults:
        print(f"linux: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
