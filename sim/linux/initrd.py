# SPDX-License-Identifier: Apache-2.0
"""An initramfs: programs, and kernel modules that are numbered in the order in which they are loaded.

::

    write(path, {"init": init, "parts/copies": copies}, modules(kernel, ["vfio-pci"], ["iommufd"]))
"""

import gzip
import lzma
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hw.errors import UserError

__all__ = ["KernelError", "Module", "archive", "modules", "write"]

_DIRECTORY, _PROGRAM = 0o040755, 0o100755
_FOLDERS = ("dev", "proc", "sys", "tmp", "modules")


class KernelError(UserError):
    """A kernel's package has not what the guest needs."""


class Module:
    """A kernel module: its name and its contents, decompressed."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name, self.data = name, data

    @property
    def depends(self) -> list[str]:
        """Names of the modules that it needs, from its section .modinfo."""
        found = re.search(rb"(?<!\w)depends=([\w,-]*)\0", self.data)
        return [name for name in found[1].decode().split(",") if name] if found else []


def write(path: Path, files: Mapping[str, bytes], loaded: Sequence[Module]) -> None:
    """Write an initramfs with ``files``, and ``loaded`` as ``modules/00-NAME.ko`` and so on."""
    numbered = {f"modules/{number:02}-{module.name}.ko": module.data for number, module in enumerate(loaded)}
    path.write_bytes(gzip.compress(archive({**files, **numbered}), 1, mtime=0))


def archive(files: Mapping[str, bytes]) -> bytes:
    """A cpio archive of executable files and the folders that they are in, in the format "newc"."""
    folders = {*_FOLDERS, *(str(parent) for name in files for parent in Path(name).parents if parent != Path("."))}
    entries = [_entry(name, _DIRECTORY, b"") for name in sorted(folders)]
    entries += [_entry(name, _PROGRAM, data) for name, data in files.items()]
    return b"".join(entries) + _entry("TRAILER!!!", 0, b"")


def _entry(name: str, mode: int, data: bytes) -> bytes:
    """Magic, 13 fields of 8 hexadecimal digits, name and data; both end at a multiple of 4."""
    ended = name.encode() + b"\0"
    inode = uid = gid = mtime = device = check = 0
    fields = (inode, mode, uid, gid, 1, mtime, len(data), device, device, device, device, len(ended), check)
    head = b"070701" + "".join(f"{field:08X}" for field in fields).encode() + ended
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)


def modules(kernel: Path, needed: Iterable[str], wanted: Iterable[str] = ()) -> list[Module]:
    """The modules of an unpacked kernel package that must be loaded, each behind those that it depends on.

    Parameters
    ----------
    kernel : Path
        The unpacked package.
    needed, wanted : iterable of str
        Names. Those that are built into the kernel are left out, and those of ``wanted`` that it does not have.

    Raises
    ------
    KernelError
        If the kernel lacks a module of ``needed``, or one is compressed and no program can decompress it.
    """
    folders = [*kernel.glob("lib/modules/*"), *kernel.glob("usr/lib/modules/*")]
    if len(folders) != 1:
        raise KernelError(f"{kernel} has the modules of {len(folders)} kernels, not of 1.")
    files = {_plain(path.name.partition(".ko")[0]): path for path in folders[0].rglob("*.ko*")}
    listed = (folders[0] / "modules.builtin").read_text(encoding="utf-8").split()
    builtin = {_plain(Path(line).name.partition(".ko")[0]) for line in listed}
    order: dict[str, Module] = {}

    def load(name: str) -> None:
        if name in order or name in builtin:
            return
        if name not in files:
            raise KernelError(f"The kernel {folders[0].name} has no module {name}.")
        module = Module(name, _read(files[name]))
        for other in module.depends:
            load(_plain(other))
        order[name] = module

    for name in map(_plain, needed):
        load(name)
    for name in map(_plain, wanted):
        if name in files:
            load(name)
    return list(order.values())


def _plain(name: str) -> str:
    return name.replace("-", "_")


def _read(path: Path) -> bytes:
    """Contents of a module, decompressed: the guest has no program for that."""
    if path.suffix == ".xz":
        return lzma.decompress(path.read_bytes())
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    if path.suffix == ".zst":
        if shutil.which("zstd") is None:
            raise KernelError(f"{path.name} cannot be decompressed: this machine has no zstd.")
        return subprocess.run(["zstd", "-dc", path], capture_output=True, check=True).stdout
    return path.read_bytes()
