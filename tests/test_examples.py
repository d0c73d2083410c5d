# SPDX-License-Identifier: Apache-2.0
"""The examples work as documented."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def train_digits():
    spec = importlib.util.spec_from_file_location("train_digits", ROOT / "examples" / "train_digits.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_ranks_learn_what_one_process_learns(train_digits):
    learned, tested = train_digits.load()
    (losses, weights), (alone, own) = (
        train_digits.train(learned, ranks, add, 300, lambda loss: None)
        for ranks, add in ((train_digits.RANKS, train_digits.golden), (1, train_digits.alone)))
    assert all((one == weights[0]).all() for one in weights)
    assert (losses != alone).any()
    assert np.allclose(losses, alone, rtol=1e-3)
    assert train_digits.accuracy(weights[0], tested) == train_digits.accuracy(own[0], tested) > 0.95


def test_gradient_is_the_slope(train_digits, seed):
    """Slope of the loss along a random direction, by differences in FP64."""
    digits = train_digits.load()[0][:16]
    digits = train_digits.Digits(digits.images.astype(np.float64), digits.labels)
    weights = train_digits.initial().astype(np.float64)
    direction = np.random.default_rng(seed).standard_normal(len(weights)) * 1e-6
    ahead, behind = (train_digits.gradient(weights + sign * direction, digits)[-1] for sign in (1, -1))
    slope = train_digits.gradient(weights, digits)[:-1] @ direction
    assert np.isclose(slope * 2, ahead - behind, rtol=1e-3, atol=1e-12)


def test_golden_run(train_digits, capsys, tmp_path):
    assert train_digits.main(["--golden", "--steps", "5", "--plot", str(tmp_path / "losses.png")]) == 0
    assert "golden model" in capsys.readouterr().out
    assert (tmp_path / "losses.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.rtl
def test_rtl_run(train_digits, capsys):
    assert train_digits.main(["--steps", "8"]) == 0
    assert "All 8 losses of RTL and golden model are equal bit for bit." in capsys.readouterr().out


@pytest.mark.parametrize("wrong, sentence", [
    (lambda sums: [*sums[:-1], sums[-1] * np.float32(1.5)], "Ranks have different weights: RTL."),
    (lambda sums: [one * np.float32(1 + 2 ** -20) for one in sums],
     "RTL and golden model differ from step 0 on."),
])
def test_wrong_sums_are_reported(train_digits, monkeypatch, capsys, wrong, sentence):
    class Hardware:
        def __init__(self, *_):
            pass

        def __enter__(self):
            return lambda buffers: wrong(train_digits.golden(buffers)), [1]

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(train_digits, "hardware", Hardware)
    assert train_digits.main(["--steps", "3"]) == 1
    assert sentence in capsys.readouterr().out


def test_wrong_options_are_reported(train_digits, capsys):
    assert train_digits.main(["--steps", "0"]) == 2
    assert capsys.readouterr().err == "train_digits: --steps must be at least 1, not 0.\n"
