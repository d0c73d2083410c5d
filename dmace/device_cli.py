# SPDX-License-Identifier: Apache-2.0
"""``dmace device``: list, inspect, test and measure devices, through the runtime."""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from dmace.runtime.device import Device, open_device
from dmace.runtime.errors import DmaceError
from dmace.runtime.names import find, resolve
from dmace.runtime.trace import Trace
from hw.errors import UserError

__all__ = ["configure", "run"]

_MAX_BYTES = 1 << 30


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="the cards of this machine, and the simulators")
    listing.set_defaults(call=_list)
    export = actions.add_parser("library", help="write libdmace for C: headers, libraries, dmace-perf")
    export.add_argument("-o", "--output", required=True, metavar="DIR", type=Path)
    export.set_defaults(call=_library)
    for name, call, summary in (
            ("info", _info, "sizes of a device"), ("selftest", _selftest, "test a device; every byte is compared"),
            ("copy", _copy, "move a file through a device, to another file"),
            ("bench", _bench, "measure bandwidth and latency, by dmace-perf"),
            ("stats", _stats, "run copies, and print the device's counters"),
            ("trace", _trace, "run copies, and write their times for chrome://tracing and Perfetto")):
        action = actions.add_parser(name, help=summary)
        action.set_defaults(call=call)
        action.add_argument("name", metavar="NAME",
                            help="vfio:DDDD:BB:DD.F, sim:PRESET or uart:PORT; see `dmace device list`")
        if name == "copy":
            action.add_argument("source", metavar="FROM", type=Path)
            action.add_argument("target", metavar="TO", type=Path)
        if name == "bench":
            action.add_argument("--sizes", default="64,1024,4096", metavar="N,N",
                                help="bytes of a request (%(default)s)")
            action.add_argument("--requests", default="200", metavar="N", help="of each size (%(default)s)")
            action.add_argument("--queues", default="1", metavar="N", help="for bandwidth (%(default)s)")
        if name == "trace":
            action.add_argument("-o", "--output", default="trace.json", metavar="FILE", type=Path)
        if name in ("stats", "trace"):
            action.add_argument("--requests", type=int, default=64, metavar="N", help="default: %(default)s")
        if name == "selftest":
            action.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31), metavar="N")
        if name in ("info", "stats", "selftest"):
            action.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    result: int = args.call(args)
    return result


@contextmanager
def _building() -> Iterator[Callable[[str, int, int], None]]:
    """Shows the build of a simulator, which takes a minute the first time."""
    console = Console(stderr=True)
    with console.status("Opening the device.") as line:
        def show(what: str, done: int, total: int) -> None:
            line.update(f"Building the simulator, the first time only: {what} {done} of {total}.")

        yield show


@contextmanager
def _opened(name: str) -> Iterator[Device]:
    with _building() as status:
        device = open_device(name, status=status)
    with device:
        yield device


def _list(args: argparse.Namespace) -> int:
    table = Table("name", "state", "remedy")
    for found in find():
        table.add_row(found.name, found.state, found.remedy)
    Console().print(table)
    return 0


def _library(args: argparse.Namespace) -> int:
    from dmace.libdmace.build import export

    try:
        export(args.output)
    except OSError as error:
        raise UserError(f"{args.output} cannot be written: {error.strerror}.") from None
    print(f"{args.output}: {', '.join(sorted(path.name for path in args.output.iterdir()))}")
    return 0


def _info(args: argparse.Namespace) -> int:
    with _opened(args.name) as device:
        rows = {"name": device.name, **device.info._asdict()}
    if args.json:
        print(json.dumps(rows, indent=1))
        return 0
    table = Table("size", "value")
    for name, value in rows.items():
        table.add_row(name.replace("_", " "), f"{value:,}" if isinstance(value, int) else value)
    Console().print(table)
    return 0


