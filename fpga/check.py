# SPDX-License-Identifier: Apache-2.0
"""Build every board with a clock in ``budgets.toml``, and report those that miss it: ``python -m fpga.check``."""

import sys

from hw.errors import UserError

from .budgets import clock_budget
from .build import board_config, build
from .targets import TARGETS

__all__ = ["main"]


def main() -> int:
    """Exit status: 1 where a build failed or missed its clock."""
    wrong = 0
    for target, board in TARGETS.items():
        for design in board.designs:
            budget = clock_budget(target, design)
            if budget is None:
                continue
            stage = [""]

            def status(what: str, done: int, total: int, stage: list[str] = stage) -> None:
                if what.partition(",")[0] != stage[0]:
                    stage[0] = what.partition(",")[0]
                    print(f"  {done}/{total} {stage[0]}", flush=True)

            print(f"{target}, {design}", flush=True)
            try:
                report = build(target, board_config(target, design), status=status).report
            except UserError as error:
                print(f"  {error}")
                wrong += 1
                continue
            met = report["mhz"] >= budget
            wrong += not met
            print(f"  {report['mhz']:.1f} MHz, budget {budget}: {'met' if met else 'missed'}; "
                  + ", ".join(f"{count:,} {kind}" for kind, count in report["used"].items()))
            print("  critical path: " + " -> ".join(name for name, _ in report["critical"]))
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
