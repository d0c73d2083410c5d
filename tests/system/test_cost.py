# SPDX-License-Identifier: Apache-2.0
"""The cost of a simulation before it starts, against the transfers that are simulated."""

import re

import pytest

from dmace.cli import main
from sim.system import Machine
from sim.system.cost import MOST_TRANSFERS, TRANSFERS_PER_SECOND, spoken, transfers
from sim.system.endpoint import Endpoint
from sim.system.experiment import Experiment
from sim.system.training import train


@pytest.mark.parametrize("settings", [{}, {"fold": False}, {"chunk_bytes": 1 << 20, "message_bytes": 1 << 16}])
@pytest.mark.parametrize("name, endpoint", [("resnet50", "ace"), ("dlrm", "commopt"), ("transformer", "ideal"),
                                            ("dlrm", "base")])
def test_transfers(name, endpoint, settings, monkeypatch):
    """Shorter last chunks of collectives have fewer. A preset has chunks of its own."""
    if endpoint == "base":
        settings = {"fold": settings.get("fold", True)}
    if name == "transformer":
        settings = {"chunk_bytes": 16 << 20, "message_bytes": 4 << 20}
    experiment = Experiment(workload=name, shape=(4, 2), endpoint=endpoint, steps=1, settings=settings)
    taken, take = [], Endpoint.take
    monkeypatch.setattr(Endpoint, "take", lambda self, chunk: taken.append(1) or take(self, chunk))
    train(experiment.graph(), Machine(experiment.config()))
    assert len(taken) == pytest.approx(transfers(experiment.graph(), experiment.config()), rel=0.15)


def test_what_takes_hours_is_refused(tmp_path, capsys):
    path = tmp_path / "large.csv"
    path.write_text(f"layer,weight_grad_ns,weight_grad_collective,weight_grad_bytes\na,1,all_reduce,{10**15}\n")
    assert main(["train", "--workload", str(path)]) == 2
    assert re.fullmatch(r"dmace: this would simulate [\d,]+ transfers, about [\d,]+ hours of a core; at most "
                        r"144,000,000 are simulated\. Choose a larger message_bytes .*\n", capsys.readouterr().err)
    spec = tmp_path / "large.toml"
    spec.write_text(f'workload = "{path}"\n[vary]\nendpoint = ["ideal"]\n')
    assert main(["sweep", str(spec), "--serial", "--dry-run"]) == 2
    assert "hours of a core" in capsys.readouterr().err
    # Larger messages and chunks make it short.
    assert main(["train", "--workload", str(path), "--endpoint", "ideal", "--steps", "1", "--set",
                 "message_bytes=1TiB", "--set", "chunk_bytes=64TiB"]) == 0


def test_long_runs_say_so(tmp_path, capsys):
    spec = tmp_path / "some.toml"
    spec.write_text('workload = "dlrm"\n[vary]\nendpoint = ["ace", "ideal"]\n')
    assert main(["sweep", str(spec), "--serial", "--dry-run"]) == 0
    assert re.search(r"simulate [\d,]+ transfers, about 1 seconds of a core", capsys.readouterr().out)
    assert spoken(90 * TRANSFERS_PER_SECOND) == "about 90 seconds"
    assert spoken(MOST_TRANSFERS) == "about 60 minutes" and spoken(3 * MOST_TRANSFERS) == "about 3 hours"
