# SPDX-License-Identifier: Apache-2.0
"""Programs and their shared libraries, with a script in place of the dynamic linker."""

import pytest

from sim.linux.fetch import FetchFailed
from sim.linux.programs import program_files

ELF = b"\x7fELF program"


@pytest.fixture
def folder(tmp_path):
    """``folder(script, path)``: unpacked packages whose dynamic linker is a script."""
    for path, data in (("usr/bin/tool", ELF), ("etc/tool.conf", b"text"), ("lib/x86_64-linux-gnu/libc.so.6", b"libc"),
                       ("usr/lib/x86_64-linux-gnu/libx.so.1", b"libx")):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)

    def make(script, path="lib/x86_64-linux-gnu"):
        loader = tmp_path / path / "ld-linux-x86-64.so.2"
        loader.write_text(f"#!/bin/sh\n{script}\n")
        loader.chmod(0o755)
        return tmp_path

    return make


@pytest.mark.parametrize("path", ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"])
def test_files(folder, tmp_path, path):
    usual, further = (tmp_path / name / "x86_64-linux-gnu" for name in ("lib", "usr/lib"))
    made = program_files(folder(f"""
[ "$*" = "--inhibit-cache --library-path {usual}:{further} --list {tmp_path}/usr/bin/tool" ] ||
    exit 1
echo "	linux-vdso.so.1 (0x00007f743ec19000)"
echo "	libx.so.1 => {further}/libx.so.1 (0x00007f743eaf8000)"
echo "	libc.so.6 => {usual}/libc.so.6 (0x00007f743e837000)"
echo "	/lib64/ld-linux-x86-64.so.2 => {usual}/ld-linux-x86-64.so.2 (0x00007f743ec1b000)"
""", path), ["usr/bin/tool", "etc/tool.conf"])
    loader = made.pop("lib64/ld-linux-x86-64.so.2")
    assert loader.startswith(b"#!/bin/sh")
    assert made == {"usr/bin/tool": ELF, "etc/tool.conf": b"text", "lib/x86_64-linux-gnu/libc.so.6": b"libc",
                    "lib/x86_64-linux-gnu/libx.so.1": b"libx"}


def test_what_is_missing(folder, tmp_path):
    with pytest.raises(FetchFailed, match=r"^The packages have no \S+/usr/bin/other\.$"):
        program_files(tmp_path, ["usr/bin/other"])
    with pytest.raises(FetchFailed, match=r"^The packages have no \S+/ld-linux-x86-64\.so\.2\.$"):
        program_files(tmp_path, ["usr/bin/tool"])
    root = folder('echo "	libx.so.9 => not found"')
    with pytest.raises(FetchFailed, match=r"^tool needs libx\.so\.9, which its packages lack\.$"):
        program_files(root, ["usr/bin/tool"])


@pytest.mark.parametrize("script, what", [
    ("echo 'tool: libz.so.1: cannot open shared object file: No such file' >&2; exit 127", "libz.so.1"),
    ("exit 1", "libraries")])
def test_a_linker_that_fails(folder, script, what):
    with pytest.raises(FetchFailed, match=rf"^tool needs {what}, which its packages lack\.$"):
        program_files(folder(script), ["usr/bin/tool"])
