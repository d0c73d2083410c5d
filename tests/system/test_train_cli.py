# SPDX-License-Identifier: Apache-2.0
"""``dmace train`` from the outside: tables, JSON, report, traces, and sentences for what is wrong."""

import json
import re

import pytest

from dmace.cli import main

FAST = ["--workload", "dlrm", "--nodes", "2x2"]


def test_table_and_files(tmp_path, capsys):
    files = {name: tmp_path / name for name in ("r.html", "t.json", "out.json")}
    status = main(["train", *FAST, "--layers", "--inputs", "--report", str(files["r.html"]), "--trace",
                   str(files["t.json"]), "--chakra", str(tmp_path / "run"), "--json", str(files["out.json"])])
    out, err = capsys.readouterr()
    assert status == 0, err
    assert "MLP_Top_0" in out and "links.1.bytes_per_s" in out and "has no memory traffic of its layers" in out
    result = json.loads(files["out.json"].read_text())
    rows = {row["endpoint"]: row for row in result["rows"]}
    assert list(rows) == ["noovl", "commopt", "compopt", "ace", "ideal", "base", "wide", "ultra"]
    for row in rows.values():
        assert row["seconds"] == pytest.approx(row["compute_seconds"] + row["exposed_seconds"])
        assert row["compute_seconds"] >= row["compute_alone_seconds"] * (1 - 1e-9)
        assert rows["ideal"]["step_seconds"] <= row["step_seconds"]
    assert rows["ideal"]["share_of_ideal"] == 1
    best = min(rows[name]["step_seconds"] for name in ("noovl", "commopt", "compopt"))
    assert rows["ace"]["speedup_over_best_baseline"] == best / rows["ace"]["step_seconds"]
    # 6 of 80 cores are not there for compute.
    assert rows["commopt"]["compute_seconds"] == pytest.approx(rows["ideal"]["compute_seconds"] * 80 / 74)
    assert sorted(path.name for path in tmp_path.glob("*.et")) == [f"run.{rank}.et" for rank in range(4)]
    _check_report(files["r.html"].read_text())
    _check_trace(json.loads(files["t.json"].read_text()), rows)


def _check_report(text):
    assert text.count("<svg") == 2 + 8 + 1
    assert "MLP_Top_0" in text and "links.1.latency_s" in text
    # Nothing is loaded from elsewhere.
    assert not re.search(r"""(?:src|href)=["'](?!#)|<script|@import|url\((?!#)""", text)


