# SPDX-License-Identifier: Apache-2.0
"""The simulated card in a virtual machine, and how its run is described and judged."""

import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hw.errors import UserError
from sim.linux.__main__ import main, parse
from sim.linux.console import Console, Span, pattern
from sim.linux.fetch import FetchFailed, Packages, fetch
from sim.linux.guest import PARTS, build_part, part_source
from sim.linux.machine import Machine
from sim.linux.run import DEFAULT_PARTS
from sim.verilator.toolchain import build_root

ROOT = Path(__file__).parents[3]


def _console(text):
    console = Console()
    for line in text.splitlines():
        console.add(line)
    return console


def test_results_of_parts():
    console = _console("BEGIN copies\nPART copies pass 1.5\nPART kill fail 0.2\nRESULT fail")
    assert console.results == {"copies": (True, 1.5), "kill": (False, 0.2)}
    assert console.faults(["copies"]) == ["The guest's result is fail."]
    assert console.faults(["copies", "kill", "reset"]) == [
        "The part kill failed.", "The part reset did not end.", "The guest's result is fail."]


def test_a_guest_that_stops():
    assert _console("BEGIN copies").faults(["copies"]) == [
        "The part copies did not end.", "The guest's result is missing."]


def test_bytes_of_the_peer(tmp_path):
    memory = tmp_path / "peer"
    console = _console("p2p: span 16 100 7\nPART p2p pass 1.0\nRESULT pass")
    assert console.spans == [Span(16, 100, 7)] and console.faults(["p2p"]) == []
    memory.write_bytes(bytes(16) + pattern(7, 100))
    assert console.peer_faults(memory) == []
    memory.write_bytes(bytes(16) + pattern(7, 99) + bytes(1))
    assert console.peer_faults(memory) == [
        "The peer's memory from 16 to 116 does not have the bytes that the card wrote."]
    assert _console("PART p2p pass 1.0\nRESULT pass").faults(["p2p"]) == [
        "The part p2p named no span of the peer's memory."]


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler on this machine")
def test_the_guest_has_the_same_pattern(tmp_path):
    source = ('#include <stdint.h>\n#include <stdio.h>\nstatic %s\nint main(void)\n{\n'
              '    for (int i = 0; i < 50; ++i)\n        printf("%%d ", part_pattern(1234567, i));\n}\n')
    header = (ROOT / "sim/linux/guest/part.h").read_text()
    start = header.index("inline unsigned char part_pattern")
    (tmp_path / "x.c").write_text(source % header[start:header.index("}", start) + 1])
    subprocess.run(["cc", "-o", tmp_path / "x", tmp_path / "x.c"], check=True)
    printed = subprocess.run([tmp_path / "x"], check=True, capture_output=True, text=True).stdout
    assert bytes(map(int, printed.split())) == pattern(1234567, 50)


def test_the_machine(tmp_path):
    boot = tmp_path / "kernel/boot"
    boot.mkdir(parents=True)
    (boot / "vmlinuz-6").touch()
    made = Machine(packages=Packages(tmp_path / "qemu", tmp_path / "kernel"), initrd=tmp_path / "i",
                   socket=tmp_path / "s,1", peer=tmp_path / "p,1", parts=("copies", "soak"), limit=30,
                   arguments={"soak": ("5", "2"), "kill": ()})
    assert made.kernel_options.endswith("dmace.parts=copies,soak dmace.limit=30 dmace.soak=5,2")
    command = made.command()
    devices = [value for name, value in itertools.pairwise(command) if name == "-device"]
    assert devices[0] == "intel-iommu,caching-mode=on"
    assert json.loads(devices[3])["socket"] == {"type": "unix", "path": str(tmp_path / "s,1")}
    assert any(word.endswith("p,,1") for word in command)


def test_parts_have_sources():
    for part in PARTS:
        assert part == "perf" or part_source(part).is_file(), part


def test_arguments():
    assert parse([]).parts == DEFAULT_PARTS and parse([]).limit == 360
    assert parse(["--soak", "--requests", "9"]).parts == (*DEFAULT_PARTS, "soak")
    assert parse(["--parts", "kill,copies,kill"]).parts == ("kill", "copies")
    assert parse(["--iommu", "off"]).parts == ("refused",)


@pytest.mark.parametrize("words, sentence", [
    (["--parts", "x"], r"^There is no part 'x'; the parts are copies, .*\.$"),
    (["--parts", ","], r"^There is no part ','; the parts are copies, .*\.$"),
    (["--limit", "0"], r"^A number of requests or seconds must be at least 1, not '0'\.$"),
    (["--iommu", "off", "--parts", "kill"], r"^--iommu off runs the part refused alone: .*\.$"),
    (["--bogus"], r"^Unrecognized arguments: --bogus\.$"),
    (["--level", "x"], r"^Argument --level: invalid choice: 'x' .*\.$"),
])
def test_wrong_arguments(words, sentence, capsys):
    with pytest.raises(UserError, match=sentence):
        parse(words)
    assert main(words) == 2
    assert capsys.readouterr().err.startswith("linux: ")


@pytest.mark.long
@pytest.mark.rtl
def test_copies_run_over_a_simulator_in_the_same_process(tmp_path):
    from sim.vfio.harness import build_transport

    build_part("copies", tmp_path / "copies", static=False)
    library = build_transport("tiny", "card").path
    subprocess.run([tmp_path / "copies", f"sim:{library}"], check=True, timeout=600)


@pytest.mark.long
@pytest.mark.rtl
def test_linux_drives_the_card(tmp_path):
    try:
        fetch(build_root() / "linux")
    except FetchFailed as reason:
        pytest.skip(str(reason))
    done = subprocess.run([sys.executable, "-m", "sim.linux", "--keep", tmp_path], cwd=ROOT, capture_output=True,
                          text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
