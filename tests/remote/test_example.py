# SPDX-License-Identifier: Apache-2.0
"""examples/remote_training.py works as documented."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from sim.remote import step_times

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def remote_training():
    spec = importlib.util.spec_from_file_location("remote_training", ROOT / "examples" / "remote_training.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_double(remote_training, capsys):
    assert remote_training.main(["--double", "--steps", "3", "--batch", "8", "--last", "3"]) == 0
    output = capsys.readouterr().out
    assert all(name in output for name in remote_training.METHODS)
    assert "All losses and weights are those of one process, bit for bit." in output


def test_differences_are_found(remote_training, capsys, monkeypatch):
    def train(*arguments):
        return step_times.train(*arguments, alone=lambda graph, feeds: {
            name: np.zeros_like(feeds.get(name.removesuffix("+"), np.zeros(1, np.float32))) for name in graph.results})

    monkeypatch.setattr(remote_training, "train", train)
    assert remote_training.main(["--double", "--steps", "1"]) == 1
    assert capsys.readouterr().err == "remote_training: Step 0 differs from the same step in one process.\n"


@pytest.mark.parametrize("options, sentence", [
    (["--steps", "0"], "--steps must be at least 1, not 0."),
    (["--double", "--last", "-1"], "--last must be at least 1, not -1."),
    (["--last", "3"], "--last needs remote reads: --network ethernet or --double."),
])
def test_errors_are_sentences(remote_training, capsys, options, sentence):
    assert remote_training.main(options) == 2
    assert capsys.readouterr().err == f"remote_training: {sentence}\n"