def _check_trace(trace, rows):
    names = {event["pid"]: event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"}
    assert list(names.values()) == list(rows)
    for pid, name in names.items():
        busy = sum(event["dur"] for event in trace["traceEvents"] if event.get("tid") == 1 and event["pid"] == pid
                   and event["ph"] == "X")
        assert busy == pytest.approx(rows[name]["compute_seconds"] * 1e6)
        begun, ended = ([event["id"] for event in trace["traceEvents"] if event["ph"] == phase and event["pid"] == pid]
                        for phase in "be")
        assert sorted(begun) == sorted(ended) and len(begun) == 2 * 9


def test_a_trace_runs_as_its_workload_does(tmp_path, capsys):
    arguments = ["--nodes", "2x2", "--endpoint", "ideal"]
    assert main(["train", "--workload", "dlrm", *arguments, "--chakra", str(tmp_path / "run"), "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["rows"][0]
    assert main(["train", "--workload", f"chakra:{tmp_path / 'run'}", *arguments, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)["rows"][0]
    assert again["seconds"] == pytest.approx(first["seconds"], rel=1e-6)


def test_a_file_of_ones_own_and_settings(tmp_path, capsys):
    path = tmp_path / "mine.csv"
    path.write_text("layer,forward_ns,weight_grad_ns,weight_grad_collective,weight_grad_bytes\n"
                    "a,1000,1000,all_reduce,1048576\n")
    seconds = {}
    for bandwidth in ("25GB/s", "50GB/s"):
        assert main(["train", "--workload", str(path), "--nodes", "8", "--endpoint", "ideal", "--steps", "1",
                     "--set", f"links.0.bytes_per_s={bandwidth}", "--set", "header_bytes=0",
                     "--set", "links.0.latency_s=0", "--json"]) == 0
        seconds[bandwidth] = json.loads(capsys.readouterr().out)["rows"][0]["seconds"]
    # A ring of 8: 2 * 7 / 8 of the bytes, half of them each way.
    assert seconds["25GB/s"] >= 2e-6 + 2 * 7 / 8 * 1048576 / 50e9
    assert seconds["25GB/s"] == pytest.approx(2e-6 + 2 * 7 / 8 * 1048576 / 50e9, rel=0.15)
    assert seconds["50GB/s"] < seconds["25GB/s"]


def test_settings_of_one_endpoint(capsys):
    assert main(["train", *FAST, "--endpoint", "ace,ideal", "--set", "ace.fsms=3", "--json"]) == 0
    inputs = json.loads(capsys.readouterr().out)["inputs"]
    assert [one["machine"]["endpoint"]["fsms"] for one in inputs] == [3, None]


@pytest.mark.parametrize("arguments, sentence", [
    (["--workload", "resnet"], r"a workload must be one of .*, not 'resnet'\."),
    (["--nodes", "4xx4"], r"--nodes must be like 8, 4x2 or 4x2x2, not '4xx4'\."),
    (["--nodes", "40x40"], r"A machine must have 2 to 1,024 ranks, not 1,600\."),
    (["--endpoint", "best"],
     r"--endpoint must name different ones of noovl, commopt, compopt, ace, ideal, base, wide, ultra, not 'best'\."),
    (["--endpoint", "ace,ace"], r"--endpoint must name different ones of .*, not 'ace,ace'\."),
    (["--steps", "0"], r"steps must be from 1 to 1,000, not 0\."),
    (["--set", "chunk"], r"--set must be NAME=VALUE, not 'chunk'\."),
    (["--set", "chunk=3"], r"there is no setting 'chunk'; there are .*"),
    (["--set", "chunk_bytes=many"], r"chunk_bytes must be like 65536, not 'many'\."),
    (["--set", "npu.clock_hz=0"], r"clock_hz of the processor must be a number from 1000 to 1e\+12, not 0\."),
    (["--set", "calibration=3"], r"there is no setting 'calibration'; there are .*calibration\.fill_cycles.*"),
    (["--set", "processor.speed=3"], r"there is no setting 'processor\.speed'; there is processor\.efficiency\."),
    (["--set", "clock_hz=none"], r"clock_hz must be like 1245000000\.0, not None\."),
    (["--set", "processor.efficiency=fast"], r"efficiency must be like 1\.0, not 'fast'\."),
    (["--set", "processor.efficiency=3"], r"the processor's efficiency must be from 1e-06 to 1, not 3\."),
    (["--set", "workload.batch=3"], r"the workload resnet50 is a table and has no settings, so not batch either\."),
    (["--endpoint", "ideal", "--set", "ace.fsms=3"], r"--set ace\.fsms: ace is not among --endpoint\."),
    (["--report", "/nowhere/r.html"], r"--report: there is no folder /nowhere\."),
    (["--report", "r.pdf"], r"--report writes HTML, so its file must end in \.html, not 'r\.pdf'\."),
    (["--workload", "chakra:/nowhere/x"], r"there is no trace /nowhere/x\.0\.et\."),
    (["--workload", "transformer", "--nodes", "8x2"], r"a model that 4 ranks share needs first dimensions .*"),
])
def test_wrong_arguments(arguments, sentence, capsys):
    assert main(["train", *arguments]) == 2
    assert re.fullmatch(f"dmace: {sentence}\n", capsys.readouterr().err)


def test_transformer(tmp_path, capsys):
    """A pipeline's stages have rows in the table, in the report and in the trace."""
    arguments = ["train", "--workload", "llama-70b", "--nodes", "2x2x2", "--steps", "1", "--endpoint", "noovl,ace",
                 *(part for setting in ("layers=4", "hidden=512", "ffn=1024", "heads=8", "sequence=256", "tp=2", "pp=2")
                   for part in ("--set", f"workload.{setting}"))]
    report, trace = tmp_path / "r.html", tmp_path / "t.json"
    assert main([*arguments, "--inputs", "--report", str(report), "--trace", str(trace)]) == 0
    out = capsys.readouterr().out
    assert "stages: share of the run" in out and "workload.micro_batches" in out
    assert re.search(r"workload\.vocabulary +│ 32000 +│ the model", out)
    assert "stage 1" in report.read_text() and "workload.zero" in report.read_text()
    events = json.loads(trace.read_text())["traceEvents"]
    threads = {(event["pid"], event["args"]["name"]) for event in events if event["name"] == "thread_name"}
    assert len({name for number, name in threads if number == 2 and re.fullmatch(r"rank \d: compute", name)}) == 2
    assert sum(event.get("cat") == "send" and event["ph"] == "b" for event in events) == 2 * 2 * 8
