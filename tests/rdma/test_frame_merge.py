# SPDX-License-Identifier: Apache-2.0
import random

import pytest

from hw.rdma.config import TINY
from hw.rdma.frames.frame_merge import FrameMerge
from tests.harness.cell import run_cell

FRAMES = 60


def _sender(port, frames, rng, stalls):
    async def send(ctx):
        for frame in frames:
            while rng.random() < stalls:
                await ctx.tick()
            for index, data in enumerate(frame):
                last = index == len(frame) - 1
                for signal, value in ((port.tvalid, 1), (port.tdata, data), (port.tkeep, 0x0F if last else 0xFF),
                                      (port.tlast, last), (port.tuser, data & 1 and last)):
                    ctx.set(signal, value)
                await ctx.tick().until(port.tready)
            ctx.set(port.tvalid, 0)

    return send


def _run(frames, rng, *, sender_stalls=0.0, receiver_stalls=0.0):
    """Frames as they leave, each beat as (cycle, data, keep, user)."""
    dut, got, count = FrameMerge(TINY), [], sum(len(each) for each in frames)

    async def receive(ctx):
        frame, cycle, held = [], 0, None
        while len(got) < count:
            ready = rng.random() >= receiver_stalls
            ctx.set(dut.o.tready, ready)
            _, _, valid, data, keep, last, user = await ctx.tick().sample(
                dut.o.tvalid, dut.o.tdata, dut.o.tkeep, dut.o.tlast, dut.o.tuser)
            assert held is None or (valid and held == (data, keep, last, user)), "A beat on offer has changed."
            held = (data, keep, last, user) if valid and not ready else None
            if valid and ready:
                frame.append((cycle, data, keep, user))
                if last:
                    got.append(frame)
                    frame = []
            cycle += 1

    run_cell(dut, receive, *(_sender(port, each, rng, sender_stalls)
                             for port, each in zip(dut.i, frames, strict=True)))
    return got


def _frames(rng, source):
    return [[source << 56 | number << 16 | beat << 1 | rng.getrandbits(1) for beat in range(rng.randint(1, 4))]
            for number in range(FRAMES)]


@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.6, 0.4)])
def test_frames_stay_whole_and_in_order(stalls, seed):
    rng = random.Random(seed)
    frames = [_frames(rng, source) for source in range(2)]
    got = _run(frames, rng, sender_stalls=stalls[0], receiver_stalls=stalls[1])
    for source in range(2):
        mine = [frame for frame in got if frame[0][1] >> 56 == source]
        assert [[data for _, data, _, _ in frame] for frame in mine] == frames[source]
        for frame in mine:
            assert [keep for _, _, keep, _ in frame] == [0xFF] * (len(frame) - 1) + [0x0F]
            assert [user for *_, user in frame] == [0] * (len(frame) - 1) + [frame[-1][1] & 1]


def test_sources_take_turns_without_gaps():
    rng = random.Random(1)
    got = _run([_frames(rng, source) for source in range(2)], rng)
    order = [frame[0][1] >> 56 for frame in got]
    assert order == [0, 1] * FRAMES
    cycles = [cycle for frame in got for cycle, *_ in frame]
    assert cycles == list(range(cycles[0], cycles[0] + len(cycles)))
