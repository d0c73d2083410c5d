# SPDX-License-Identifier: Apache-2.0
"""Event ports against the pins, and the trace and the plot made from them."""

import json
from collections import Counter, defaultdict

import cocotb
import pytest

from dmace.cli import main
from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.words import Status
from sim.dma.lifecycles import STAGES, Event, Lifecycles
from sim.dma.trace import Recorder, chrome
from tests.dma_engine.bench import SOURCE, Bench, disorder, parameter, session_seed
from tests.dma_engine.jobs import pairs
from tests.dma_engine.pins import Pins


@pytest.mark.rtl
@pytest.mark.parametrize(("config", "stalls"), [
    ("tiny", "random"), pytest.param("base", "none", marks=pytest.mark.long)])
def test_events_and_pins(engine, config, stalls):
    engine(config, "events_and_pins", stalls=stalls)


@cocotb.test()
async def events_and_pins(dut):
    """Each event matches a transfer at the pins, in the same order, or a request of the model."""
    bench = Bench(dut, seed=session_seed("events"), stalls=parameter("stalls", "none"), latency=30)
    disorder(bench.memory)
    words = await bench.lay_out(pairs(bench.config, bench.rng, 60), skip_errors=True)
    for index in bench.rng.sample(range(len(words)), 20):
        words[index] = words[index]._replace(src_region=SOURCE + 1)
    pins, recorder = Pins(bench), Recorder(bench)
    await bench.run(words)
    await bench.end()
    await bench.wait(8)

    seen = defaultdict(list)
    for event in recorder.events:
        seen[event.kind].append(event)
    top = 1 << (bench.config.axi_id_width - 1)
    # A source that crosses a page is read in two consecutive bursts of one ID.
    issued = [transfer.fields[0] for transfer in pins.seen["ar"]]
    seconds = [index for index in range(1, len(issued)) if issued[index] == issued[index - 1]
               and pins.seen["ar"][index].fields[1] % PAGE_BYTES == 0]
    assert [event.fields["tag"] for event in seen["read"]] \
        == [tag for index, tag in enumerate(issued) if index not in seconds]
    written = [transfer.fields[0] for transfer in pins.seen["aw"] if not transfer.fields[0] & top]
    assert [event.fields["tag"] for event in seen["write"]] == written
    responded = [transfer for transfer in pins.seen["b"] if not transfer.fields[0] & top]
    assert [event.fields["tag"] for event in seen["done"]] == [transfer.fields[0] for transfer in responded]
    # B, a register, the look-up of its origin, and the register of the event ports.
    assert {event.cycle - transfer.cycle
            for event, transfer in zip(seen["done"], responded, strict=True)} == {3}
    words_written = [transfer.fields[0] & (4 * bench.config.queues - 1) for transfer in pins.seen["b"]
                     if transfer.fields[0] & top]
    assert [event.fields["writer"] for event in seen["written"]] == words_written
    assert sorted(event.fields["writer"] for event in seen["word"]) == sorted(words_written)
    assert sum(event.fields["beats"] for event in seen["read"]) == len(seen["freed"]) == len(pins.seen["r"])
    for kind, channel in (("read_stall", "ar"), ("write_stall", "w")):
        assert len(seen[kind]) == pins.stalled[channel]
    for kind, attribute in (("posted", "posted"), ("ended", "count"), ("failed", "failed")):
        counted = Counter(event.fields["queue"] for event in seen[kind])
        assert [counted[queue] for queue in range(bench.config.queues)] \
            == [getattr(q, attribute) for q in bench.model.queues]
    # Exactly the scheduled segments of bad requests are rejected.
    assert len(seen["rejected"]) + len(seen["read"]) == len(seen["scheduled"]) == len(seen["retired"])
    assert len(seen["failed"]) == 20 <= len(seen["rejected"])
    assert {event.fields["status"] for event in seen["failed"]} == {Status.SRC_REGION}

    lifecycles = Lifecycles(recorder.events, bench.config.queue_bits)
    good = [word for word in words if word.src_region == SOURCE]
    assert sum(segment.bytes for segment in lifecycles.segments) == sum(word.length for word in good)
    assert lifecycles.levels[-1][1:] == (0, 0)
    assert {level[1] > 0 for level in lifecycles.levels[:-1]} >= {True}
    for segment in lifecycles.segments:
        times = [segment.at[begin] for _, begin, _ in STAGES if begin in segment.at] + [segment.at["retired"]]
        assert times == sorted(times)
    assert all(span.end > span.begin for span in lifecycles.requests + lifecycles.words)
    check_chrome(chrome(lifecycles))


