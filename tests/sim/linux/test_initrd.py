# SPDX-License-Identifier: Apache-2.0
"""The initramfs: its archive, and the order of kernel modules."""

import gzip
import lzma
import os
import shutil
import subprocess

import pytest

from sim.linux.initrd import KernelError, Module, archive, modules, write


def _kernel(folder, files, builtin=()):
    """An unpacked kernel package with modules: name -> the names on which it depends."""
    release = folder / "lib/modules/6.1.0"
    for name, depends in files.items():
        path = release / "kernel/drivers" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = b"\x7fELF" + bytes(20) + b"license=GPL\0depends=" + ",".join(depends).encode() + b"\0name=x\0"
        path.write_bytes(lzma.compress(data) if name.endswith(".xz") else data)
    (release / "modules.builtin").write_text("".join(f"kernel/{name}.ko\n" for name in builtin))
    return folder


def _names(*arguments):
    return [module.name for module in modules(*arguments)]


def test_modules_come_after_those_they_depend_on(tmp_path):
    kernel = _kernel(tmp_path, {"vfio-pci.ko": ["vfio-pci-core", "vfio"], "vfio-pci-core.ko": ["vfio", "irqbypass"],
                                "vfio.ko": [], "irqbypass.ko": [], "unused.ko": []})
    assert _names(kernel, ["vfio-pci"]) == ["vfio", "irqbypass", "vfio_pci_core", "vfio_pci"]


def test_builtin_modules_are_left_out(tmp_path):
    kernel = _kernel(tmp_path, {"vfio-pci.ko": ["vfio"]}, builtin=["vfio"])
    assert _names(kernel, ["vfio-pci", "vfio"]) == ["vfio_pci"]


def test_wanted_modules_may_be_missing(tmp_path):
    kernel = _kernel(tmp_path, {"vfio.ko": [], "iommufd.ko": ["vfio"]})
    assert _names(kernel, [], ["iommufd", "nothing"]) == ["vfio", "iommufd"]
    with pytest.raises(KernelError, match=r"^The kernel 6\.1\.0 has no module nothing\.$"):
        modules(kernel, ["nothing"])


def test_compressed_modules_are_decompressed(tmp_path):
    (module,) = modules(_kernel(tmp_path, {"vfio.ko.xz": []}), ["vfio"])
    assert module.data.startswith(b"\x7fELF") and module.depends == []


def test_a_package_of_one_kernel(tmp_path):
    with pytest.raises(KernelError, match=r" has the modules of 0 kernels, not of 1\.$"):
        modules(tmp_path, ["vfio"])


def test_an_entry_that_only_ends_like_depends(tmp_path):
    assert Module("x", b"softdepends=a\0depends=b,c\0").depends == ["b", "c"]


@pytest.mark.skipif(shutil.which("cpio") is None, reason="there is no cpio on this machine")
def test_cpio_reads_the_archive(tmp_path):
    files = {"init": b"#!", "parts/copies": b"12345", "parts/kill": b""}
    subprocess.run(["cpio", "-i", "--quiet", "-d"], input=archive(files), check=True, cwd=tmp_path)
    assert {name: (tmp_path / name).read_bytes() for name in files} == files
    assert os.access(tmp_path / "init", os.X_OK) and (tmp_path / "proc").is_dir()


def test_entries_begin_at_multiples_of_four():
    data = archive({"init": b"12345"})
    at = data.index(b"init\0") - 110
    assert at % 4 == 0 and data[at:at + 6] == b"070701" and int(data[at + 54:at + 62], 16) == 5
    assert data[at + 116:at + 121] == b"12345" and len(data) % 4 == 0


def test_modules_are_numbered_in_order(tmp_path):
    write(tmp_path / "initrd", {"init": b""}, [Module("b", b"B"), Module("a", b"A")])
    data = gzip.decompress((tmp_path / "initrd").read_bytes())
    assert data.index(b"modules/00-b.ko") < data.index(b"modules/01-a.ko")
