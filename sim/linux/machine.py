# SPDX-License-Identifier: Apache-2.0
"""The virtual machine: a q35 board with an IOMMU, the card behind its socket, and a device whose BAR is memory."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sim.linux.fetch import Packages

__all__ = ["PEER_BYTES", "Machine"]

PEER_BYTES = 4 << 20
"""Size of the memory behind BAR 2 of the peer."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One virtual machine.

    Parameters
    ----------
    packages : Packages
        QEMU and the kernel.
    initrd, socket, peer, console : Path
        The initramfs; where the card listens; the file behind the peer's BAR; the log of the guest's console.
    parts : sequence of str
        What the guest runs.
    arguments : dict
        Part -> its further arguments.
    limit : int
        Seconds for each part.
    iommu : bool
        With a virtual IOMMU, without which vfio-pci does not take the card.
    accelerator : str
        ``tcg``, which works everywhere, or ``kvm``.
    vfio : str or None
        Interface of the kernel that libdmace uses, ``container`` or ``iommufd``; default: its choice.
    """

    packages: Packages
    initrd: Path
    socket: Path
    peer: Path
    parts: Sequence[str]
    limit: int
    arguments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    iommu: bool = True
    accelerator: str = "tcg"
    vfio: str | None = None
    memory: str = "512M"

    @property
    def kernel_options(self) -> str:
        """The kernel's command line."""
        words = ["console=ttyS0", "quiet", "panic=-1", "no_timer_check", f"intel_iommu={'on' if self.iommu else 'off'}",
                 f"dmace.parts={','.join(self.parts)}", f"dmace.limit={self.limit}"]
        words += [f"dmace.vfio={self.vfio}"] if self.vfio else []
        words += [f"dmace.{part}={','.join(given)}" for part, given in self.arguments.items() if given]
        return " ".join(words)

    def command(self) -> list[str]:
        """The command line of QEMU; the console is its standard output.

        The guest's memory is a shared file, so that the card's server can map it. With ``caching-mode`` QEMU learns of
        each new mapping of the IOMMU, which must be named before the devices behind it. Without posted writes a store
        ends when the server has it; otherwise a guest that stores without end fills QEMU's memory with messages.
        """
        card = {"driver": "vfio-user-pci", "id": "card", "bus": "card_port",
                "socket": {"type": "unix", "path": str(self.socket)}, "x-no-posted-writes": True,
                "x-msg-timeout": 60_000}
        devices = ["intel-iommu,caching-mode=on"] if self.iommu else []
        devices += ["pcie-root-port,id=card_port,chassis=1", "pcie-root-port,id=peer_port,chassis=2", json.dumps(card),
                    "ivshmem-plain,memdev=peer,bus=peer_port"]
        objects = (f"memory-backend-memfd,id=ram,size={self.memory},share=on",
                   f"memory-backend-file,id=peer,size={PEER_BYTES},share=on,mem-path={_quoted(self.peer)}")
        return [
            *self.packages.qemu_command(), "-machine", "q35,memory-backend=ram", "-accel", self.accelerator,
            "-cpu", "max" if self.accelerator == "tcg" else "host", "-m", self.memory,
            *(word for text in objects for word in ("-object", text)),
            "-nodefaults", "-display", "none", "-vga", "none", "-nic", "none", "-monitor", "none", "-no-reboot",
            "-serial", "stdio", "-kernel", str(self.packages.vmlinuz), "-initrd", str(self.initrd),
            "-append", self.kernel_options, *(word for text in devices for word in ("-device", text)),
        ]


def _quoted(path: Path) -> str:
    """A path as a value among QEMU's options, where a comma is doubled."""
    return str(path).replace(",", ",,")
