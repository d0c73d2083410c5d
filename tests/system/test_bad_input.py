# SPDX-License-Identifier: Apache-2.0
"""Input that cannot be simulated: a sentence before anything starts, and never a traceback."""

import re

import pytest

from dmace.cli import main
from hw.ace.config import AceConfig
from hw.ace.sizing import needs
from hw.errors import UserError
from sim.system import ENDPOINTS, MachineConfig
from sim.system.settings import apply
from sim.system.sweep import read_spec
from sim.system.workloads import csv_file


@pytest.mark.parametrize("name, value, sentence", [
    ("ace.sms", "-80", r"sms of the endpoint ace must be an integer from 0 to .*, not -80\."),
    ("ace.fsms", "0", r"fsms of the endpoint ace must be an integer from 1 to .*, not 0\."),
    ("ace.memory_bytes_per_s", "1e300", r"memory_bytes_per_s of the endpoint ace must be a number from 1 to 1e\+18, "
                                        r"not 1e\+300\."),
    ("ace.port_bytes", "-1", r"port_bytes of the endpoint ace must be an integer from 1 to .*, not -1\."),
    ("ace.memory_bytes_per_s", "900GB/s", r"The endpoint ace must leave some of 80 cores and of 9e\+11 bytes/s .*"),
    ("links.1.bytes_per_s", "1e-300", r"bytes_per_s of a link must be a number from 1 to 1e\+18, not 1e-300\."),
    ("links.0.latency_s", "1e300", r"latency_s of a link must be a number from 0 to 1000, not 1e\+300\."),
    ("links.0.latency_s", "-1ns", r"latency_s of a link must be a number from 0 to 1000, not -1e-09\."),
    ("npu.sms", "0", r"sms of the processor must be 1 or more, not 0\."),
    ("npu.memory_latency_s", "1e300", r"memory_latency_s of the processor must be a number from 0 to 1000, .*"),
    ("clock_hz", "1e300", r"clock_hz of a machine must be a number from 1000 to 1e\+12, not 1e\+300\."),
    ("header_bytes", "-1", r"header_bytes of a machine must be an integer from 0 to .*, not -1\."),
    ("calibration.fill_cycles", "-5", r"calibration\.fill_cycles must be from 0 to 1,000,000, not -5\."),
    ("processor.efficiency", "1e-300", r"the processor's efficiency must be from 1e-06 to 1, not 1e-300\."),
    ("chunks", "4", r"chunks is for endpoints without SRAM; .*"),
    ("memory_pool", "both", r"memory_pool must be one of shared, separate, not 'both'\."),
    ("receive_buffer_bytes", "64KiB", r"receive_buffer_bytes counts packets of an accelerator, so it needs "
                                      r"whole_packets=true and an endpoint with SRAM, not whole_packets=false and the "
                                      r"endpoint ace\."),
    ("replay_bytes", "64KiB", r"replay_bytes holds packets until a report acknowledges them, so it needs "
                              r"receive_buffer_bytes\."),
    ("bank_stalls", "true", r"bank_stalls are those of packets and of each rank in an SRAM, so they need "
                            r"whole_packets=true, fold=false and an endpoint with SRAM, not whole_packets=false, "
                            r"fold=true and the endpoint ace\."),
    ("sizes", "few", r"sizes must be one of endpoint, rule, not 'few'\."),
])
def test_settings(name, value, sentence, capsys):
    assert main(["train", "--workload", "dlrm", "--endpoint", "ace", "--set", f"{name}={value}"]) == 2
    assert re.fullmatch(f"dmace: {sentence}\n", capsys.readouterr().err)


