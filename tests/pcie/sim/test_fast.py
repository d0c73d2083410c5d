# SPDX-License-Identifier: Apache-2.0
"""The fast path for PCIe: random runs end without a finding, planted errors are found, and its figures are possible."""

import json
from functools import cache

import pytest

from dmace.cli import main
from hw.dma_engine.words import Status
from sim.cpp import HarnessFailed
from sim.pcie.bench_rows import throughput_row
from sim.pcie.dma_card import preset_sizes, small_dma
from sim.pcie.fast import Plant, build_card
from sim.pcie.fast.header import card_header

WIDTH = 128

card = cache(build_card)


@pytest.mark.parametrize("width", [128, 256, 512])
def test_fields_are_those_of_the_pins(width):
    text = card_header(small_dma(width)[1])
    wide = width == 512
    assert f"constexpr unsigned kDataWidth = {width};" in text
    rq, rc = (text.partition(f"namespace {name} {{")[2].partition("\n}\n")[0] for name in ("rq_user", "rc_user"))
    assert ("constexpr Field first_be_1{4, 4};" in rq, "constexpr Field first_be_1{0, 0};" in rq) == (wide, not wide)
    # The first beat is marked only where a beat has one TLP.
    assert ("constexpr Field first{32, 1};" in rc, "constexpr Field starts{64, 4};" in rc) == (not wide, wide)


@pytest.mark.long
@pytest.mark.rtl
def test_random_copies(seed):
    result = card(*small_dma(WIDTH)).soak(requests=6000, resets=4, seed=seed % 100_000)
    print(result)
    assert result["ended"] + result["cut_off"] == result["requests"] >= 6000
    assert (result["function_resets"], result["link_failures"]) == (2, 2)
    # Every kind of failure.
    assert {Status(int(number)) for number in result["failures"]} >= {
        Status.MALFORMED, Status.SRC_DOMAIN, Status.DST_DOMAIN, Status.SRC_BOUNDS, Status.READ_SLVERR,
        Status.READ_DECERR}
    assert all(result["faults"][name] for name in ("unsupported", "aborted", "poisoned"))
    assert result["bytes"] > 300 * result["ended"]


@pytest.mark.soak
@pytest.mark.rtl
@pytest.mark.parametrize("start", [12, 3])
def test_random_copies_of_the_largest_card(start):
    """Seeds under which reads of one burst were once delivered in the wrong order, with 32 tags in use."""
    result = card(*preset_sizes("wide")).soak(requests=16_000, resets=0, seed=start)
    assert result["ended"] == result["requests"] >= 16_000


@pytest.mark.long
@pytest.mark.rtl
@pytest.mark.parametrize(("plant", "sentence"), [
    (Plant.WRONG_BYTE, r"RQ, memory write of .*: its bytes must be those of the request's source\."),
    (Plant.LOST_TAG, r"The card does not use these tags any more: [\d, ]+\."),
    (Plant.MISSING_COMPLETION, r"[SR]C of queue \d+ with count \d+, \d+ failed, status 0x14: the status must be 0x0\."),
    (Plant.MISSING_WORD, r"No request has completed for \d+ cycles\. Queue \d+ has completed \d+ of \d+ requests, SC"),
], ids=lambda value: value.name if isinstance(value, Plant) else "")
def test_planted_errors_are_found(plant, sentence):
    with pytest.raises(HarnessFailed, match=rf"^The card is wrong under the fast path for PCIe: {sentence}"):
        card(*small_dma(WIDTH)).soak(requests=4000, seed=2, plant=plant)


@pytest.mark.long
@pytest.mark.rtl
def test_same_seed_same_run():
    first, again, other = (card(*small_dma(WIDTH)).soak(requests=2000, resets=1, seed=seed) for seed in (5, 5, 6))
    assert {**first, "seconds": 0} == {**again, "seconds": 0}
    assert first["cycles"] != other["cycles"]


@pytest.mark.long
@pytest.mark.rtl
def test_bench_is_within_the_bound():
    engine, adapter = small_dma(WIDTH)
    harness = card(engine, adapter)
    measured = harness.bench(sizes=[64, 4096], queues=[1, 4], latency_ns=300, window=20_000)
    for row in measured["throughput"]:
        shown = throughput_row(
            adapter, queues=row["queues"], size=row["bytes"], requests=row["requests"], cycles=row["cycles"],
            rq_busy=row["rq_busy"], link_bytes=harness.link_bytes, max_payload=512, max_read=512,
            round_trip=measured["latencies"][0]["memory"])
        assert 0.1 < shown["share"] <= 1.01 and row["rq_busy"] <= 1
    for row in measured["latencies"]:
        assert row["rc_there"] > row["link_in"] + row["read"] + row["memory"] + row["data"]
        assert row["memory"] > 300 / 4


@pytest.mark.long
@pytest.mark.rtl
def test_soak_verb(tmp_path, capsys):
    out = tmp_path / "result"
    assert main(["soak", "pcie", "--width", f"{WIDTH}", "--requests", "2000", "--resets", "2", "--json", str(out)]) == 0
    assert "no tag was lost" in capsys.readouterr().out
    result = json.loads(out.read_text())
    assert (result["width"], result["seed"], result["link_failures"]) == (WIDTH, 1, 1)


@pytest.mark.parametrize(("options", "sentence"), [
    (["--width", "64"], "--width must be 128, 256 or 512, not 64."),
    (["--width", "512", "--config", "wide"], "soak pcie takes --width or --config, not both."),
    (["--requests", "0"], "--requests must be from 1 to 1,000,000,000, not 0."),
    (["--resets", "-1"], "--resets must be from 0 to 1,000,000, not -1."),
])
def test_wrong_options_of_soak(options, sentence, capsys):
    assert main(["soak", "pcie", *options]) == 2
    assert capsys.readouterr().err == f"dmace: {sentence}\n"
