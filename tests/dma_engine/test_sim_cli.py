# SPDX-License-Identifier: Apache-2.0
"""``dmace sim dma`` on small files, and its messages about bad ones."""

import json

import numpy as np
import pytest

from dmace.cli import main
from hw.errors import UserError
from sim.dma import gradients

RESULT = {
    "config": "base", "seed": 1, "input": "x", "queues": 8, "message": 4096, "requests": 3, "bytes": 9000,
    "cycles": 700, "bytes_per_cycle": 12.9, "bus_bytes_per_cycle": 32, "mean_latency": 300.0,
    "worst_latency": 400, "errors": 0, "mismatches": 1, "seconds": 1.0, "waves": None,
    "first_mismatches": ["Cycle 5: message 1, 4096 bytes at 4096 of the file, is not what is at its destination."],
}


@pytest.mark.rtl
@pytest.mark.parametrize(("config", "length", "options"), [
    ("tiny", 1, []),
    ("tiny", 5000, ["--message", "333", "--queues", "3", "--stalls"]),
    pytest.param("base", 40_000, ["--message", "5000", "--stalls", "patterned"], marks=pytest.mark.long),
    pytest.param("base", 9_000, ["--message", "65", "--queues", "16"], marks=pytest.mark.long),
])
def test_a_file(config, length, options, tmp_path, seed):
    data = np.random.default_rng(seed).integers(256, size=length, dtype=np.uint8).tobytes()
    (tmp_path / "data.bin").write_bytes(data)
    status = main(["sim", "dma", "--config", config, "--input", str(tmp_path / "data.bin"), "--seed", str(seed),
                   "--json", str(tmp_path / "result.json"), *options])
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["first_mismatches"] == []
    assert status == result["mismatches"] == result["errors"] == 0
    assert result["bytes"] == length and 0 < result["bytes_per_cycle"] <= result["bus_bytes_per_cycle"]
    assert result["mean_latency"] <= result["worst_latency"] <= result["cycles"]


@pytest.mark.rtl
@pytest.mark.soak
def test_waves(tmp_path, capsys):
    (tmp_path / "data.bin").write_bytes(b"wave" * 20)
    assert main(["sim", "dma", "--config", "tiny", "--input", str(tmp_path / "data.bin"),
                 "--waves", str(tmp_path / "out.fst")]) == 0
    assert (tmp_path / "out.fst").stat().st_size > 0
    assert "Every byte arrived, and nothing else changed." in capsys.readouterr().out


@pytest.mark.parametrize("waves", [True, False])
def test_waves_are_requested(waves, tmp_path, monkeypatch):
    """Up to the builder; ``tests/sim/verilator/test_build.py`` records waves of something smaller."""
    requested = []

    class Built:
        def run(self, module, *, waves, **_):
            requested.append(waves)
            raise UserError("That is enough.")

    def build(component, *, name, waves, status):
        requested.append(waves)
        return Built()

    monkeypatch.setattr("sim.dma.checked.CheckedDma", lambda config: None)
    monkeypatch.setattr("sim.terminal.build", build)
    (tmp_path / "data.bin").write_bytes(b"wave")
    out = str(tmp_path / "out.fst")
    assert main(["sim", "dma", "--input", str(tmp_path / "data.bin"), *(["--waves", out] if waves else [])]) == 2
    assert requested == ([True, out] if waves else [False, None])


def test_default_input():
    path, pieces = gradients.make()
    sizes = gradients.layers()
    assert len(sizes) == 54 and sum(size for _, size in sizes) == 102_011_648
    assert sizes[0] == ("conv1", 37_632) and sizes[-1] == ("fc1000", 8_192_000)
    values = np.load(path)
    assert values.dtype == np.float32 and np.isfinite(values).all()
    assert values.nbytes + pieces[0] == path.stat().st_size == sum(pieces)
    assert pieces[1:] == [size // gradients.SCALE // 4 * 4 for _, size in sizes]


@pytest.fixture
def different(monkeypatch):
    """A run that finds a difference."""
    import sim.cli.simulate
    monkeypatch.setattr(sim.cli.simulate, "simulate_dma", lambda *_: RESULT)


def test_a_difference_is_reported(different, capsys):
    assert main(["sim", "dma"]) == 1
    assert RESULT["first_mismatches"][0] in capsys.readouterr().out


def test_json_to_standard_output(different, capsys):
    assert main(["sim", "dma", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == RESULT


@pytest.mark.parametrize(("arguments", "sentence"), [
    (["--message", "0"], "--message must be from 1 to 268,435,455, not 0."),
    (["--queues", "0"], "--queues must be from 1 to 16 in base, not 0."),
    (["--queues", "5", "--config", "tiny"], "--queues must be from 1 to 4 in tiny, not 5."),
    (["--config", "huge"], "--config must be one of tiny, base, wide, not 'huge'."),
    (["--input", "/no/file"], "--input: there is no file /no/file."),
    (["--input", "/"], "--input: / is not a file."),
    (["--waves", "/no/such/folder/x.fst"], "--waves: there is no folder /no/such/folder."),
])
def test_bad_options(arguments, sentence, capsys):
    assert main(["sim", "dma", *arguments]) == 2
    assert capsys.readouterr().err == f"dmace: {sentence}\n"


def test_empty_file(tmp_path, capsys):
    (tmp_path / "empty").touch()
    assert main(["sim", "dma", "--input", str(tmp_path / "empty")]) == 2
    assert capsys.readouterr().err == f"dmace: --input: {tmp_path / 'empty'} is empty.\n"