def test_settings_that_belong_together_come_in_any_order():
    config = MachineConfig(shape=(2,))
    together = {"receive_buffer_bytes": 1 << 16, "whole_packets": True}
    made = apply(config, together)
    assert made == apply(config, dict(reversed(together.items()))) and made.receive_buffer_bytes == 1 << 16
    with pytest.raises(UserError, match=r"^receive_buffer_bytes must hold the longest packet of 256 bytes, not 100\.$"):
        apply(config, {"whole_packets": True, "receive_buffer_bytes": 100})
    with pytest.raises(UserError, match=r"^replay_bytes must hold the longest packet and 2 beats, 384 bytes, not "
                                        r"383\.$"):
        apply(config, {**together, "replay_bytes": 383})


def test_sizes_by_rule():
    """As many FSMs and slots as the links need, whatever the order of settings; the presets stay as they are built."""
    config = MachineConfig(shape=(4,), endpoint="wide")
    assert config.kind == ENDPOINTS["wide"] == MachineConfig(shape=(16,), endpoint="wide").kind
    few, many = config.with_(sizes="rule"), config.with_(sizes="rule", shape=(16,))
    assert (few.kind.fsms, few.slots) < (many.kind.fsms, many.slots)
    found = needs(AceConfig(), (4,), link_rate=1, link_latency=90, memory_latency=498, chunk_bytes=few.chunk_bytes)
    assert (few.kind.fsms, few.slots) == (found.fsms, found.slots)
    longer = {"links.0.latency_s": 10e-6}
    assert apply(few, longer).kind.fsms == apply(config, {"sizes": "rule"} | longer).kind.fsms > few.kind.fsms
    for endpoint, beat in (("ideal", 64), ("ace", 48)):
        with pytest.raises(UserError, match=r"^sizes=rule needs an endpoint with SRAM and beats of 8, 16, 32, "):
            MachineConfig(shape=(4,), endpoint=endpoint, sizes="rule", beat_bytes=beat)


def test_values_that_are_not_numbers_of_their_kind():
    with pytest.raises(UserError, match=r"^fsms of the endpoint x must be an integer from 1 to .*, not 2\.5\.$"):
        type(ENDPOINTS["ace"])(name="x", engine="sram", fsms=2.5)
    with pytest.raises(UserError, match=r"^memory_bytes_per_s of the endpoint x must be a number .*, not nan\.$"):
        type(ENDPOINTS["ace"])(name="x", engine="sram", memory_bytes_per_s=float("nan"))


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_collectives_with_a_root(collective, tmp_path, capsys):
    path = tmp_path / "rooted.csv"
    path.write_text(f"layer,forward_ns,forward_collective,forward_bytes\na,1,{collective},64\n")
    arguments = ["train", "--workload", str(path), "--nodes", "2x2", "--endpoint", "ace,ideal", "--steps", "1"]
    assert main(arguments) == 2
    assert capsys.readouterr().err == (
        f"dmace: a {collective}, as in forward of a, has a root, so one rank cannot represent all; set fold=false to "
        "simulate each rank.\n")
    assert main([*arguments, "--set", "fold=false"]) == 0


def test_byte_order_marks(tmp_path):
    table = tmp_path / "mine.csv"
    table.write_text("layer,forward_ns\na,1\n", encoding="utf-8-sig")
    assert csv_file.read(table).layers[0].name == "a"
    table.write_text("# name: mine\nlayer,forward_ns\na,1\n", encoding="utf-8-sig")
    assert csv_file.read(table).name == "mine"
    spec = tmp_path / "mine.toml"
    spec.write_text('workload = "dlrm"\n', encoding="utf-8-sig")
    assert read_spec(spec)["workload"] == "dlrm"


def test_share_of_memory(capsys):
    arguments = ["train", "--workload", "dlrm-share", "--nodes", "2", "--endpoint", "ideal", "--set"]
    assert main([*arguments, "workload.memory_percent=101"]) == 2
    assert capsys.readouterr().err == (
        "dmace: memory_percent of the workload dlrm-share must be from 1 to 100, not 101.\n")
    assert main([*arguments, "workload.memory_percent=100"]) == 0
