# SPDX-License-Identifier: Apache-2.0
"""``dmace board``: the host of a board that ``dmace fpga load`` has loaded."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from hw.errors import UserError
from sim.terminal import add_json, add_seed, check_range, integer, write_json

from . import jobs
from .core import BoardConfig
from .host import Board
from .serial_port import SerialPort

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", required=True, metavar="DEVICE", help="serial port of the board, like /dev/ttyUSB0")
    parser.add_argument("--baud", type=integer, default=BoardConfig().baud, help="default: %(default)s")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    selftest = actions.add_parser("selftest", help="test the whole board, and check every byte")
    selftest.add_argument("--copies", type=integer, default=64, metavar="N", help="default: 64")
    add_seed(selftest)
    copy = actions.add_parser("copy", help="copy a file within the board's memory by the DMA engine, piece by piece, "
                              "and compare")
    copy.add_argument("--input", required=True, metavar="FILE", help="file to copy")
    copy.add_argument("--output", metavar="FILE", help="file for the copied data")
    bench = actions.add_parser("bench", help="measure copies on the board, in its own clock cycles")
    add_json(bench)
    peek = actions.add_parser("peek", help="read words")
    peek.add_argument("address", type=integer, help="byte address, a multiple of 4")
    peek.add_argument("count", type=integer, nargs="?", default=1, help="words (default: 1)")
    poke = actions.add_parser("poke", help="write words")
    poke.add_argument("address", type=integer, help="byte address, a multiple of 4")
    poke.add_argument("words", type=integer, nargs="+")
    actions.add_parser("info", help="print the board's design and memory")


def run(args: argparse.Namespace) -> int:
    check_range("--baud", args.baud, 300, 12_000_000)
    if args.action in ("peek", "poke"):
        if args.address % 4 or not 0 <= args.address < 1 << 32:
            raise UserError(f"address must be a multiple of 4 below 2^32, not {args.address:#x}.")
        for word in getattr(args, "words", ()):
            check_range("words", word, 0, (1 << 32) - 1)
        check_range("count", getattr(args, "count", 1), 1, 1 << 20)
    data = _input(args.input) if args.action == "copy" else b""
    try:
        opened = SerialPort(args.port, args.baud)
    except UserError as error:
        raise UserError(f"--port: {error}") from None
    with opened as port:
        return _ACTIONS[args.action](Board(port).open(), args, data)


def _input(name: str) -> bytes:
    try:
        data = Path(name).read_bytes()
    except OSError as error:
        raise UserError(f"--input: {name} cannot be read: {error.strerror}.") from None
    if not data:
        raise UserError(f"--input: {name} is empty.")
    return data


def _selftest(board: Board, args: argparse.Namespace, _: bytes) -> int:
    check_range("--copies", args.copies, 1, 100_000)
    wrong = jobs.selftest(board, seed=args.seed, copies=args.copies, report=print)
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    print("FAILED" if wrong else "The self-test has passed.")
    return 1 if wrong else 0


def _copy(board: Board, args: argparse.Namespace, data: bytes) -> int:
    engine, came = jobs.Engine(board), b""
    half = (engine.words // 2) & ~4095
    for first in range(0, len(data), half):
        piece = data[first:first + half]
        board.write_memory(0, 0, piece)
        board.write_memory(0, half, bytes(len(piece)))
        status = engine.copy(0, half, len(piece))
        if status:
            raise UserError(f"The copy of bytes {first:,} to {first + len(piece):,} ended with {status.name}.")
        came += board.read_memory(0, half, len(piece))
    if args.output is not None:
        Path(args.output).write_bytes(came)
    print(f"{len(data):,} bytes copied: " + ("every byte arrived." if came == data else "they differ."))
    return 0 if came == data else 1


def _bench(board: Board, args: argparse.Namespace, _: bytes) -> int:
    rows = jobs.bench(board)
    write_json(args.json, {"clock_hz": board.config.clock_hz, "rows": rows})
    if args.json != "-":
        table = Table(title=f"Copies by a descriptor ring, {board.config.clock_hz / 1e6:g} MHz", title_justify="left")
        for name in ("bytes", "requests", "cycles", "bytes/cycle", "MB/s"):
            table.add_column(name, justify="right")
        for row in rows:
            table.add_row(*(f"{value:,}" for value in row.values()))
        Console().print(table)
    return 0


def _peek(board: Board, args: argparse.Namespace, _: bytes) -> int:
    for number, word in enumerate(board.read_words(args.address, args.count)):
        print(f"{args.address + 4 * number:#010x}  {word:#010x}")
    return 0


def _poke(board: Board, args: argparse.Namespace, _: bytes) -> int:
    board.write_words(args.address, args.words)
    return 0


def _info(board: Board, args: argparse.Namespace, _: bytes) -> int:
    config = board.config
    print(json.dumps({"design": config.design, "preset": config.preset, "endpoints": config.endpoints,
                      "memory": config.memory, "clock_hz": config.clock_hz}))
    return 0


_ACTIONS: dict[str, Callable[[Board, argparse.Namespace, bytes], int]] = {
    "selftest": _selftest, "copy": _copy, "bench": _bench, "peek": _peek, "poke": _poke, "info": _info}
