"""``dmace validate``: the system simulator beside closed forms, other simulators and the RTL."""

from rich.console import Console

from hw.errors import UserError
from sim.terminal import add_json, check_file, write_json

from .validation import CHECKS, show, worst

__all__ = ["configure", "run"]


def configure(parser):
    parser.description = ("Compare the system simulator with closed forms, with results of ASTRA-sim 1.0 and SimGrid "
                          "3.32 that come with it, and with the RTL. Ends with status 1 if a difference is larger than "
                          "allowed.")
    parser.add_argument("--only", metavar="CHECK,...", help=f"of {', '.join(CHECKS)} (default: all)")
    parser.add_argument("--every", action="store_true", help="show every case, not the three worst of each check")
    add_json(parser)


def run(args):
    names = list(CHECKS) if args.only is None else args.only.split(",")
    for name in names:
        if name not in CHECKS:
            raise UserError(f"--only must name some of {', '.join(CHECKS)}, not {name!r}.")
    check_file("--json", args.json)
    found = {name: list(CHECKS[name]()) for name in names}
    write_json(args.json, found)
    if args.json != "-":
        console = Console()
        for name, rows in found.items():
            show(name, rows, console, every=args.every)
    return int(any(abs(row["difference"]) > row["allowed"] for row in map(worst, found.values())))
