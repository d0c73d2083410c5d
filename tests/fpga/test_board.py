# SPDX-License-Identifier: Apache-2.0
"""Simulation of a board: the host's software accesses it over a UART.

The design is the board's top with its PLL and pins, as Verilog and as the netlist from Yosys. The only difference to a
real board is the faster serial line, with five cycles per bit.
"""

import json
import os
from dataclasses import asdict, replace
from functools import cache

import pytest

from dmace.runtime.device import open_transport
from dmace.runtime.errors import RequestFailed
from fpga.board import jobs
from fpga.board.host import BoardError, wait
from fpga.board.simulated import plain
from fpga.board.transport import BoardTransport
from fpga.build import board_text
from fpga.netlist import CELLS, models, netlist
from fpga.targets import TARGETS
from hw.dma_engine.words import NativeWord, RequestFlag
from sim.verilator.build import build_text

pytestmark = pytest.mark.rtl


@plain
def host_moves_bytes(board, line):
    assert board.config == TARGETS["ulx3s-85f"].designs[board.config.design]
    # Unaligned ends do not change neighbouring bytes.
    board.write_memory(0, 0x100, bytes(range(64)))
    board.write_memory(0, 0x113, b"odd")
    assert board.read_memory(0, 0x110, 9) == bytes([0x10, 0x11, 0x12, *b"odd", 0x16, 0x17, 0x18])
    assert jobs.selftest(board, seed=int(os.environ["COCOTB_RANDOM_SEED"]), copies=5) == []


@plain
def line_is_not_trusted(board, line):
    board.write_memory(0, 0, bytes(8))
    for damage in (lambda frame: frame[:6] + bytes([frame[6] ^ 4]) + frame[7:], lambda frame: frame[:-3],
                   lambda frame: b"\xa5" + frame):
        frames = []

        def spoil(frame, damage=damage, frames=frames):
            frames.append(frame)
            return damage(frame) if len(frames) == 1 else frame

        before, line.spoil = board.sent_again, spoil
        board.write_words(0x3000_0000, [before + 1])
        line.spoil = None
        assert board.sent_again == before + 1
        assert board.read_words(0x3000_0000, 1) == [before + 1]
    # A frame without a response is sent again, but executed once.
    engine = jobs.Engine(board)
    line.spoil = lambda frame: frame + frame
    assert engine.copy(0, 64, 8).name == "OK"
    line.spoil = None
    for address in (0x4000_0000, 0x0000_00FC, 0x3100_0000, 0x3000_0000 + board.config.memory):
        with pytest.raises(BoardError, match=r"^The board returned BUS_ERROR for READ at 0x[0-9a-f]{8}\.$"):
            board.read_words(address, 1)


@plain
def ring_is_measured(board, line):
    rows = jobs.bench(board, sizes=(256,), requests=12)
    assert rows[0]["cycles"] >= 12 * 256 // 8
    print(rows)


@plain
def runtime_copies(board, line):
    with open_transport("uart:simulated", BoardTransport(board)) as device:
        assert (device.info.transport, device.info.queues, device.info.vectors) == ("uart", 4, 0)
        memory = device.allocate(4096)
        data = bytes(range(200))
        memory.write(data)
        with device.queue() as queue:
            queue.copy(memory[1001:1201], memory[:200]).wait(600)
            with pytest.raises(RequestFailed, match=r"DST_BOUNDS"):
                queue.post(NativeWord.copy(src=(memory.region, 0), dst=(memory.region, 4000), length=200,
                                           flags=RequestFlag.SC | RequestFlag.RC)).wait(600)
            queue.copy(memory[2000:2200], memory[1001:1201]).wait(600)
            statistics = queue.statistics()
        assert (statistics.requests, statistics.failed) == (3, 1)
        assert memory[1000:1202].read() == b"\0" + data + b"\0" and memory[2000:2200].read() == data
    # The engine is reset when the device is closed, and again by the self-test.
    assert jobs.selftest(board, seed=int(os.environ["COCOTB_RANDOM_SEED"]), copies=2) == []


@plain
def netlist_moves_bytes(board, line):
    board.write_memory(0, 0x113, b"odd")
    assert board.read_memory(0, 0x112, 5)[1:4] == b"odd"
    assert jobs.selftest(board, seed=int(os.environ["COCOTB_RANDOM_SEED"]), copies=3) == []


@plain
def ranks_reduce(board, line):
    assert board.config == TARGETS["ulx3s-85f"].designs["ace"]
    # A length that is not a multiple of a shard.
    assert jobs.selftest(board, seed=int(os.environ["COCOTB_RANDOM_SEED"]), elements=601) == []


@plain
def endpoint_does_all(board, line):
    assert board.config == TARGETS["ulx3s-85f"].designs["endpoint"]
    messages = []
    assert jobs.selftest(board, seed=int(os.environ["COCOTB_RANDOM_SEED"]), copies=3, elements=65,
                         report=messages.append) == []
    assert [sentence.partition(" ")[2][:5] for sentence in messages[3:]] == ["puts ", "all-r"]
    # Each put has data and a completion word.
    assert wait(jobs.Engine(board).endpoint.counters())["put_packets_sent"] >= 8


@plain
def probe_holds(board, line):
    assert jobs.selftest(board) == []
    with pytest.raises(BoardError, match=r"^The board's design is probe, which has no DMA engine\.$"):
        jobs.Engine(board)
    with pytest.raises(BoardError, match=r"^The board's design is probe, which has no collectives accelerators\.$"):
        jobs.Accelerators(board)
    with pytest.raises(BoardError, match=r"^The board returned BUS_ERROR for READ at 0x10000000\.$"):
        board.read_words(0x1000_0000, 1)


@cache
def board_of(design, *, target="ulx3s-85f", synthesised=False):
    """Simulator of a board's top, and the environment of its tests."""
    config = TARGETS[target].designs[design]
    config = replace(config, baud=config.clock_hz // 5)
    text, _ = board_text(target, config)
    env = {"DMACE_BOARD": json.dumps(asdict(config))}
    if not synthesised:
        return build_text(text, name="board", cells=[CELLS]), env
    made = netlist(text, name=f"{design}-test")
    return build_text((made / "netlist.v").read_text(encoding="utf-8"), name="board", cells=models(), netlist=True), env


@pytest.mark.long
@pytest.mark.parametrize("name", ["host_moves_bytes", "line_is_not_trusted", "ring_is_measured", "runtime_copies"])
def test_dma(seed, name):
    built, env = board_of("dma")
    built.run(__name__, testcase=name, seed=seed, env=env)


@pytest.mark.long
def test_ace(seed):
    built, env = board_of("ace")
    built.run(__name__, testcase="ranks_reduce", seed=seed, env=env)


@pytest.mark.long
@pytest.mark.parametrize("name", ["endpoint_does_all", "runtime_copies"])
def test_endpoint(seed, name):
    built, env = board_of("endpoint")
    built.run(__name__, testcase=name, seed=seed, env=env)


@pytest.mark.parametrize("target", ["ulx3s-25f", pytest.param("tang-nano-9k", marks=pytest.mark.long)])
def test_probe(seed, target):
    built, env = board_of("probe", target=target)
    built.run(__name__, testcase="probe_holds", seed=seed, env=env)


@pytest.mark.synth
def test_netlist(seed):
    built, env = board_of("dma", synthesised=True)
    built.run(__name__, testcase="netlist_moves_bytes", seed=seed, env=env)
