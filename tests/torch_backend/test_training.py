# SPDX-License-Identifier: Apache-2.0
"""Training with PyTorch: the same bits in every run, with every size of buckets, and with lost packets."""

import json
import os
import subprocess
import sys

import pytest

from tests.torch_backend.processes import ROOT, run_all, run_killed

torch = pytest.importorskip("torch", reason="scripts/setup.sh torch installs PyTorch")
pytestmark = [pytest.mark.rtl, pytest.mark.long]

RING = ("--nodes", "4", "--memory", "16")
LOSSY = (*RING, "--faults", "loss=0.01")
LOSSIER = (*RING, "--faults", "loss=0.05")
EACH_PARAMETER = 1e-6
"""Megabytes of a bucket that has one parameter."""
SIZES = (1, 0.004, EACH_PARAMETER)
"""Megabytes; the default is 25, and the transformer has 0.04."""


def same_but_for_rounding(found, expected):
    assert found["losses"] != [] and [float.fromhex(loss) for loss in found["losses"]] == pytest.approx(
        [float.fromhex(loss) for loss in expected["losses"]], rel=1e-5)


def test_transformer(clusters):
    path, lossy, lossier = clusters(*RING), clusters(*LOSSY), clusters(*LOSSIER)
    variants = [{"path": path}, {"path": path}, *({"path": path, "bucket_mb": size} for size in SIZES),
                {"path": lossy}, {"path": lossier}, {"name": "gloo"}, {"path": path, "fsdp": True},
                {"path": lossier, "fsdp": True}]
    for rank in run_all([("training.transformer", one) for one in variants]):
        first, *others, gloo, sharded, sharded_lossy = rank
        assert [one == first for one in others] == [True] * 6
        assert sharded == sharded_lossy
        same_but_for_rounding(first, gloo)
        same_but_for_rounding(sharded, gloo)


def test_order_matters_without_rank_order(clusters):
    """The check above can fail: without rank order, sizes of buckets change the bits."""
    path = clusters(*RING)
    variants = [{"path": path, "order": False, "bucket_mb": size} for size in (25, EACH_PARAMETER)]
    one, other = run_all([("training.transformer", variant) for variant in variants])[0]
    assert one["digest"] != other["digest"]


def test_digits(clusters):
    pytest.importorskip("sklearn")
    path, lossier = clusters(*RING), clusters(*LOSSIER)
    variants = [{"path": path}, {"path": path, "bucket_mb": EACH_PARAMETER}, {"path": lossier}, {"name": "gloo"},
                {"path": path, "fsdp": True}, {"path": lossier, "fsdp": True}]
    for first, small, lossy, gloo, sharded, sharded_lossy in run_all([("training.digits", one) for one in variants]):
        assert first == small == lossy and sharded == sharded_lossy
        same_but_for_rounding(first, gloo)
        same_but_for_rounding(sharded, gloo)


@pytest.mark.soak
def test_eight_ranks(clusters):
    """As :func:`test_transformer` and :func:`test_digits`, on a ring of eight."""
    ring = ("--nodes", "8", "--memory", "16")
    path, lossier = clusters(*ring), clusters(*ring, "--faults", "loss=0.05")
    variants = [{"path": path}, {"path": path, "bucket_mb": EACH_PARAMETER}, {"path": lossier}, {"name": "gloo"},
                {"path": path, "fsdp": True}, {"path": lossier, "fsdp": True}]
    for name in ("transformer", "digits"):
        every = run_all([(f"training.{name}", one) for one in variants], 8, limit=3600)
        for first, small, lossy, gloo, sharded, sharded_lossy in every:
            assert first == small == lossy and sharded == sharded_lossy
            same_but_for_rounding(first, gloo)
            same_but_for_rounding(sharded, gloo)


def test_killed_rank():
    """Rank 0, which has started the cluster, during the backward pass."""
    for one in run_killed("training.killed", 0, after=0.5)[1:]:
        assert "Rank 0 has ended without leaving the cluster." in one["error"]
        assert one["seconds"] < 20


def test_killed_ranks(clusters, seed):
    from tests.torch_backend.kills import START, TIMEOUT

    command = [sys.executable, "-m", "tests.torch_backend.kills", clusters(*RING), "4", "3", str(seed)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT, timeout=300,
                            env={**os.environ, "OMP_NUM_THREADS": "1"}).stdout
    for one in json.loads(output):
        assert one["hung"] == [] and len(one["others"]) == 3, one
        for error, seconds in one["others"]:
            assert error and seconds < START + TIMEOUT, one


def test_exception_of_a_rank():
    found = run_killed("training.raises", 1)
    assert [one for rank, one in enumerate(found) if rank != 1] == [
        "Rank 1 has ended without leaving the cluster."] * 3


def test_example_with_torchrun(tmp_path):
    """The example by ``torchrun``, which starts its own cluster, and by itself."""
    example = ROOT / "examples" / "torch_characters.py"
    found = []
    for command in (("-m", "torch.distributed.run", "--nproc-per-node=4", "--rdzv-backend=c10d",
                     "--rdzv-endpoint=localhost:0"), ()):
        subprocess.run([sys.executable, *command, str(example), "--steps=1", f"--json={tmp_path / 'result'}"],
                       check=True, stdout=subprocess.DEVNULL, cwd=ROOT, timeout=150,
                       env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)})
        found.append(json.loads((tmp_path / "result").read_text()))
    assert found[0] == found[1] and len(found[0]["losses"]) == 1
