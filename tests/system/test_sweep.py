# SPDX-License-Identifier: Apache-2.0
"""Sweeps: which runs, what is stored, the same results with and without Dask, and wrong specs."""

import csv
import json
import re
import sys

import pytest

from dmace.cli import main
from hw.errors import UserError
from sim.system.experiment import Experiment
from sim.system.sweep import Store, experiments_of, read_spec, run_all

SPEC = """
workload = "dlrm"
nodes = "2"
steps = 1
[settings]
order = "fifo"
[vary]
endpoint = ["ace", "ideal"]
"ace.fsms" = [2, 4]
[vary.links.0]
bytes_per_s = ["25GB/s", "100GB/s"]
"""


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "one.toml"
    path.write_text(SPEC)
    return path


def test_each_combination_once(spec):
    """FSMs of ACE are none of Ideal's, so Ideal has half as many."""
    pairs = experiments_of(read_spec(spec))
    assert len(pairs) == 4 + 2
    assert all(experiment.settings["order"] == "fifo" and experiment.shape == (2,) for experiment, _ in pairs)
    assert pairs[0][1] == {"endpoint": "ace", "ace.fsms": 2, "links.0.bytes_per_s": 25 * 10**9}
    assert pairs[-1][1] == {"endpoint": "ideal", "links.0.bytes_per_s": 100 * 10**9}


def test_keys_depend_on_all_that_the_result_does(tmp_path):
    base = Experiment(workload="dlrm", shape=(4,), endpoint="ace")
    path = tmp_path / "w.csv"
    keys = {base.key(), Experiment(workload="dlrm", shape=(2, 2), endpoint="ace").key(),
            Experiment(workload="dlrm", shape=(4,), endpoint="ideal").key(),
            Experiment(workload="dlrm", shape=(4,), endpoint="ace", steps=3).key(),
            Experiment(workload="dlrm", shape=(4,), endpoint="ace", settings={"endpoint.fsms": 8}).key(),
            Experiment(workload="dlrm", shape=(4,), endpoint="ace", settings={"processor.efficiency": 0.5}).key()}
    for nanoseconds in (1, 2):
        path.write_text(f"layer,forward_ns\na,{nanoseconds}\n")
        keys.add(Experiment(workload=str(path), shape=(4,)).key())
    assert len(keys) == 8
    assert Experiment(workload="dlrm", shape=(4,), endpoint="ace").key() == base.key()


def test_continues_where_it_stopped(spec, tmp_path, monkeypatch):
    """Stored results are not run again; one that is damaged is."""
    keyed = {experiment.key(): experiment for experiment, _ in experiments_of(read_spec(spec))}
    store, ran, reported = Store(tmp_path / "results"), [], []
    run = Experiment.run
    monkeypatch.setattr(Experiment, "run", lambda self: ran.append(self) or run(self))
    first = dict(list(keyed.items())[:2])
    run_all(first, store, serial=True)
    assert len(ran) == 2
    results = run_all(keyed, store, serial=True, progress=lambda done, total: reported.append((done, total)))
    assert len(ran) == 6 and reported == [(number, 6) for number in range(2, 7)]
    key = next(iter(keyed))
    (tmp_path / "results" / f"{key}.json").write_text('{"row": ')
    assert run_all(keyed, store, serial=True) == results
    assert len(ran) == 7 and not list((tmp_path / "results").glob(".*"))


def test_serial_and_dask_give_the_same(spec, tmp_path, capsys):
    tables = []
    for number, options in enumerate((["--serial"], ["--workers", "1"])):
        output = tmp_path / f"{number}.csv"
        options += ["--results", str(tmp_path / str(number)), "--output", str(output)]
        assert main(["sweep", str(spec), *options]) == 0
        tables.append(list(csv.DictReader(output.read_text().splitlines())))
    assert "6 runs, 0 of them stored before" in capsys.readouterr().out
    assert tables[0] == tables[1] and len(tables[0]) == 6
    times = {(row["endpoint"], row["links.0.bytes_per_s"]): float(row["step_seconds"]) for row in tables[0]}
    assert times["ideal", "100000000000"] < times["ideal", "25000000000"]


def test_parquet_and_report(spec, tmp_path, capsys):
    from pyarrow import parquet

    arguments = ["sweep", str(spec), "--serial"]
    assert main([*arguments, "--dry-run"]) == 0
    assert "6 runs, of which 0 are stored in" in capsys.readouterr().out.replace("\n", " ")
    assert main([*arguments, "--output", str(tmp_path / "t.parquet"), "--report", str(tmp_path / "r.html")]) == 0
    table = parquet.read_table(tmp_path / "t.parquet").to_pydict()
    assert table["ace.fsms"] == [2, 2, 4, 4, None, None] and len(table["step_seconds"]) == 6
    report = (tmp_path / "r.html").read_text()
    assert "iteration, us" in report and "network rate of a rank, GB/s" in report and "step_seconds" not in report
    assert "Over ace.fsms" in report and "Over links.0.bytes_per_s" in report and report.count("<svg") == 6
    assert len(list((tmp_path / "one.results").glob("*.json"))) == 6


