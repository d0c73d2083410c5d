# SPDX-License-Identifier: Apache-2.0
"""``dmace device``, on the test double of a card, and on the simulated card."""

import json
from unittest import mock

import pytest

import dmace
from dmace.cli import main
from dmace.runtime import selftest
from dmace.runtime.device import Device
from dmace.runtime.memory import Memory
from dmace.runtime.queue import Queue

COUNT = len(selftest.CHECKS)


def test_list(capsys):
    assert main(["device", "list"]) == 0
    assert "sim:tiny" in capsys.readouterr().out


def test_info(fake_card, capsys):
    assert main(["device", "info", fake_card, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["transport"] == "fake" and found["queues"] == 8
    assert main(["device", "info", fake_card]) == 0
    assert "max copy" in capsys.readouterr().out


def test_copy(fake_card, tmp_path, capsys):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(bytes(range(256)) * 40)
    assert main(["device", "copy", fake_card, str(source), str(target)]) == 0
    assert target.read_bytes() == source.read_bytes()
    assert capsys.readouterr().out.startswith("10,240 bytes copied and compared in ")
    for arguments, sentence in (
            ((tmp_path / "none", target), f"{tmp_path / 'none'} cannot be read: No such file or directory."),
            ((source, tmp_path / "no" / "folder"), f"{tmp_path / 'no' / 'folder'} cannot be written: "
                                                   "No such file or directory.")):
        assert main(["device", "copy", fake_card, *map(str, arguments)]) == 2
        assert capsys.readouterr().err == f"dmace: {sentence}\n"
    source.write_bytes(b"")
    assert main(["device", "copy", fake_card, str(source), str(target)]) == 2
    assert "not one of 0" in capsys.readouterr().err


def test_bench(fake_card, capfd):
    assert main(["device", "bench", fake_card, "--sizes", "64,1000", "--requests", "20"]) == 0
    out = capfd.readouterr().out
    assert "Bandwidth, 1 queue" in out and "wall clock of this machine" in out
    assert main(["device", "bench", fake_card, "--sizes", "x"]) == 2


def test_stats_and_trace(fake_card, tmp_path, capsys):
    assert main(["device", "stats", fake_card, "--requests", "10", "--json"]) == 0
    assert all(isinstance(value, int) for value in json.loads(capsys.readouterr().out).values())
    assert main(["device", "trace", fake_card, "--requests", "10", "-o", str(tmp_path / "t.json")]) == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert len(events) == 21
    assert main(["device", "stats", fake_card, "--requests", "0"]) == 2


def test_library(tmp_path, capsys):
    assert main(["device", "library", "-o", str(tmp_path / "lib")]) == 0
    assert {"libdmace.h", "dmace.h", "libdmace.so", "libdmace.a", "dmace-perf"} <= {
        path.name for path in (tmp_path / "lib").iterdir()}
    (tmp_path / "file").write_text("")
    assert main(["device", "library", "-o", str(tmp_path / "file" / "lib")]) == 2


@pytest.mark.parametrize("arguments, sentence", [
    (["info", "nonsense"], "A device is named like vfio:DDDD:BB:DD.F, sim:PRESET or uart:PORT, not 'nonsense'."),
    (["info"], "device info needs NAME; see `dmace device info --help`."),
    ([], "device needs ACTION; see `dmace device --help`."),
])
def test_wrong_arguments(arguments, sentence, capsys):
    assert main(["device", *arguments]) in (1, 2)
    assert capsys.readouterr().err == f"dmace: {sentence}\n"


def test_selftest(fake_card, capsys):
    assert main(["device", "selftest", fake_card, "--seed", "1"]) == 0
    assert capsys.readouterr().out.endswith(f"{COUNT} of {COUNT} checks passed, seed 1\n")
    assert main(["device", "selftest", fake_card, "--seed", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"]


def _short_copy(copy):
    return lambda self, to, source, **options: copy(self, to, source[:-1] if len(source) > 500 else source, **options)


def _one_domain(allocate):
    return lambda self, length, **options: allocate(self, length, **options | {"domain": 0})


def _all_rights(allocate):
    return lambda self, length, **options: allocate(self, length, **options | {"readable": True, "writable": True})


def _no_release(close):
    return lambda self: None


def _other_value(signal):
    return lambda self, to, value: signal(self, to, value ^ 1)


def _wrong_stride(copy_2d):
    return lambda self, to, source, **options: copy_2d(self, to, source, **options | {"to_stride": 101})


@pytest.mark.parametrize("where, name, fault, check", [
    (Queue, "copy", _short_copy, "copies of any length and alignment"),
    (Queue, "copy_2d", _wrong_stride, "rows, with and without a descriptor ring"),
    (Queue, "signal", _other_value, "signals"),
    (Device, "allocate", _one_domain, "protection"),
    (Device, "allocate", _all_rights, "protection"),
    (Memory, "close", _no_release, "released memory"),
])
def test_selftest_finds(fake_card, where, name, fault, check):
    """A fault between test and device fails the check for it."""
    with dmace.open(fake_card) as device, mock.patch.object(where, name, fault(getattr(where, name))):
        found = {outcome.name: outcome.problem for outcome in selftest.run(device, 1)}
    assert found[check].endswith("."), found


@pytest.mark.rtl
@pytest.mark.long
def test_simulated_card(capfd, tmp_path, seed):
    """The whole simulated card passes the self-test, copies a file, and has its cycles in the benchmark."""
    assert main(["device", "selftest", "sim:tiny", "--seed", str(seed)]) == 0, capfd.readouterr().out
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(bytes(range(256)) * 100)
    assert main(["device", "copy", "sim:tiny,latency=300", str(source), str(target)]) == 0
    assert target.read_bytes() == source.read_bytes() and "simulated cycles" in capfd.readouterr().out
    assert main(["device", "bench", "sim:tiny", "--sizes", "64", "--requests", "20"]) == 0
    rows = [line.split("|") for line in capfd.readouterr().out.splitlines() if line.strip().startswith("64")]
    # Bandwidth: 128 bits per cycle, and the window of one queue; latency: 125 cycles are memory's.
    cycles = [float(row[2].split()[0]) for row in rows]
    assert 10 < cycles[0] < 100 < cycles[1] < 400
