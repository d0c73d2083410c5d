# SPDX-License-Identifier: Apache-2.0
"""``python -m hw.axi_verilog``: the rules as one Verilog module, to instantiate or bind beside a port."""

import argparse
import sys
from pathlib import Path
from signal import SIG_DFL, SIGPIPE, signal

from hw.axi import AxiChecker, AxiLiteChecker, AxiLiteSignature, AxiSignature
from hw.emit import verilog

__all__ = ["main"]

_MODES = {"assert": "assert", "assume": "assume", "none": None}


def main(arguments: list[str]) -> int:
    """Write the Verilog; returns the exit status.

    Parameters
    ----------
    arguments : list of str
    """
    parser = argparse.ArgumentParser(
        prog="python -m hw.axi_verilog", description="Write the rules of AXI4 or AXI4-Lite as a Verilog module.")
    parser.add_argument("protocol", choices=("axi4", "axi4-lite"))
    parser.add_argument("--addr-width", type=int, default=32, metavar="N", help="12 to 64; 1 to 64 for AXI4-Lite")
    parser.add_argument("--data-width", type=int, default=32, metavar="N", help="8 to 1024; 32 or 64 for AXI4-Lite")
    parser.add_argument("--id-width", type=int, default=None, metavar="N", help="1 to 14, only AXI4 (default: 4)")
    parser.add_argument("--max-outstanding", type=int, default=4, metavar="N",
                        help="bursts in each direction that the tables hold; small for proofs (default: 4)")
    parser.add_argument("--all-bursts", action="store_true", help="FIXED and WRAP are legal, too; only AXI4")
    parser.add_argument("--exclusive", action="store_true", help="with AWLOCK and ARLOCK; only AXI4")
    for side in ("manager", "subordinate"):
        parser.add_argument(f"--{side}", choices=tuple(_MODES), default="assert",
                            help=f"what is done with the rules of the {side} (default: assert)")
    parser.add_argument("--name", default=None, metavar="NAME", help="of the module (default: axi4_properties)")
    parser.add_argument("-o", "--output", type=Path, default=None, metavar="FILE", help="default: standard output")
    args = parser.parse_args(arguments)
    if args.protocol == "axi4-lite":
        for option, given in (("--id-width", args.id_width is not None), ("--all-bursts", args.all_bursts),
                              ("--exclusive", args.exclusive)):
            if given:
                print(f"{option} is an option of axi4, not of axi4-lite.", file=sys.stderr)
                return 2
    if args.id_width == 0:
        print("--id-width must be from 1 to 14, not 0; connect a constant to the IDs of a port without IDs.",
              file=sys.stderr)
        return 2
    manager, subordinate = _MODES[args.manager], _MODES[args.subordinate]
    try:
        if args.protocol == "axi4":
            checker: AxiChecker | AxiLiteChecker = AxiChecker(
                AxiSignature(addr_width=args.addr_width, data_width=args.data_width,
                             id_width=4 if args.id_width is None else args.id_width),
                max_outstanding=args.max_outstanding, bursts="all" if args.all_bursts else "incr",
                exclusive=args.exclusive, manager=manager, subordinate=subordinate)
        else:
            checker = AxiLiteChecker(AxiLiteSignature(addr_width=args.addr_width, data_width=args.data_width),
                                     max_outstanding=args.max_outstanding, manager=manager, subordinate=subordinate)
        text = verilog(checker, name=args.name or f"{args.protocol.replace('-', '_')}_properties")
    except ValueError as error:
        print(f"{error}.", file=sys.stderr)
        return 2
    if args.output is None:
        print(text)
        return 0
    try:
        args.output.write_text(text, encoding="utf-8")
    except OSError as error:
        print(f"Cannot write to {args.output}: {error.strerror}.", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    signal(SIGPIPE, SIG_DFL)        # as other commands, if a reader of the output ends before
    sys.exit(main(sys.argv[1:]))