def test_a_run_that_fails_does_not_stop_the_others(tmp_path, capsys, monkeypatch):
    path = tmp_path / "two.toml"
    path.write_text('workload = "dlrm"\nnodes = "2"\n[vary]\nendpoint = ["ace", "ideal"]\n')
    run = Experiment.run

    def fails(self):
        if self.endpoint == "ace":
            raise UserError("it cannot.")
        return run(self)

    monkeypatch.setattr(Experiment, "run", fails)
    assert main(["sweep", str(path), "--serial"]) == 1
    out = capsys.readouterr().out
    assert "two.toml: 1 runs" in out and "Failed: dlrm on ace with {}: it cannot." in out
    stored, = (tmp_path / "two.results").glob("*.json")
    assert json.loads(stored.read_text())["row"]["endpoint"] == "ideal"


@pytest.mark.parametrize("text, sentence", [
    ("workload = ", r"the sweep .* is not valid TOML: .*"),
    ("colour = 3\n", r"the sweep .* has a key 'colour'; it can have endpoint, nodes, settings, .*"),
    ("vary = 3\n", r"vary of the sweep .* must be a table, not 3\."),
    ("[vary]\nnodes = 4\n", r"nodes in vary of the sweep .* must be a list of values, not 4\."),
    ("[vary]\nendpoint = ['best']\n", r"endpoint must be one of .*, not 'best'\."),
    ("[vary]\nspeed = [3]\n", r"there is no setting 'speed'; there are .*"),
    ("[vary]\n" + "".join(f"a{number} = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n" for number in range(6)),
     r"a sweep can have 100,000 combinations, not 1,000,000\."),
])
def test_wrong_specs(tmp_path, capsys, text, sentence):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    assert main(["sweep", str(path), "--serial"]) == 2
    assert re.fullmatch(f"dmace: {sentence}\n", capsys.readouterr().err)


@pytest.mark.parametrize("arguments, sentence", [
    (["--serial", "--workers", "2"],
     r"--serial runs in this process, so it cannot be combined with --scheduler or --workers\."),
    (["--scheduler", "tcp://h:1", "--workers", "2"], r"--workers belong to a cluster on this machine, .*"),
    (["--scheduler", "nowhere"], r"--scheduler must be an address like tcp://HOST:8786, not 'nowhere'\."),
    (["--plot", "p.pdf"], r"--plot writes PNG, so its file must end in \.png, not 'p\.pdf'\."),
    (["--workers", "0"], r"--workers must be from 1 to 1,024, not 0\."),
    (["--output", "t.xls"], r"--output writes CSV or Parquet, so its file must end in \.csv or \.parquet, .*"),
])
def test_wrong_arguments(spec, capsys, arguments, sentence):
    assert main(["sweep", str(spec), *arguments]) == 2
    assert re.fullmatch(f"dmace: {sentence}\n", capsys.readouterr().err)


def test_no_file(capsys):
    assert main(["sweep", "missing.toml"]) == 2
    assert capsys.readouterr().err == "dmace: the sweep missing.toml cannot be read: No such file or directory.\n"


def test_without_dask_there_is_a_sentence(spec, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main(["sweep", str(spec)]) == 2
    assert capsys.readouterr().err.strip() == (
        "dmace: a sweep on several cores or machines needs the Python package distributed; run "
        "`pip install -e '.[sweep]'` in the checkout, or use --serial.")


def test_plot_over_ranks(tmp_path, capsys):
    path, plot = tmp_path / "three.toml", tmp_path / "p.png"
    path.write_text('workload = "dlrm"\nsteps = 1\n[vary]\nnodes = ["2", "4"]\n'
                    'endpoint = ["compopt", "ace", "ideal"]\n')
    report = tmp_path / "r.html"
    assert main(["sweep", str(path), "--serial", "--plot", str(plot), "--report", str(report)]) == 0
    assert plot.read_bytes().startswith(b"\x89PNG") and "ACE over the best baseline" in capsys.readouterr().out
    assert "Over ranks" in report.read_text()
    path.write_text('workload = "dlrm"\nsteps = 1\nnodes = "2"\n[vary]\nendpoint = ["ace", "ideal"]\n')
    assert main(["sweep", str(path), "--serial", "--plot", str(plot)]) == 2
    assert capsys.readouterr().err.strip() == (
        "dmace: --plot needs runs of ideal on several nodes; there are none.")


@pytest.mark.soak
def test_any_scheduler(spec, tmp_path, capsys):
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        assert main(["sweep", str(spec), "--scheduler", cluster.scheduler_address]) == 0
    assert "6 runs, 0 of them stored before" in capsys.readouterr().out
