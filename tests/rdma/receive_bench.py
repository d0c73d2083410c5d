# SPDX-License-Identifier: Apache-2.0
"""A FrameParser in Amaranth's simulator: frames in, packets, other frames and counts out."""

from collections import Counter

from hw.rdma.frames.frame_parser import FrameParser
from hw.rdma.layouts import receive_layout
from tests.harness.cell import CellBench, run_cell
from tests.harness.fields import Fields

from .scapy_frames import STATION

__all__ = ["ReceiveBench", "run_receiver"]

COUNTS = ("good", "icrc", "malformed", "dropped", "marked", "passed", "lost")


class ReceiveBench(CellBench):
    """Frames are sent as lists of beats; ``gaps`` is the probability of a cycle without one."""

    def __init__(self, ctx, dut, rng, *, gaps=0, stalls=0):
        super().__init__(ctx, rng)
        self.dut, self.gaps, self.stalls = dut, gaps, stalls
        self.fields, self.size = Fields(receive_layout(dut.config)), dut.config.beat_bytes
        self.packets, self.others, self.counts = [], [], Counter()
        self.cycle, self.ready, self.last_sent, self.appeared = 0, True, None, []
        self._packet, self._other = None, b""
        for name, value in STATION.items():
            self.set(getattr(dut.station, name), value)

    async def step(self, beat=None):
        """One cycle with ``(bytes, last, corrupt)`` or without a beat."""
        ctx, i = self.ctx, self.dut.i
        self.set(i.tvalid, beat is not None)
        if beat is not None:
            data, last, corrupt = beat
            full = data + self.rng.randbytes(self.size - len(data))
            self.set(i.tdata, int.from_bytes(full, "little"))
            self.set(i.tkeep, (1 << len(data)) - 1)
            self.set(i.tlast, last)
            self.set(i.tuser, corrupt)
            if last:
                self.last_sent = self.cycle
        received, other = self.dut.received, self.dut.other
        self.set(received.ready, self.ready and not self.chance(self.stalls))
        self.set(other.tready, self.ready and not self.chance(self.stalls))
        if ctx.get(received.valid) and ctx.get(received.ready):
            self._take(ctx.get(received.payload.as_value()))
        if ctx.get(other.tvalid) and ctx.get(other.tready):
            keep = ctx.get(other.tkeep)
            count = keep.bit_count()
            assert keep == (1 << count) - 1 and (count == self.size or ctx.get(other.tlast))
            self._other += ctx.get(other.tdata).to_bytes(self.size, "little")[:count]
            if ctx.get(other.tlast):
                self.others.append(self._other)
                self._other = b""
        for name in COUNTS:
            self.counts[name] += ctx.get(getattr(self.dut.counts, name))
        await ctx.tick()
        self.cycle += 1

    @property
    def idle(self):
        """No packet or frame is incomplete at the outputs."""
        return self._packet is None and not self._other

    def _take(self, payload):
        def field(name):
            return self.fields.unpack(payload, name)

        assert field("first") == (self._packet is None)
        if self._packet is None:
            self._packet = {name.removeprefix("header."): field(name) for name in self.fields.positions
                            if name.startswith("header.")} | {"payload": b""}
            self.appeared.append(self.cycle)
        beats = -(-self._packet["length"] // self.size)
        self._packet["payload"] += field("data").to_bytes(self.size, "little") if beats else b""
        if field("last"):
            assert len(self._packet["payload"]) == beats * self.size
            self._packet["payload"] = self._packet["payload"][:self._packet["length"]]
            self.packets.append(self._packet)
            self._packet = None

    async def send(self, frame, *, corrupt=False):
        for at in range(0, len(frame), self.size):
            while self.chance(self.gaps):
                await self.step()
            last = at + self.size >= len(frame)
            await self.step((frame[at:at + self.size], last, corrupt and last))

    async def drain(self, cycles=24):
        for _ in range(cycles):
            await self.step()
        while self.ready and (self.ctx.get(self.dut.received.valid) or self.ctx.get(self.dut.other.tvalid)):
            await self.step()


def run_receiver(config, rng, body, **options):
    """Run ``body`` on a bench and drain it; returns the bench."""
    dut = FrameParser(config)
    benches = []

    async def testbench(ctx):
        bench = ReceiveBench(ctx, dut, rng, **options)
        benches.append(bench)
        await body(bench)
        await bench.drain()
        assert bench.idle

    run_cell(dut, testbench)
    return benches[0]
