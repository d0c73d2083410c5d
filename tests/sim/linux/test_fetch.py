# SPDX-License-Identifier: Apache-2.0
"""QEMU and the kernel: what is fetched from where, and what is said where that does not work. No network."""

import os
import platform
import re
import subprocess
import sys

import pytest

from sim.linux import fetch as module
from sim.linux.fetch import Apt, FetchFailed, Packages, choose, codename, fetch, fetch_libraries, fetch_program

needs_dpkg = pytest.mark.skipif(not os.path.exists("/usr/bin/dpkg-deb"), reason="there is no dpkg on this machine")
needs_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="this machine is not x86-64")


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A folder in front of PATH for programs that stand for Debian's: ``tools(apt_get="exit 1")``."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def add(**programs):
        for name, body in programs.items():
            path = folder / name.replace("_", "-")
            path.write_text(f"#!/bin/sh\n{body}\n")
            path.chmod(0o755)

    add(apt_get="exit 0", apt_cache="exit 0", dpkg="exit 1")
    return add


@pytest.fixture(autouse=True)
def keyring(tmp_path, monkeypatch):
    path = tmp_path / "keyring.gpg"
    path.touch()
    monkeypatch.setattr(module, "_KEYRINGS", (str(path),))
    for name in ("KERNEL", "SUITE"):
        monkeypatch.delenv(f"DMACE_LINUX_{name}", raising=False)
    monkeypatch.delenv("DMACE_DEBIAN_MIRROR", raising=False)


def _release(tmp_path, text):
    path = tmp_path / "os-release"
    path.write_text(text)
    return path


def test_codename(tmp_path):
    assert codename(_release(tmp_path, 'ID=debian\nVERSION_CODENAME="bookworm"\n')) == "bookworm"


@pytest.mark.parametrize("text", ["ID=fedora\nVERSION_CODENAME=x\n", "ID=debian\n", ""])
def test_other_machines_need_a_suite(tmp_path, text):
    sentence = (r"^This machine is not a release of Debian, so the guest's kernel needs a suite: set "
                r"DMACE_LINUX_SUITE, for instance to bookworm\.$")
    with pytest.raises(FetchFailed, match=sentence):
        codename(_release(tmp_path, text))


def test_apt_works_in_its_own_folder(tmp_path):
    command = Apt(tmp_path, "http://mirror/debian", "sid", tmp_path / "keys").command("apt-get", "update")
    assert command[0] == "apt-get" and command[-1] == "update"
    folders = [word for word in command if word.startswith("Dir::")]
    assert all("/dev/null" in word or str(tmp_path) in word for word in folders) and len(folders) == 7
    assert not any("AllowUnauthenticated" in word or "trusted" in word for word in command)


@needs_x86
@needs_dpkg
def test_a_mirror_that_cannot_be_reached(tmp_path, tools):
    tools(apt_get='case "$*" in *update*) echo "E: Could not resolve host" >&2; exit 100;; esac')
    sentence = (r"^The index of Debian forky cannot be downloaded from http://mirror/debian: "
                r"E: Could not resolve host$")
    with pytest.raises(FetchFailed, match=sentence):
        fetch(tmp_path / "linux", mirror="http://mirror/debian")
    assert not (tmp_path / "linux/qemu").exists()
    assert not (tmp_path / "linux/apt/forky/updated").exists()


@needs_x86
@needs_dpkg
def test_no_mirror(tmp_path, tools):
    tools(apt_get="exit 0")
    sentence = (r"^Debian's packages cannot be fetched: this machine's apt has no mirror of Debian in its sources; set "
                r"DMACE_DEBIAN_MIRROR to one\.$")
    with pytest.raises(FetchFailed, match=sentence):
        fetch(tmp_path / "linux")


