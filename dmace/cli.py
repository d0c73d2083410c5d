# SPDX-License-Identifier: Apache-2.0
"""``dmace VERB ...``: find the verb, pass it the arguments, and report every error in one sentence.

A verb is a module with ``configure(parser)`` and ``run(args) -> int``. It is imported when it is used, so
that ``dmace --help`` starts quickly and a missing package breaks only the verb that needs it.
"""

import argparse
import difflib
import os
import re
import sys
import traceback
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, NoReturn, Protocol, cast

from hw.errors import UserError

__all__ = ["VERBS", "main"]

#: Verb -> module, and its summary.
VERBS = {
    "verilog": ("hw.verilog_cli", "write the Verilog of a design, its pins and its registers"),
    "sim": ("sim.cli.simulate", "simulate a design under Verilator and check the result"),
    "compare": ("sim.cli.compare", "compare the hardware with the golden model"),
    "bench": ("sim.cli.bench", "measure throughput, latency and fairness of a design"),
    "cluster": ("sim.cli.cluster", "simulate a cluster of accelerators for ranks in other processes (dmace.torch)"),
    "train": ("sim.cli.train", "predict the time of a training step on a cluster, and its exposed communication"),
    "validate": ("sim.cli.validate", "compare the system simulator with other models and the RTL"),
    "sweep": ("sim.cli.sweep", "predict training over every combination of values, on many cores or machines"),
    "fused": ("sim.cli.fused", "predict the time saved by fusing computation with its communication"),
    "caches": ("sim.cli.caches", "compare cache policies for kernels of machine intelligence, beside a DMA engine"),
    "soak": ("sim.cli.soak", "run long random tests in C++ harnesses: copies, reassigned memory, the card behind PCIe"),
    "device": ("dmace.device_cli", "list, test and measure cards, behind VFIO or simulated in this process"),
    "fpga": ("fpga.cli", "build a bitstream with open tools, and load it into a board"),
    "board": ("fpga.board.cli", "talk to a loaded board over its serial port: self-test, copies, benchmark"),
    "doctor": ("sim.cli.doctor", "list the missing tools of this machine, and how to install them"),
}


class _Verb(Protocol):
    """Module of a verb."""

    def configure(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


class _Parser(argparse.ArgumentParser):
    """Report a wrong option in one sentence, with the choices and the nearest of them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    @property
    def _verb(self) -> str:
        return self.prog.removeprefix("dmace ")

    def error(self, message: str) -> NoReturn:
        wrong_choice = r"argument (\S+): invalid choice: (.*?) \(choose from (.*)\)$"
        if found := re.match(wrong_choice, message, re.DOTALL):
            name, value, listed = found.groups()
            choices = [choice.strip("' ") for choice in listed.split(",")]
            raise UserError(f"{name} must be one of {', '.join(choices)}, not {value}"
                            f"{_did_you_mean(value.strip(chr(39)), choices)}.")
        if found := re.match(r"unrecognized arguments: (.*)$", message, re.DOTALL):
            first = found[1].split()[0]
            hint = _did_you_mean(first.partition("=")[0], self._option_string_actions)
            raise UserError(f"{self._verb} does not know {found[1]!r}{hint}; see `{self.prog} --help`.")
        if found := re.match(r"the following arguments are required: (.*)$", message):
            raise UserError(f"{self._verb} needs {found[1]}; see `{self.prog} --help`.")
        message = re.sub(r"^argument (\S+): ", r"\1 ", message)
        raise UserError(f"{self._verb}: {message}; see `{self.prog} --help`.")


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``dmace`` with these arguments and return its exit status."""
    argv = sys.argv[1:] if argv is None else list(argv)
    try:
        status = _dispatch(argv)
        sys.stdout.flush()
        return status or 0
    except UserError as error:
        return _fail(str(error), error.status)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader has closed the pipe; the interpreter's flush at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if os.environ.get("DMACE_DEBUG") == "1":
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split())
        where = f"{os.path.basename(place.filename)}:{place.lineno}"
        return _fail(f"unexpected {type(error).__name__}: {text} ({where}); this is a bug in dmace, "
                     "please report it with the traceback that DMACE_DEBUG=1 prints.", 70)


def _dispatch(argv: Sequence[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if argv[0] in ("-V", "--version"):
        print(f"dmace {_version()}")
        return 0
    verb, *rest = argv
    verbs = _available()
    if verb not in verbs:
        what = "option" if verb.startswith("-") else "verb"
        raise UserError(f"there is no {what} {verb!r}{_did_you_mean(verb, [*verbs, '--help', '--version'])}; "
                        f"the verbs are {', '.join(verbs)}.")
    name, summary = verbs[verb]
    try:
        module = cast(_Verb, import_module(name))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("dmace", "hw", "sim", "fpga"):
            raise
        raise UserError(f"{verb} needs the Python package {error.name}, which is not installed; "
                        "run `pip install -e .` in the checkout, or `dmace doctor`.") from error
    parser = _Parser(prog=f"dmace {verb}", description=f"{summary[0].upper()}{summary[1:]}.")
    module.configure(parser)
    return module.run(parser.parse_args(rest))


def _available() -> dict[str, tuple[str, str]]:
    """The verbs whose module exists."""
    return {verb: entry for verb, entry in VERBS.items() if find_spec(entry[0]) is not None}


def _help() -> str:
    rows = [f"  {verb:<10} {summary}" for verb, (_, summary) in _available().items()]
    return "\n".join([
        "usage: dmace VERB ...",
        "",
        "Open hardware for GPU-driven communication: build it, simulate it, check it.",
        "",
        "verbs:",
        *rows,
        "",
        "  dmace VERB --help   options of a verb",
        "  dmace --version     version of dmace",
    ])


def _version() -> str:
    try:
        return version("dmace")
    except PackageNotFoundError:
        return "(not installed)"


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _fail(sentence: str, status: int) -> int:
    try:
        print(f"dmace: {sentence}", file=sys.stderr, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    return status
