# SPDX-License-Identifier: Apache-2.0
"""QEMU, a kernel and libraries for its guest, from Debian's packages, unpacked into the build directory.

apt works in folders of its own there and verifies signatures as always. Nothing is installed, and root is not needed.
A folder that exists is complete: packages are unpacked beside it, and it gets its name last.
"""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from hw.errors import UserError
from sim.verilator.store import digest

__all__ = ["KERNEL_PACKAGE", "OLDEST_QEMU", "Apt", "FetchFailed", "Packages", "fetch", "fetch_libraries",
           "fetch_program"]

OLDEST_QEMU = "1:10.1"
"""Debian version of the first QEMU with ``vfio-user-pci``."""
QEMU_PACKAGE, QEMU_SUITES = "qemu-system-x86", ("forky", "sid")
KERNEL_PACKAGE = "linux-image-cloud-amd64"

_LIBRARIES = Path("usr/lib/x86_64-linux-gnu")
_DATA = ("usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu")
_KEYRINGS = ("/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp")
_NEEDED = ("apt-get", "apt-cache", "dpkg", "dpkg-deb", "tar")

Say = Callable[[str], None]
"""Receives what happens now, in a few words."""


class FetchFailed(UserError):
    """Debian's packages cannot be reached from this machine."""

    status = 1


@dataclass(frozen=True)
class Packages:
    """Unpacked packages: QEMU with all that it needs, and the guest's kernel."""

    qemu: Path
    kernel: Path

    def qemu_command(self) -> list[str]:
        """Start of a command that runs QEMU by its own dynamic linker, with its own libraries and firmware."""
        libraries = self.qemu / _LIBRARIES
        data = [word for folder in _DATA for word in ("-L", str(self.qemu / folder))]
        return [str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries),
                str(self.qemu / "usr/bin/qemu-system-x86_64"), *data]

    def qemu_env(self) -> dict[str, str]:
        """Environment of that command; the one of this process is unchanged."""
        return {**os.environ, "QEMU_MODULE_DIR": str(self.qemu / _LIBRARIES / "qemu")}

    def version(self, which: str) -> str:
        """Suite, package and version of ``qemu`` or ``kernel``."""
        folder: Path = getattr(self, which)
        return (folder / "VERSION").read_text(encoding="utf-8").strip()

    @property
    def vmlinuz(self) -> Path:
        """The kernel's image."""
        found = [*self.kernel.glob("boot/vmlinuz-*"), *self.kernel.glob("usr/lib/modules/*/vmlinuz")]
        if not found:
            raise FetchFailed(f"The package {self.version('kernel')} has no kernel in boot or in usr/lib/modules.")
        return found[0]