def test_no_apt(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    with pytest.raises(FetchFailed, match=r"^Debian's packages cannot be fetched: this machine has no apt-get and no "):
        fetch(tmp_path / "linux")


def test_other_architectures(tmp_path, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    sentence = r"^QEMU and its guest are fetched for x86-64 only, and this machine is riscv64\.$"
    with pytest.raises(FetchFailed, match=sentence):
        fetch(tmp_path / "linux")


def test_names_of_packages(tmp_path):
    with pytest.raises(FetchFailed, match=r"^'-oDir=/' is no name of a Debian package\.$"):
        fetch(tmp_path / "linux", kernel="-oDir=/")


@needs_x86
@needs_dpkg
def test_qemu_of_every_suite_is_too_old(tmp_path, tools):
    tools(apt_cache='printf "pkg:\\n  Installed: (none)\\n  Candidate: 1:9.2\\n"')
    sources = (Apt(tmp_path, "m", suite, tmp_path) for suite in ("forky", "sid"))
    sentence = (r"^No suite of Debian has qemu-system-x86 1:10\.1 or newer: forky has 1:9\.2, "
                r"sid has 1:9\.2\.$")
    with pytest.raises(FetchFailed, match=sentence):
        choose(sources)


def test_a_package_of_the_image(tmp_path, tools):
    tools(apt_cache='printf "linux-image-cloud-amd64\\n  Depends: linux-image-6.1.0-50-cloud-amd64\\n"')
    apt = Apt(tmp_path, "m", "bookworm", tmp_path)
    assert apt.image("linux-image-cloud-amd64") == "linux-image-6.1.0-50-cloud-amd64"
    assert apt.image("linux-image-6.12.1-amd64") == "linux-image-6.12.1-amd64"


def test_a_kernel_in_pieces(tmp_path, tools):
    names = ("linux-base-7", "linux-binary-7-amd64", "linux-modules-7-amd64")
    tools(apt_cache="\n".join(f"echo '  Depends: {name}'" for name in names))
    assert Apt(tmp_path, "m", "sid", tmp_path).pieces("linux-image-7-amd64") == [
        "linux-image-7-amd64", "linux-base-7", "linux-binary-7-amd64", "linux-modules-7-amd64"]


def _deb(folder, name, files):
    """A package with these files."""
    tree = folder / name
    for path, text in {**files, "DEBIAN/control": f"Package: {name}\nVersion: 1\nArchitecture: all\n"
                                                  "Maintainer: x <x@example.org>\nDescription: x\n"}.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    subprocess.run(["dpkg-deb", "--build", tree, folder / f"{name}.deb"], check=True, capture_output=True)
    return folder / f"{name}.deb"


@needs_dpkg
def test_a_folder_is_complete_or_not_there(tmp_path):
    good, bad = _deb(tmp_path, "good", {"usr/share/x": "1"}), tmp_path / "bad.deb"
    bad.write_bytes(good.read_bytes()[:-50])
    with pytest.raises(FetchFailed, match=r"^bad\.deb cannot be unpacked: "):
        module._unpack([good, bad], tmp_path / "target", "sid x 1")
    assert not (tmp_path / "target").exists()
    module._unpack([good], tmp_path / "target", "sid x 1")
    packages = Packages(tmp_path / "target", tmp_path / "target")
    assert (tmp_path / "target/usr/share/x").read_text() == "1" and packages.version("qemu") == "sid x 1"


def test_what_is_there_is_not_fetched_again(tmp_path, tools):
    tools(apt_get="exit 99", apt_cache="exit 99")
    for name in ("qemu", "linux-image-cloud-amd64"):
        (tmp_path / "linux" / name).mkdir(parents=True)
    assert fetch(tmp_path / "linux").kernel == tmp_path / "linux/linux-image-cloud-amd64"


@needs_x86
@needs_dpkg
def test_libraries(tmp_path, tools):
    deb = _deb(tmp_path, "good", {"usr/include/x.h": "1"})
    tools(apt_get=f'case "$*" in *"download good better") cp {deb} .;; *update*) ;; *) exit 1;; esac')
    folder = fetch_libraries(tmp_path / "linux", ["good", "better"], suite="sid", mirror="http://mirror/debian")
    assert (folder / "usr/include/x.h").read_text() == "1" and folder.name.endswith("-sid")
    assert (folder / "VERSION").read_text() == "sid good better\n"
    tools(apt_get="exit 99")
    assert fetch_libraries(tmp_path / "linux", ["better", "good"], suite="sid") == folder
    with pytest.raises(FetchFailed, match=r"^The index of Debian forky cannot be downloaded from "):
        fetch_libraries(tmp_path / "linux", ["good"], suite="forky", mirror="http://mirror/debian")


@needs_x86
@needs_dpkg
def test_a_program_comes_with_what_it_depends_on(tmp_path, tools):
    debs = [_deb(tmp_path, name, {f"usr/{name}": name}) for name in ("tool", "library")]
    archives = tmp_path / "linux/apt/sid/cache/archives"
    tools(apt_get=f'case "$*" in *"install tool") cp {debs[0]} {debs[1]} {archives};; *update*) ;; *) exit 1;; esac')
    folder = fetch_program(tmp_path / "linux", "tool", suite="sid", mirror="http://mirror/debian")
    assert [(folder / "usr" / name).read_text() for name in ("tool", "library")] == ["tool", "library"]
    assert not list(archives.glob("*.deb"))


def test_qemu_runs_with_its_own_libraries(tmp_path):
    command = Packages(tmp_path / "qemu", tmp_path).qemu_command()
    assert command[0].endswith("ld-linux-x86-64.so.2") and re.search(r"qemu-system-x86_64$", command[3])
    assert sys.executable not in command
