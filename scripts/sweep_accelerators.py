# SPDX-License-Identifier: Apache-2.0
"""Accelerators over their cost: the network rate of an all-reduce over the links of the ACE paper with 128 GB/s of
memory, relative to an endpoint that takes no time, and an estimate of their transistors.

    scripts/sweep_accelerators.py                        # reads and writes have 128 GB/s each
    scripts/sweep_accelerators.py --memory-pool shared   # together
    scripts/sweep_accelerators.py --every                # also those that another one beats in cost and rate

The estimate is that of fpga/estimate_ace.py from docs/area_ace.json. Prints a table in Markdown.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fpga.estimate_ace import estimate  # noqa: E402
from hw.ace.config import AceConfig  # noqa: E402
from hw.ace.words import Collective  # noqa: E402
from sim.system.configuration import MachineConfig  # noqa: E402
from sim.system.endpoint_kinds import ENDPOINTS, kind_of, rules_of  # noqa: E402
from sim.system.machine import Machine  # noqa: E402
from sim.system.memory import POOLS  # noqa: E402
from sim.validation.offload import MEMORY, NPU  # noqa: E402

SHAPES = ((4, 4, 2), (4, 4, 4), (4, 8, 4))
"""On 4x2x2 links carry more than 128 GB/s of memory can supply."""

SIZE = 32 << 20
WITHIN = 0.95

def candidates() -> Iterator[AceConfig]:
    """All that differ in what the sweep varies."""
    for width, pipes, fsms, chunk, packet in product((512, 1024), (1, 2, 4), (16, 32), (32 << 10, 64 << 10),
                                                     (256, 512)):
        for slots in (fsms, 2 * fsms):
            yield AceConfig(data_width=width, lanes=width // 32, pipes=pipes, fsms=fsms, slots=slots,
                            chunk_bytes=chunk, packet_bytes=packet, link_beats=256, replay_beats=256)


def seconds(config: MachineConfig) -> float:
    """Time of an all-reduce alone."""
    machine = Machine(config)
    machine.issue(Collective.ALL_REDUCE, SIZE)
    machine.run()
    return machine.now


@cache
def ideal(shape: tuple[int, ...]) -> float:
    """:func:`seconds` of the ideal endpoint, with packets of 256 bytes."""
    return seconds(MachineConfig(shape=shape, endpoint=ENDPOINTS["ideal"], npu=NPU))


def rate(accelerator: AceConfig, shape: tuple[int, ...], pool: str) -> float:
    """Network rate over that of the ideal endpoint."""
    kind = kind_of(accelerator, "candidate", MEMORY)
    return ideal(shape) / seconds(MachineConfig(shape=shape, endpoint=kind, npu=NPU, memory_pool=pool,
                                                **rules_of(accelerator)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--memory-pool", choices=POOLS, default="separate")
    parser.add_argument("--every", action="store_true", help="all, not only those that no other one beats")
    args = parser.parse_args()
    figures = json.loads((ROOT / "docs" / "area_ace.json").read_text(encoding="utf-8"))
    rows = sorted(((estimate(one, figures).all / 1e6, one) for one in candidates()), key=lambda row: row[0])
    print("| transistors, millions | data width, bits | pipes | FSMs | slots | chunk, KiB | packet, bytes | "
          f"{' | '.join('x'.join(map(str, shape)) for shape in SHAPES)} | |\n{'|---' * (8 + len(SHAPES))}|")
    best = 0.0
    for cost, one in rows:
        rates: list[float] = []
        for shape in reversed(SHAPES):
            rates.insert(0, rate(one, shape, args.memory_pool))
            if min(rates) <= best and not args.every:
                break
        if len(rates) < len(SHAPES):
            continue
        best = max(best, min(rates))
        print(f"| {cost:.0f} | {one.data_width} | {one.pipes} | {one.fsms} | {one.slots} | {one.chunk_bytes >> 10} | "
              f"{one.packet_bytes} | {' | '.join(f'{share:.3f}' for share in rates)} | "
              f"{'within 5 %' if min(rates) >= WITHIN else ''} |", flush=True)


if __name__ == "__main__":
    main()
