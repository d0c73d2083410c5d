# SPDX-License-Identifier: Apache-2.0
"""Linux's soft-RoCE in a virtual machine, as an independent peer: kernel, guest program, and its commands.

::

    with RoceGuest(folder, peer) as guest:
        pair, opened = guest.connect(peer, mtu=1024)
        guest.command("fill", 0, 5000, 7)
        guest.command("write", 0, va, rkey, 5000)
        request = pair.requester.write(opened.address, opened.rkey, b"abc")
        guest.run(lambda: request.done)

``peer`` is a :class:`sim.rdma.peer.Peer`, or anything with its methods ``receive`` and ``transmit`` in front of RTL.
"""

import ipaddress
import random
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from dmace.libdmace.build import FLAGS, c_compiler
from hw.errors import UserError
from sim.linux.fetch import Packages, Say, fetch, fetch_libraries, fetch_program
from sim.linux.initrd import modules, write
from sim.linux.programs import program_files
from sim.rdma.connection import Connection, Station
from sim.rdma.packets import MASK24
from sim.rdma.peer import Peer, QueuePair
from sim.rdma.perftest import PerftestServer, Tool
from sim.rdma.segment import Segment, SegmentClosed, datagram, payload_of
from sim.verilator.build import execute
from sim.verilator.store import digest, once
from sim.verilator.toolchain import build_root

__all__ = ["GUEST", "KERNEL", "LIBRARIES", "OWN", "ROUTES", "CommandFailed", "Opened", "Roce", "RoceGuest", "Route",
           "build_initrd", "fetch_guest", "pattern"]

KERNEL = "linux-image-amd64"
"""Debian's cloud kernel has no rdma_rxe."""
LIBRARIES = ("libibverbs-dev", "libnl-3-dev", "libnl-route-3-dev")
# No dependency of rdma_rxe names crc32_generic, which it requests from the kernel as "crc32".
_MODULES = ("virtio_pci", "virtio_net", "8021q", "crc32_generic", "rdma_rxe", "ib_uverbs")
_TOOLS = tuple(f"usr/bin/ib_{name}" for name in ("write_bw", "write_lat", "read_bw", "read_lat"))
# The provider's name ends in a version of libibverbs.
_PROVIDER, _STATIC_PROVIDER = "usr/lib/x86_64-linux-gnu/libibverbs/librxe-*.so", "usr/lib/x86_64-linux-gnu/librxe-*.a"
_DRIVER = "etc/libibverbs.d/rxe.driver"
_SOURCE = Path(__file__).with_name("guest")
_PORT, _END_LIMIT, _PERFTEST_LIMIT = 5000, 30.0, 120.0
_MTUS = {256: 1, 512: 2, 1024: 3}
_GOLDEN = 0x9E3779B97F4A7C15

OWN = Station(b"\2\0\0\0\0\1", bytes([10, 0, 0, 1]))
GUEST = Station(b"\x52\x54\0\x12\x34\x56", bytes([10, 0, 0, 2]))
"""Addresses of both ends, which the guest's program knows."""
_SERVER_MAC = "52:54:00:12:34:57"


@dataclass(frozen=True)
class Route:
    """Addresses of both ends of a connection, and its VLAN."""

    own: str
    guest: str
    vlan: int | None = None

    def station(self, mac: bytes, *, guest: bool) -> Station:
        """One of the ends."""
        return Station(mac, ipaddress.ip_address(self.guest if guest else self.own).packed)


ROUTES = (Route("10.0.0.1", "10.0.0.2"), Route("fd00::1", "fd00::2"), Route("10.0.0.1", "10.0.0.3", 7),
          Route("fd00::1", "fd00::3", 7))
"""As ``paths`` of ``guest/addresses.h``."""


class CommandFailed(UserError):
    """The guest could not execute a command; the sentence is its own."""

    status = 1


class Roce(Protocol):
    """An end of RoCEv2 connections."""

    def receive(self, frame: bytes, now: float) -> None:
        """Take a frame."""

    def transmit(self, now: float, limit: int = ...) -> list[bytes]:
        """Frames to send now."""


def pattern(seed: int, length: int) -> bytes:
    """Bytes of the guest's command ``fill``."""
    return bytes(((index + seed) * _GOLDEN >> 56) & 0xFF for index in range(length))


def fetch_guest(root: Path, *, say: Say = lambda what: None) -> tuple[Packages, Path, Path]:
    """QEMU and a kernel with soft-RoCE; folders of static libraries, and of perftest; see :mod:`sim.linux.fetch`."""
    return (fetch(root, kernel=KERNEL, say=say), fetch_libraries(root, LIBRARIES, say=say),
            fetch_program(root, "perftest", say=say))