class Apt:
    """apt with one suite in its sources and no installed package.

    Parameters
    ----------
    root : Path
        Folder of its state.
    mirror, suite : str
        Where packages are, and which of them.
    keyring : Path
        Keys with which the suite is signed.
    """

    def __init__(self, root: Path, mirror: str, suite: str, keyring: Path) -> None:
        self.root, self.mirror, self.suite, self.keyring = root, mirror, suite, keyring

    def command(self, program: str, *arguments: str) -> list[str]:
        """A command line that works in the folder alone."""
        options = {
            "Dir::Etc::sourcelist": self.root / "sources.list", "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null", "Dir::Etc::preferencesparts": "/dev/null",
            "Dir::State": self.root / "state", "Dir::State::status": self.root / "status",
            "Dir::Cache": self.root / "cache", "APT::Sandbox::User": "", "Debug::NoLocking": "1",
            "APT::Architecture": "amd64", "APT::Architectures::": "amd64", "Acquire::Retries": "2",
            "Acquire::http::Timeout": "20", "Acquire::https::Timeout": "20",
        }
        return [program, *(word for name, value in options.items() for word in ("-o", f"{name}={value}")), *arguments]

    def update(self) -> None:
        """Download the suite's index, once. Raises :class:`FetchFailed`."""
        if (self.root / "updated").exists():
            return
        for folder in ("state/lists/partial", "cache/archives/partial"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        (self.root / "status").touch()
        (self.root / "sources.list").write_text(f"deb [signed-by={self.keyring}] {self.mirror} {self.suite} main\n")
        self._run(self.command("apt-get", "-q", "-o", "APT::Update::Error-Mode=any", "update"),
                  f"The index of Debian {self.suite} cannot be downloaded")
        (self.root / "updated").touch()

    def candidate(self, package: str) -> str | None:
        """Version of a package in the suite."""
        found = re.search(r"^ +Candidate: (\S+)", self._run(self.command("apt-cache", "policy", package),
                                                            f"The index of Debian {self.suite} cannot be read"), re.M)
        return found[1] if found and found[1] != "(none)" else None

    def image(self, package: str) -> str:
        """The kernel image that a package like ``linux-image-cloud-amd64`` depends on, or ``package`` itself."""
        if re.match(r"linux-image-\d", package):
            return package
        text = self._run(self.command("apt-cache", "depends", "--important", package),
                         f"Debian {self.suite} has no package {package}")
        found = re.search(r"Depends: (linux-image-\d\S*)", text)
        return found[1] if found else package

    def pieces(self, image: str) -> list[str]:
        """A kernel image with the packages of its binary and its modules, which are separate in later suites."""
        text = self._run(self.command("apt-cache", "depends", "--important", image),
                         f"Debian {self.suite} has no package {image}")
        return [image, *re.findall(r"Depends: (linux-(?:base|binary|modules)-\d\S*)", text)]

    def closure(self, package: str) -> list[Path]:
        """Download a package with everything that it depends on, the C library included."""
        self._run(self.command("apt-get", "-q", "-y", "--no-install-recommends", "--download-only", "install", package),
                  f"{package} of Debian {self.suite} cannot be downloaded")
        return sorted((self.root / "cache/archives").glob("*.deb"))

    def download(self, packages: Sequence[str]) -> list[Path]:
        """Download these packages, without those that they depend on."""
        folder = self.root / "download"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        self._run(self.command("apt-get", "-q", "download", *packages),
                  f"{packages[0]} of Debian {self.suite} cannot be downloaded", folder)
        return sorted(folder.glob("*.deb"))

    def clean(self) -> None:
        """Delete downloaded packages."""
        shutil.rmtree(self.root / "download", ignore_errors=True)
        for path in (self.root / "cache/archives").glob("*.deb"):
            path.unlink()

    def _run(self, command: Sequence[str], failure: str, folder: Path | None = None) -> str:
        return _run(command, f"{failure} from {self.mirror}", folder)


def fetch(root: Path, *, kernel: str | None = None, suite: str | None = None, mirror: str | None = None,
          say: Say = lambda what: None) -> Packages:
    """Packages in ``root``, downloaded unless they are there.

    Parameters
    ----------
    root : Path
        Folder, which is created.
    kernel : str or None
        Package of the kernel; default ``$DMACE_LINUX_KERNEL``, else ``linux-image-cloud-amd64``.
    suite : str or None
        Of the kernel; default ``$DMACE_LINUX_SUITE``, else this machine's Debian.
    mirror : str or None
        Default ``$DMACE_DEBIAN_MIRROR``, else the first one of this machine's apt.
    say : callable
        Receives what happens now.

    Raises
    ------
    FetchFailed
        If the packages cannot be reached.
    """
    kernel = kernel or os.environ.get("DMACE_LINUX_KERNEL") or KERNEL_PACKAGE
    suite = suite or os.environ.get("DMACE_LINUX_SUITE") or None
    if not re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", kernel):
        raise FetchFailed(f"{kernel!r} is no name of a Debian package.")
    root = root.resolve()
    folder = root / (f"{kernel}-{suite}" if suite else kernel)
    packages = Packages(root / "qemu", folder)
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / ".lock"):
        if packages.qemu.is_dir() and packages.kernel.is_dir():
            return packages
        apt = _apt(root, mirror, say)
        if not packages.qemu.is_dir():
            source, version = choose(map(apt, QEMU_SUITES))
            say(f"downloading QEMU {version} of Debian {source.suite}")
            _unpack(source.closure(QEMU_PACKAGE), packages.qemu, f"{source.suite} {QEMU_PACKAGE} {version}")
            source.clean()
        if not packages.kernel.is_dir():
            source = apt(suite or codename())
            image = source.image(kernel)
            say(f"downloading {image} of Debian {source.suite}")
            debs = source.download(source.pieces(image))
            _unpack(debs, packages.kernel, f"{source.suite} {image} {source.candidate(image)}")
            source.clean()
    return packages


def fetch_libraries(root: Path, names: Sequence[str], *, suite: str | None = None, mirror: str | None = None,
                    say: Say = lambda what: None) -> Path:
    """Folder in ``root`` with these packages unpacked, without those that they depend on.

    The suite is that of this machine's Debian, whose compiler and C library programs are built with, unless ``suite``
    names another. Raises :class:`FetchFailed` if the packages cannot be reached.
    """
    return _fetch(root, "libraries", names, lambda source: source.download(names), suite, mirror, say)


def fetch_program(root: Path, name: str, *, suite: str | None = None, mirror: str | None = None,
                  say: Say = lambda what: None) -> Path:
    """Folder in ``root`` with a package and all that it depends on unpacked; otherwise as :func:`fetch_libraries`."""
    return _fetch(root, "program", [name], lambda source: source.closure(name), suite, mirror, say)


