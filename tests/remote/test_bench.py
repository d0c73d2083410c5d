# SPDX-License-Identifier: Apache-2.0
"""``dmace bench remote``: cycles against their bounds, and the order of the mechanisms."""

import json

import pytest

from dmace.cli import main
from sim.rdma.wire import LINE_BYTES, frame_bytes
from sim.remote.bench import DEPTH_BYTES, depth_of
from sim.remote.bound import latency_bound, rate_bound
from sim.remote.ethernet import Ethernet

SETTING = Ethernet()


@pytest.mark.parametrize("arguments, sentence", [
    (["--sizes", "64,x"], "--sizes must be integers separated by commas, not '64,x'."),
    (["--sizes", "-1"], "--sizes must be from 0 to 16,777,216 bytes, not -1."),
    (["--sizes", "0", "--plot", "a.png"], "--plot has logarithmic axes, so --sizes must not have 0 with it."),
    (["--line-rate", "9"], "--line-rate must be more than 0 and at most the 8 bytes of a beat, not 9."),
    (["--line-latency", "0"], "--line-latency must be from 1 to 100,000, not 0."),
    (["--latency", "1"], "--latency must be from 2 to 10,000, not 1."),
    (["--loss", "0.2"], "--loss must be from 0 to 0.1, not 0.2."),
    (["--loss", "nan"], "--loss must be from 0 to 0.1, not nan."),
    (["--count", "1"], "--count must be from 2 to 1,000, not 1."),
    (["--depth", "0"], "--depth must be from 1 to 64, not 0."),
    (["--period", "0"], "--period must be from 1 to 10,000, not 0."),
    (["--plot", "a.pdf"], "--plot writes PNG, so its file must end in .png, not 'a.pdf'."),
])
def test_wrong_arguments(arguments, sentence, capsys):
    assert main(["bench", "remote", *arguments]) == 2
    assert capsys.readouterr().err == f"dmace: {sentence}\n"


def test_depth():
    assert [depth_of(size, 8) for size in (0, 64, DEPTH_BYTES // 8, DEPTH_BYTES // 4, 1 << 24)] == [8, 8, 8, 4, 2]
    assert depth_of(1 << 24, 1) == 1


def test_bounds_of_the_line():
    """Frames of 256 bytes behind 74 of headers, and 24 on the line; READ responses have 62. A flag has 8 bytes."""
    assert frame_bytes(256, write=True) == 256 + 74 and frame_bytes(256, write=False) == 256 + 62
    size, flag = 1 << 20, 8 + 74 + LINE_BYTES
    packets = size // 256
    line = rate_bound(SETTING, "static", size, 8)
    assert line == ((packets * 354 + flag) / 8, "line")
    assert rate_bound(SETTING, "dynamic", size, 8) == ((packets * 342 + 96 + 74 + LINE_BYTES + flag) / 8, "line")
    # 256 fragments of 4,096 bytes, each behind 128 bytes, which its first frame has, too.
    fragments = 256 * (16 * 354 + 128 + 74 + LINE_BYTES + flag)
    assert rate_bound(Ethernet(line_rate=4), "rpc", size, 8) == (fragments / 4, "line")
    # The receiver's memory is written twice.
    assert rate_bound(SETTING, "rpc", size, 8) == ((2 * size + 256 * 128) / 8, "bus")


def test_bounds_of_round_trips():
    """Network: twice 50 cycles and a switch. WRITEs: one memory is read, the other is written, ACK, flag."""
    way, memory = 101, 100
    flag, ack = 2 * (82 + 12) / 8 + way, 2 * (62 + 12) / 8 + way
    data = 2 * (64 + 74 + 12) / 8 + way
    static = memory + data + memory + ack + flag + memory
    assert latency_bound(SETTING, "static", 64) == (static, "round trips")
    metadata = static + 2 * 32 / 8
    request, response = 2 * (74 + 12) / 8 + way, 2 * (64 + 62 + 12) / 8 + way
    assert latency_bound(SETTING, "dynamic", 64) == (metadata + request + response + 2 * memory, "round trips")
    copy = 2 * memory + 64 / 8
    assert latency_bound(SETTING, "rpc", 64) == (2 * copy + static + 2 * 128 / 8, "round trips")
    for mechanism, chain in (("static", static + flag + memory), ("rpc", copy + static + 2 * 128 / 8)):
        assert rate_bound(SETTING, mechanism, 64, 2) == (chain / 2, "round trips")
    assert latency_bound(SETTING, "static", 0).cycles == flag + memory
    assert latency_bound(SETTING, "dynamic", 0).cycles == metadata


def test_windows_of_messages():
    """Where the line is slow to respond, each window of 8 fragments waits for a round trip."""
    far = Ethernet(line_latency=10_000)
    assert latency_bound(far, "rpc", 8 * 4096).binds == "bus"
    assert latency_bound(Ethernet(line_latency=10_000, line_rate=4), "rpc", 8 * 4096).binds == "line"
    assert latency_bound(far, "rpc", 9 * 4096).binds == "round trips"
    assert latency_bound(far, "rpc", 17 * 4096).cycles > 2 * 80_000


@pytest.mark.long
@pytest.mark.rtl
def test_figures(capsys, tmp_path):
    plot = tmp_path / "remote.png"
    assert main(["bench", "remote", "--sizes", "64,16384", "--count", "3", "--depth", "4", "--json", "-", "--plot",
                 str(plot)]) == 0
    assert plot.read_bytes().startswith(b"\x89PNG")
    result = json.loads(capsys.readouterr().out)
    for rows in (result["latencies"], result["rates"]):
        assert [(row["bytes"], row["mechanism"]) for row in rows] == [
            (size, mechanism) for size in (64, 16384) for mechanism in ("static", "dynamic", "rpc")]
        assert all(row["cycles"] >= row["bound"] for row in rows)
        for static, dynamic, rpc in (rows[:3], rows[3:]):
            assert static["cycles"] < min(dynamic["cycles"], rpc["cycles"])