def check_chrome(made):
    """Check the requirements of a trace viewer; return slices as ``(name, id) -> (begin, end)``."""
    events = json.loads(json.dumps(made))["traceEvents"]
    timed = [event for event in events if event["ph"] != "M"]
    assert [event["ts"] for event in timed] == sorted(event["ts"] for event in timed)
    slices, open_ = {}, {}
    for event in timed:
        key = (event["pid"], event.get("cat"), event.get("id"))
        if event["ph"] == "b":
            assert key not in open_
            open_[key] = event
        elif event["ph"] == "e":
            begin = open_.pop(key)
            assert key not in slices and begin["name"] == event["name"]
            slices[key] = (begin["ts"], event["ts"])
    assert not open_
    lanes = defaultdict(int)
    for event in timed:
        if event["ph"] == "X":
            assert event["ts"] >= lanes[event["pid"], event["tid"]]
            lanes[event["pid"], event["tid"]] = event["ts"] + event["dur"]
    named = {(event["pid"], event["tid"]) for event in events if event["ph"] == "M" and event["name"] == "thread_name"}
    assert {(event["pid"], event["tid"]) for event in timed if event["ph"] in "Xi"} <= named
    return slices


@pytest.mark.rtl
def test_sim_writes_trace_and_plot(tmp_path, capsys):
    (tmp_path / "data.bin").write_bytes(bytes(range(250)) * 12)
    trace, plot = tmp_path / "trace.json", tmp_path / "plot.png"
    assert main(["sim", "dma", "--config", "tiny", "--message", "500", "--queues", "3", "--input",
                 str(tmp_path / "data.bin"), "--trace", str(trace), "--plot", str(plot)]) == 0
    output = capsys.readouterr().out
    assert f"Trace: {trace}" in output and f"Plot: {plot}" in output
    made = json.loads(trace.read_text())
    slices = check_chrome(made)
    assert sum(category.endswith("requests") for _, category, _ in slices) == 6
    begins = [event for event in made["traceEvents"] if event["ph"] == "b"]
    assert sum(event["args"]["bytes"] for event in begins if event["name"] == "write") == 3000
    assert all(event["args"]["ended"] for event in begins if event["name"].endswith("requests"))
    counters = {event["name"] for event in made["traceEvents"] if event["ph"] == "C"}
    assert counters == {"segments in flight", "buffer beats reserved"}
    assert plot.read_bytes().startswith(b"\x89PNG") and len(plot.read_bytes()) > 10_000


def test_a_rejected_and_an_unfinished_segment():
    lifecycles = Lifecycles([Event(cycle, kind, fields) for cycle, kind, fields in (
        (5, "posted", {"queue": 1}),
        (5, "posted", {"queue": 1}),
        (7, "scheduled", {"queue": 1, "index": 0, "first": 1, "last": 1}),
        (8, "scheduled", {"queue": 1, "index": 1, "first": 1, "last": 1}),
        (9, "dropped", {"queue": 1}),
        (12, "rejected", {"queue": 1, "index": 0, "status": Status.DST_BOUNDS}),
        (13, "read", {"queue": 1, "index": 1, "tag": 3, "size": 99, "beats": 14}),
        (15, "retired", {"queue": 1, "index": 0}),
        (16, "failed", {"queue": 1, "status": Status.DST_BOUNDS}),
        (17, "read_stall", {}), (18, "read_stall", {}), (20, "read_stall", {}),
    )], 2)
    assert list(lifecycles.stages(lifecycles.segments[0])) == [("check, reserve", 7, 12), ("retire", 12, 15)]
    assert list(lifecycles.stages(lifecycles.segments[1])) == [("check, reserve", 8, 13)]
    assert lifecycles.stalls["read_stall"] == [[17, 18], [20, 20]] and lifecycles.levels == [(13, 1, 14)]
    made = chrome(lifecycles)
    slices = check_chrome(made)
    assert slices[2, "queue 1 segments", "segment 1"] == (8, 20)
    assert [event["name"] for event in made["traceEvents"] if event["ph"] == "i"] == ["dropped", "DST_BOUNDS"]


@pytest.mark.parametrize(("arguments", "sentence"), [
    (["--trace", "/no/such/folder/x.json"], "--trace: there is no folder /no/such/folder."),
    (["--plot", "/no/such/folder/x.png"], "--plot: there is no folder /no/such/folder."),
    (["--plot", "x.pdf"], "--plot writes PNG, so its file must end in .png, not 'x.pdf'."),
])
def test_bad_options(arguments, sentence, capsys):
    assert main(["sim", "dma", *arguments]) == 2
    assert capsys.readouterr().err == f"dmace: {sentence}\n"
