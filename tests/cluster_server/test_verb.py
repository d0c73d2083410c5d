# SPDX-License-Identifier: Apache-2.0
"""``dmace cluster`` says what is wrong with its arguments."""

import pytest

from dmace.cli import main


@pytest.mark.parametrize("arguments, message", [
    ([], "one of the arguments --socket --descriptor is required"),
    (["--descriptor", "777"], "--descriptor must be of a socket, not 777: Bad file descriptor."),
    (["--socket", "cluster", "--nodes", "1"], "A cluster needs 2 ranks at least."),
    (["--socket", "cluster", "--nodes", "300"], "--nodes must have 1 to 128 ranks in total, not 300."),
    (["--socket", "cluster", "--link-rate", "inf"], "--link-rate must be 0 or a number of bytes per cycle, not inf."),
    (["--socket", "cluster", "--latency", "0"], "--latency must be from 1 to 100,000, not 0."),
    (["--socket", "cluster", "--memory", "257"], "--memory must be from 1 to 256, not 257."),
    (["--socket", "cluster", "--seed", "-1"], "--seed must be from 0 to"),
    (["--socket", "cluster", "--faults", "loss=2"], "loss"),
], ids=str)
def test_says_what_is_wrong(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["cluster", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error and len(error.splitlines()) == 1
    assert not (tmp_path / "cluster").exists()


def test_nowhere_to_listen(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["cluster", "--socket", "none/cluster"]) == 1
    assert "A cluster cannot listen at none/cluster: No such file or directory." in capsys.readouterr().err