def build_initrd(root: Path, packages: Packages, libraries: Path, perftest: Path) -> Path:
    """An initramfs in ``root`` with the guest's program and perftest, built unless it is there."""
    texts = [(path.name, path.read_text(encoding="utf-8")) for path in sorted(_SOURCE.glob("*.[ch]"))]
    key = digest(texts, packages.version("kernel"), libraries.name, perftest.name, _MODULES, _TOOLS, FLAGS,
                 c_compiler())
    folder = root / f"roce-{key}"

    def make() -> None:
        include = libraries / "usr/include"
        providers = [str(path.relative_to(perftest)) for path in perftest.glob(_PROVIDER)]
        search = [f"-L{libraries / path}" for path in ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")]
        # The linker warns of functions of libnl that need shared libraries, and are not called.
        execute([*c_compiler(), *FLAGS, "-static", "-DRDMA_STATIC_PROVIDERS=rxe", f"-I{include}",
                 f"-I{include / 'libnl3'}", _SOURCE / "roce.c", "-o", folder / "roce", *search,
                 *libraries.glob(_STATIC_PROVIDER), "-libverbs", "-lnl-route-3", "-lnl-3", "-lpthread", "-lm"],
                folder=folder, log=folder / "compiler.log")
        write(folder / "initrd", {"init": (folder / "roce").read_bytes(),
                                  **program_files(perftest, [*_TOOLS, _DRIVER, *providers])},
              modules(packages.kernel, _MODULES))

    once(folder, make, product="initrd", name="roce")
    return folder / "initrd"


@dataclass(frozen=True, kw_only=True)
class Opened:
    """The guest's end of a queue pair: its QPN, and the R_Key, address and bytes of its memory."""

    qpn: int
    rkey: int
    address: int
    size: int


class RoceGuest:
    """A running guest, and our end of its Ethernet segment.

    Parameters
    ----------
    folder : Path
        For the socket and the logs of console and QEMU.
    peer : Roce
        Our end; its station is ``OWN``.
    accelerator : str
        Of QEMU: ``tcg`` or ``kvm``.
    limit : float
        Seconds until the guest must have started.

    Attributes
    ----------
    segment : Segment
        Frames, and filters that drop them.
    """

    def __init__(self, folder: Path, peer: Roce, *, accelerator: str = "tcg", limit: float = 120.0,
                 say: Say = lambda what: None) -> None:
        self.folder, self.peer, self.accelerator, self.limit, self._say = folder, peer, accelerator, limit, say
        self.segment = Segment(folder / "segment", OWN, [route.station(OWN.mac, guest=False).ip for route in ROUTES])
        self._qemu: subprocess.Popen[bytes] | None = None
        self._responses: list[bytes] = []
        self._number = 0

    def __enter__(self) -> Self:
        root = build_root() / "linux"
        packages, libraries, perftest = fetch_guest(root, say=self._say)
        initrd = build_initrd(root, packages, libraries, perftest)
        with (self.folder / "qemu.log").open("wb") as log:
            self._qemu = subprocess.Popen(self._command(packages, initrd), env=packages.qemu_env(),
                                          stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            self.segment.accept(self.limit)
            end = time.monotonic() + self.limit
            while b"hello" not in self._responses:
                if time.monotonic() > end:
                    raise SegmentClosed(f"The guest has not started within {self.limit:g} seconds.")
                self._step(0.1)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self._end()
        finally:
            self._stop()

    def _end(self) -> None:
        """Switch the guest off, and wait for QEMU."""
        self.command("end")
        assert self._qemu is not None
        try:
            while True:
                self._step(_END_LIMIT)
        except SegmentClosed:
            pass
        if self._qemu.wait(_END_LIMIT):
            raise SegmentClosed(f"QEMU ended with status {self._qemu.returncode}; see {self.folder / 'qemu.log'}.")

    def _command(self, packages: Packages, initrd: Path) -> Sequence[str]:
        mac = ":".join(f"{byte:02x}" for byte in GUEST.mac)
        path, console = (str(self.folder / name).replace(",", ",,") for name in ("segment", "console.log"))
        return [*packages.qemu_command(), "-machine", "q35", "-accel", self.accelerator,
                "-cpu", "max" if self.accelerator == "tcg" else "host", "-m", "512M", "-nodefaults", "-display", "none",
                "-vga", "none", "-monitor", "none", "-no-reboot", "-serial", f"file:{console}",
                "-kernel", str(packages.vmlinuz), "-initrd", str(initrd), "-append",
                "console=ttyS0 quiet panic=-1 no_timer_check net.ifnames=0",
                "-netdev", f"stream,id=net,server=off,addr.type=unix,addr.path={path}",
                "-device", f"virtio-net-pci,netdev=net,mac={mac}",
                "-netdev", "user,id=server,ipv6=off", "-device", f"virtio-net-pci,netdev=server,mac={_SERVER_MAC}"]

    def _stop(self) -> None:
        self.segment.__exit__(None, None, None)
        if self._qemu is not None:
            if self._qemu.poll() is None:
                self._qemu.kill()
            self._qemu.wait()

    def _step(self, longest: float) -> None:
        """Exchange frames until one has arrived, or for ``longest`` seconds; time is in microseconds."""
        for frame in self.peer.transmit(time.monotonic() * 1e6):
            self.segment.send(frame)
        frame_or_none = self.segment.receive(longest)
        if frame_or_none is None:
            return
        data = payload_of(frame_or_none, _PORT)
        if data is None:
            self.peer.receive(frame_or_none, time.monotonic() * 1e6)
        else:
            self._responses.append(data)

    def run(self, until: Callable[[], bool], *, limit: float = 60.0) -> None:
        """Exchange frames until a condition is true. Raises :class:`SegmentClosed` after ``limit`` seconds."""
        end = time.monotonic() + limit
        while not until():
            if time.monotonic() > end:
                raise SegmentClosed(f"The exchange has not ended within {limit:g} seconds.")
            self._step(0.002)

    def begin(self, word: str, *numbers: int) -> Callable[[], bool]:
        """Send a command, and return a function that says whether its response has arrived, for :meth:`run`."""
        self._number += 1
        self._responses.clear()
        number = self._number
        text = " ".join([f"{number:x}", word, *(f"{value:x}" for value in numbers)]).encode()
        sent = 0.0

        def ended() -> bool:
            nonlocal sent
            if time.monotonic() > sent + 1:     # again, as a datagram may be lost
                sent = time.monotonic()
                self.segment.send(datagram(OWN, GUEST, (_PORT, _PORT), text))
            return any(one.split(b" ")[0] == f"{number:x}".encode() for one in self._responses)

        ended()
        return ended

    def end(self) -> list[int]:
        """Results of the latest command, whose response has arrived. Raises :class:`CommandFailed`."""
        words = next(one for one in self._responses if one.split(b" ")[0] == f"{self._number:x}".encode()).split(b" ")
        if words[1] != b"ok":
            sentence = b" ".join(words[2:]).decode(errors="replace")
            raise CommandFailed(f"{sentence[:1].upper()}{sentence[1:]}.")
        return [int(word, 16) for word in words[2:]]

    def open(self, *, qpn: int, psn: int, guest_psn: int, mtu: int = 1024, timeout: int = 14,
             retries: int = 7, route: Route = ROUTES[0]) -> Opened:
        """Open a queue pair in the guest, in place of an earlier one.

        Parameters
        ----------
        qpn, psn : int
            Own QPN, and PSN of the first request to the guest.
        guest_psn : int
            PSN of the guest's first request.
        mtu : int
            256, 512 or 1024.
        timeout, retries : int
            The guest's: 4.096 us times 2 ** ``timeout``, and retransmissions until it fails.
        route : Route
            One of ``ROUTES``.
        """
        if mtu not in _MTUS:
            raise CommandFailed(f"The guest's path MTU must be 256, 512 or 1024, not {mtu!r}.")
        numbers = self.command("open", qpn, psn, guest_psn, _MTUS[mtu], timeout, retries,
                               ROUTES.index(route))
        return Opened(**dict(zip(("qpn", "rkey", "address", "size"), numbers, strict=True)))

    def connect(self, peer: Peer, *, mtu: int = 1024, timeout: int = 14, retries: int = 7,
                seed: int | None = None, route: Route = ROUTES[0]) -> tuple[QueuePair, Opened]:
        """Open a queue pair between the guest and a software peer, with random PSNs."""
        generator = random.Random(seed)
        psn, guest_psn = generator.randrange(MASK24), generator.randrange(MASK24)
        qpn = max(peer.pairs, default=16) + 1
        opened = self.open(qpn=qpn, psn=psn, guest_psn=guest_psn, mtu=mtu, timeout=timeout, retries=retries,
                           route=route)
        return peer.connect(Connection(station=route.station(OWN.mac, guest=False),
                                       peer=route.station(GUEST.mac, guest=True), vlan=route.vlan, qpn=qpn,
                                       peer_qpn=opened.qpn, send_psn=psn, receive_psn=guest_psn, mtu=mtu,
                                       timeout=200_000.0, max_reads=4, window=32)), opened

    def perftest(self, server: PerftestServer, tool: Tool, *, size: int, iterations: int,
                 meanwhile: Callable[[], object] = lambda: None) -> int:
        """Run one of perftest's tools as client of a server of ours, and return its exit status.

        Parameters
        ----------
        size : int
            Bytes of a message.
        iterations : int
            Messages, at least 5.
        meanwhile : callable
            Called again and again until the tool has ended.
        """
        ended = self.begin("perftest", tool, server.port, size, iterations)

        def until() -> bool:
            server.poll()
            meanwhile()
            return ended()

        self.run(until, limit=_PERFTEST_LIMIT)
        return self.end()[0]

    def command(self, word: str, *numbers: int, limit: float = 60.0) -> list[int]:
        """Execute a command of ``guest/roce.c``, and return its results."""
        self.run(self.begin(word, *numbers), limit=limit)
        return self.end()
