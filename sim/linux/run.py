# SPDX-License-Identifier: Apache-2.0
"""One run: build the server and the guest, start both, follow the console, and judge.

::

    run(Options(parts=("copies",)), say=print)
"""

import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sim.linux.console import Console
from sim.linux.fetch import fetch
from sim.linux.guest import build_initrd
from sim.linux.machine import PEER_BYTES, Machine
from sim.verilator.toolchain import build_root

__all__ = ["DEFAULT_PARTS", "Options", "Say", "run"]

DEFAULT_PARTS = ("copies", "tenants", "p2p", "kill", "reset")
_START_LIMIT, _END_LIMIT = 60.0, 60.0
_TAIL = 25

Say = Callable[[str], None]
"""Receives a line for the user."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of a run.

    Parameters
    ----------
    parts : sequence of str
        Parts of the guest, in this order.
    level, preset : str
        Of the simulated card, see :mod:`sim.vfio.harness`.
    iommu : bool
        With a virtual IOMMU.
    accelerator : str
        ``tcg`` or ``kvm``.
    vfio : str or None
        ``container`` or ``iommufd``; default: libdmace's choice.
    requests : int
        Of the part `soak`.
    limit : int
        Seconds for the virtual machine.
    keep : Path or None
        Folder for logs; default ``linux/logs`` in the build directory.
    server : Path or None
        A server of the card that is built already.
    """

    parts: Sequence[str] = DEFAULT_PARTS
    level: str = "card"
    preset: str = "tiny"
    iommu: bool = True
    accelerator: str = "tcg"
    vfio: str | None = None
    requests: int = 1_000_000
    limit: int = 360
    keep: Path | None = None
    server: Path | None = None


def run(options: Options, say: Say) -> list[str]:
    """Run it, and return sentences about what is wrong: none if all is right.

    Raises
    ------
    UserError
        If something that is needed is missing or cannot be built.
    """
    began = time.monotonic()

    def step(text: str) -> None:
        say(f"{time.monotonic() - began:6.1f} s  {text}")

    root = build_root() / "linux"
    packages = fetch(root, say=step)
    step(f"QEMU: {packages.version('qemu')}; kernel: {packages.version('kernel')}")
    server = options.server or _build_server(options, step)
    step("building the guest's programs")
    initrd = build_initrd(root, packages, options.parts)
    logs = options.keep or root / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dmace-") as folder:
        machine = Machine(packages=packages, initrd=initrd, socket=Path(folder) / "card", peer=Path(folder) / "peer",
                          parts=options.parts, limit=max(30, options.limit - 30), iommu=options.iommu,
                          accelerator=options.accelerator, vfio=options.vfio,
                          arguments={"soak": (str(options.requests), str(max(2, options.requests // 5000))),
                                     "perf": ("--requests", "50", "--check")})
        with machine.peer.open("wb") as file:
            file.truncate(PEER_BYTES)
        console = Console()
        faults = _drive(machine, server, logs, console, options, step)
        faults += console.faults(options.parts)
        if not faults:
            faults += console.peer_faults(machine.peer)
    if faults:
        for name in ("console", "server", "qemu"):
            lines = (logs / f"{name}.log").read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL:]
            say(f"\nEnd of {logs / name}.log:")
            for line in lines:
                say(f"    {line}")
    say("")
    for part in options.parts:
        passed, seconds = console.results.get(part, (False, float("nan")))
        say(f"{part:10} {'pass' if passed else 'fail'} {seconds:8.1f} s")
    say(f"{'total':10} {'fail' if faults else 'pass'} {time.monotonic() - began:8.1f} s")
    return faults


def _build_server(options: Options, step: Say) -> Path:
    from sim.vfio.harness import build_server

    shown: set[str] = set()

    def status(what: str, done: int, total: int) -> None:
        if what not in shown:
            shown.add(what)
            step(f"building the card's simulator: {what}")

    return build_server(options.preset, options.level, status).path


def _drive(machine: Machine, server: Path, logs: Path, console: Console, options: Options, step: Say) -> list[str]:
    """Run the virtual machine to its end; sentences about the processes."""
    command: list[str | Path] = [server, "--socket", machine.socket, "--once"]
    with (logs / "server.log").open("w") as server_log, (logs / "qemu.log").open("w") as qemu_log, \
            (logs / "console.log").open("w", buffering=1, encoding="utf-8") as console_log, \
            _child(command, stdout=server_log, stderr=subprocess.STDOUT) as card:
        _wait_for_socket(card, machine.socket)
        step(f"starting the virtual machine with {machine.accelerator}")
        with _child(machine.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=qemu_log,
                    env=machine.packages.qemu_env()) as qemu:
            late = threading.Event()

            def stop() -> None:
                late.set()
                qemu.kill()

            timer = threading.Timer(options.limit, stop)
            timer.daemon = True
            timer.start()
            try:
                assert qemu.stdout is not None
                shown = False  # Lines of the firmware are not.
                for raw in qemu.stdout:
                    line = raw.decode(errors="replace").strip("\r\n")
                    console_log.write(f"{line}\n")
                    console.add(line)
                    shown = shown or line.startswith("init: ")
                    if shown and line:
                        step(line)
                qemu.wait()
            finally:
                timer.cancel()
        if late.is_set():
            return [f"The virtual machine did not end within {options.limit} seconds."]
        faults = [] if qemu.returncode == 0 else [f"QEMU ended with status {qemu.returncode}."]
        try:
            card.wait(_END_LIMIT)
        except subprocess.TimeoutExpired:
            return [*faults, f"The card's server did not end within {_END_LIMIT:.0f} seconds after QEMU."]
    lines = (logs / "server.log").read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    step(f"server: {last}")
    if card.returncode:
        faults.append(f"The card's server ended with status {card.returncode}: {last}")
    return faults


def _wait_for_socket(card: "subprocess.Popen[bytes]", socket: Path) -> None:
    end = time.monotonic() + _START_LIMIT
    while not socket.exists() and card.poll() is None and time.monotonic() < end:
        time.sleep(0.02)


@contextmanager
def _child(command: Sequence[str | Path], **options: object) -> "Iterator[subprocess.Popen[bytes]]":
    """A process that does not outlive the block."""
    process: subprocess.Popen[bytes] = subprocess.Popen(command, **options)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
