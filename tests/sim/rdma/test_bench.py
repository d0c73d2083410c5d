# SPDX-License-Identifier: Apache-2.0
"""``dmace bench rdma``: rates against their bounds, the parts of a latency, goodput over loss."""

import json

import pytest

from dmace.cli import main


@pytest.mark.parametrize("arguments, sentence", [
    (["--sizes", "64,x"], "--sizes must be integers separated by commas, not '64,x'."),
    (["--sizes", "2048"], "--sizes must be from 1 to 1,024 bytes, the longest packet, not 2048."),
    (["--loss", "2"], "--loss must be from 0 to 0.5, not 2."),
    (["--loss", "much"], "--loss must be probabilities separated by commas, not 'much'."),
    (["--line-rate", "9"], "--line-rate must be more than 0 and at most the 8 bytes of a beat, not 9."),
    (["--plot", "a.pdf"], "--plot writes PNG, so its file must end in .png, not 'a.pdf'."),
    (["--loss", "0.001,0.00001", "--lost", "11"],
     "11 lost frames at a loss of 1e-05 take 1,100,000 messages, more than 1,000,000."),
    (["--lost", "1001"], "--lost must be from 0 to 1,000, not 1,001."),
    (["--count", "10"], "--count must be from 100 to 1,000,000, not 10."),
])
def test_wrong_arguments(arguments, sentence, capsys):
    assert main(["bench", "rdma", *arguments]) == 2
    assert capsys.readouterr().err == f"dmace: {sentence}\n"


@pytest.mark.long
@pytest.mark.rtl
def test_figures(capsys, tmp_path):
    plot = tmp_path / "rdma.png"
    assert main(["bench", "rdma", "--sizes", "256", "--count", "300", "--loss", "0,0.02", "--lost", "8", "--json", "-",
                 "--plot", str(plot)]) == 0
    assert plot.read_bytes().startswith(b"\x89PNG")
    result = json.loads(capsys.readouterr().out)
    write, read = result["rates"]
    # 256 bytes behind 74 of headers, and 24 on the line; with READs, 62 of headers.
    assert (write["bound"], write["binds"]) == (354 / 8, "line") and (read["bound"], read["binds"]) == (342 / 8, "line")
    assert 0.95 < write["share"] <= 1.001 and 0.1 < read["share"] <= 1.001
    for row in result["latencies"]:
        assert row["cycles"] == pytest.approx(row["network"] + row["memory"] + row["units"], abs=0.2)
        assert row["units"] > 0
    clean, selective, lossy, repeated = result["goodput"]
    assert clean["resent"] == selective["resent"] == 0 and clean["share"] == pytest.approx(selective["share"], abs=0.02)
    assert [row["messages"] for row in result["goodput"]] == [300, 300, 400, 400]
    assert lossy["resent"] > 0 and repeated["resent"] > 0
    assert lossy["share"] < clean["share"]
