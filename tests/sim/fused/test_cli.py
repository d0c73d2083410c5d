# SPDX-License-Identifier: Apache-2.0
"""``dmace bench fused``: errors as sentences, and a whole small measurement."""

import json

import pytest

from dmace.cli import main

_SMALL = ["bench", "fused", "--bytes", "1024", "--tasks", "8", "--link-latency", "5", "--latency", "20"]


@pytest.mark.parametrize(("options", "sentence"), [
    (["--ranks", "5"], "--ranks must be from 2 to 4, not 5."),
    (["--slices", "1,x"], "--slices must be integers separated by commas, not '1,x'."),
    (["--slices", "65"], "--slices must be from 1 to 64, not 65."),
    (["--slices", "3"], "256 tasks cannot be divided among 3 slices of at most 256 tasks."),
    (["--tasks", "512", "--slices", "1"], "512 tasks cannot be divided among 1 slices of at most 256 tasks."),
    (["--bytes", "1000"], "1,000 bytes cannot be divided among 256 tasks."),
    (["--bytes", "1024"], "A slice must be a multiple of 8 bytes for each of its 8 tasks and at most 1 MiB, not 32 "
     "bytes."),
    (["--workgroups", "0"], "--workgroups must be from 1 to 1,024, not 0."),
    (["--compute", "-1"], "--compute must be from 0 to 1,000,000, not -1."),
    (["--balance", "0"], "--balance must be more than 0 and at most 100, not 0."),
    (["--balance", "nan"], "--balance must be more than 0 and at most 100, not nan."),
    (["--period", "0"], "--period must be from 1 to 1,000,000, not 0."),
    (["--link-rate", "1.5"], "--link-rate must be more than 0 and at most 1 beat per cycle, not 1.5."),
    (["--latency", "1"], "--latency must be from 2 to 10,000, not 1."),
    (["--causes", "7"], "256 tasks cannot be divided among 7 slices of at most 256 tasks."),
    (["--plot", "a.svg"], "--plot writes PNG, so its file must end in .png, not 'a.svg'."),
    (["--ranks", "4", "--slices", "32"], "Slices to be received need 96 counters of one block, and no block of the "
     "endpoint's 2 has as many left."),
    (["--operation", "gemv", "--slices", "64"], "Slices of an all-reduce need 127 counters of one block, and no block "
     "of the endpoint's 2 has as many left."),
])
def test_errors(options, sentence, capsys):
    assert main(["bench", "fused", *options]) == 2
    assert capsys.readouterr().err == f"dmace: {sentence}\n"


@pytest.mark.rtl
@pytest.mark.long
@pytest.mark.parametrize("operation", ["embedding", "gemv"])
def test_a_measurement(operation, tmp_path, capsys):
    files = [str(tmp_path / name) for name in ("result.json", "plot.png")]
    assert main([*_SMALL, "--operation", operation, "--slices", "1,4", "--causes", "4", "--json", files[0], "--plot",
                 files[1]]) == 0
    shown = capsys.readouterr().out
    assert "Causes of the excess of" in shown and "arXiv 2305.06942" in shown
    with open(files[0], encoding="utf-8") as file:
        result = json.load(file)
    assert [row["slices"] for row in result["rows"]] == [1, 4]
    assert ("last" in result["rows"][0]) == (operation == "embedding") == bool(result["orders"])
    for row in result["rows"]:
        assert row["bound"] == max(row["compute"], row["communication"])
        assert row["described"]["slices"] == row["slices"] and row["described"]["compute_cycles"] == result["compute"]
    with open(files[1], "rb") as file:
        assert file.read(4) == b"\x89PNG"