def _fetch(root: Path, kind: str, names: Sequence[str], download: Callable[[Apt], Sequence[Path]], suite: str | None,
           mirror: str | None, say: Say) -> Path:
    root = root.resolve()
    folder = root / "-".join([kind, digest(sorted(names)), *([suite] if suite else [])])
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / ".lock"):
        if not folder.is_dir():
            source = _apt(root, mirror, say)(suite or codename())
            say(f"downloading {', '.join(names)} of Debian {source.suite}")
            _unpack(download(source), folder, f"{source.suite} {' '.join(names)}")
            source.clean()
    return folder


def choose(sources: Iterator[Apt]) -> tuple[Apt, str]:
    """The first suite with a QEMU that is new enough, and its version."""
    seen = []
    for source in sources:
        version = source.candidate(QEMU_PACKAGE)
        seen.append(f"{source.suite} has {version or 'none'}")
        if version and subprocess.run(["dpkg", "--compare-versions", version, "ge", OLDEST_QEMU],
                                      check=False).returncode == 0:
            return source, version
    raise FetchFailed(f"No suite of Debian has {QEMU_PACKAGE} {OLDEST_QEMU} or newer: {', '.join(seen)}.")


def codename(release: Path = Path("/etc/os-release")) -> str:
    """The suite of this machine's Debian."""
    fields = _os_release(release)
    if fields.get("ID") != "debian" or not fields.get("VERSION_CODENAME"):
        raise FetchFailed("This machine is not a release of Debian, so the guest's kernel needs a suite: set "
                          "DMACE_LINUX_SUITE, for instance to bookworm.")
    return fields["VERSION_CODENAME"]


def _os_release(release: Path) -> Mapping[str, str]:
    text = release.read_text(encoding="utf-8") if release.is_file() else ""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: value.strip('"') for name, mark, value in pairs if mark}


def _apt(root: Path, mirror: str | None, say: Say) -> Callable[[str], Apt]:
    """A function from a suite to its :class:`Apt` in ``root`` with an index."""
    _require_tools()
    found = mirror or os.environ.get("DMACE_DEBIAN_MIRROR") or _mirror()
    keyring = next((Path(path) for path in _KEYRINGS if Path(path).is_file()), None)
    if keyring is None:
        raise FetchFailed("Debian's packages cannot be verified: this machine has no debian-archive-keyring.")

    def apt(suite: str) -> Apt:
        made = Apt(root / "apt" / suite, found, suite, keyring)
        say(f"reading the index of Debian {suite}")
        made.update()
        return made

    return apt


def _require_tools() -> None:
    if platform.machine() != "x86_64":
        raise FetchFailed(f"QEMU and its guest are fetched for x86-64 only, and this machine is {platform.machine()}.")
    missing = [tool for tool in _NEEDED if shutil.which(tool) is None]
    if missing:
        raise FetchFailed(f"Debian's packages cannot be fetched: this machine has no {' and no '.join(missing)}.")


def _mirror() -> str:
    """The mirror that this machine's apt takes Debian from."""
    text = _run(["apt-get", "indextargets", "--format", "$(ORIGIN) $(COMPONENT) $(REPO_URI) $(SUITE)",
                 "Created-By: Packages"], "This machine's apt cannot list its sources")
    for line in text.splitlines():
        origin, component, uri = [*line.split(), "", "", ""][:3]
        if (origin, component) == ("Debian", "main") and "security" not in uri:
            return uri
    raise FetchFailed("Debian's packages cannot be fetched: this machine's apt has no mirror of Debian in its "
                      "sources; set DMACE_DEBIAN_MIRROR to one.")


def _unpack(debs: Sequence[Path], target: Path, version: str) -> None:
    """Unpack packages into ``target``, all of them or none."""
    part = target.with_name(f"{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    for deb in debs:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as archive:
            tar = subprocess.run(["tar", "-x", "--no-same-owner", "--keep-directory-symlink", "-C", part],
                                 stdin=archive.stdout, capture_output=True, text=True, check=False)
        if archive.returncode or tar.returncode:
            raise FetchFailed(f"{deb.name} cannot be unpacked: {_last_line(tar.stderr) or 'dpkg-deb refuses it'}")
    (part / "VERSION").write_text(f"{version}\n")
    part.rename(target)


def _run(command: Sequence[str], failure: str, folder: Path | None = None) -> str:
    """Standard output of a command; :class:`FetchFailed` with the last line of its messages if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder,
                          env={**os.environ, "LC_ALL": "C"})
    if done.returncode:
        raise FetchFailed(f"{failure}: {_last_line(done.stderr) or f'{command[0]} returned {done.returncode}'}")
    return done.stdout


def _last_line(text: str) -> str:
    """The first error of apt's messages, else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("E:", "Err:"))]
    return (errors or lines[-1:] or [""])[0]