def _selftest(args: argparse.Namespace) -> int:
    from dmace.runtime import selftest

    outcomes = []
    with _opened(args.name) as device:
        for outcome in selftest.run(device, args.seed):
            outcomes.append(outcome)
            if not args.json:
                print(f"{'FAIL' if outcome.problem else 'pass'}  {outcome.name}"
                      + (f": {outcome.problem}" if outcome.problem else ""), flush=True)
    failed = sum(bool(outcome.problem) for outcome in outcomes)
    if args.json:
        checks = [outcome._asdict() for outcome in outcomes]
        print(json.dumps({"ok": not failed, "seed": args.seed, "checks": checks}, indent=1))
    else:
        print(f"{len(outcomes) - failed} of {len(outcomes)} checks passed, seed {args.seed}")
    return 1 if failed else 0


def _copy(args: argparse.Namespace) -> int:
    try:
        data = args.source.read_bytes()
    except OSError as error:
        raise UserError(f"{args.source} cannot be read: {error.strerror}.") from None
    if not 0 < len(data) <= _MAX_BYTES:
        raise UserError(f"A file of 1 to {_MAX_BYTES:,} bytes can be copied, not one of {len(data):,}.")
    with _opened(args.name) as device, device.queue() as queue:
        source, target = device.allocate(len(data)), device.allocate(len(data))
        source.write(data)
        began, before, step = time.monotonic(), device.cycles(), device.info.max_copy
        for at in range(0, len(data), step):
            queue.copy(target[at:], source[at:min(at + step, len(data))]).wait()
        seconds, after = time.monotonic() - began, device.cycles()
        found = target.read()
    if found != data:
        wrong = sum(a != b for a, b in zip(found, data, strict=True))
        raise DmaceError(f"The device has copied {wrong:,} wrong bytes.")
    try:
        args.target.write_bytes(found)
    except OSError as error:
        raise UserError(f"{args.target} cannot be written: {error.strerror}.") from None
    simulated = "" if before is None or after is None else f"; {after - before:,} simulated cycles"
    print(f"{len(data):,} bytes copied and compared in {seconds:.3f} s of this machine{simulated}")
    return 0


def _bench(args: argparse.Namespace) -> int:
    from dmace.libdmace.build import library

    with _building() as status:
        name = resolve(args.name, status)
        program = library().with_name("dmace-perf")
    sys.stdout.flush()
    return subprocess.run([program, name, "--sizes", args.sizes, "--requests", args.requests, "--queues", args.queues,
                           "--check"], check=False).returncode


def _work(device: Device, requests: int) -> None:
    """Copies of 1 KiB in two queues."""
    if not 1 <= requests <= 1_000_000:
        raise UserError(f"--requests must be from 1 to 1000000, not {requests}.")
    source, target = device.allocate(1 << 16), device.allocate(1 << 16)
    source.write(os.urandom(1 << 16))
    with device.queue() as first, device.queue() as second:
        posted = [(first, second)[number % 2].copy(target[at:], source[at:at + 1024])
                  for number in range(requests) for at in [number % 64 * 1024]]
        for request in posted:
            request.wait()


def _stats(args: argparse.Namespace) -> int:
    from hw.card.config import PRESETS
    from hw.endpoint.registers import whole_map
    from hw.pcie.registers import bar0_map

    config = PRESETS["wide"]
    registers = bar0_map(whole_map(config.endpoint), config.pcie).registers
    with _opened(args.name) as device:
        _work(device, args.requests)
        counts = {register.name: device.read_register(register.offset) for register in registers
                  if "COUNT_" in register.name and register.name.startswith(("DMA_", "ENDPOINT_", "PCIE_"))
                  and "ERROR_LOG" not in register.name and "QUEUE" not in register.name}
    if args.json:
        print(json.dumps(counts, indent=1))
        return 0
    table = Table("counter", "value")
    for name, value in counts.items():
        table.add_row(name, f"{value:,}")
    Console().print(table)
    return 0


def _trace(args: argparse.Namespace) -> int:
    trace: Trace
    with _opened(args.name) as device, device.tracing() as trace:
        _work(device, args.requests)
    try:
        trace.write(args.output)
    except OSError as error:
        raise UserError(f"{args.output} cannot be written: {error.strerror}.") from None
    print(f"{args.output}: {len(trace.requests())} requests; open it in chrome://tracing or Perfetto")
    return 0
