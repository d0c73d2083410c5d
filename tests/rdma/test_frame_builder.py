# SPDX-License-Identifier: Apache-2.0
"""The frames that FrameBuilder sends, compared with Scapy's byte by byte; cycles per frame."""

import random
from dataclasses import asdict, replace

import pytest

from hw.rdma.config import RdmaConfig
from hw.rdma.frames.frame_builder import FrameBuilder
from hw.rdma.frames.peer_table import OPEN_CYCLES
from hw.rdma.layouts import connection_layout, transmit_layout
from hw.rdma.protocol import Opcode
from tests.harness.cell import run_cell
from tests.harness.fields import Fields

from .scapy_frames import STATION, Peer, frame, random_packet, random_peer

LATENCY = 6


def config_of(width, **sizes):
    return RdmaConfig(**{"data_width": width, "queue_pairs": 4, "max_mtu": 1024, "buffer_beats": 512,
                         "receive_beats": 512, "response_beats": 256} | sizes)


class Bench:
    """Drives packets and collects frames; ``stalls`` are probabilities of the two sides."""

    def __init__(self, ctx, dut, rng, *, stalls=(0, 0)):
        self.ctx, self.dut, self.rng, self.stalls = ctx, dut, rng, stalls
        self.fields = Fields(transmit_layout(dut.config))
        self.peers, self.cycle = {}, 0
        self.clear()

    def clear(self):
        """Nothing was sent or received yet."""
        self.beats, self.frames, self.starts, self.ends = [], [], [], []
        self.offered, self.begins, self.frame = False, None, b""

    async def open(self, qp, peer, station=STATION):
        ctx, dut = self.ctx, self.dut
        self.peers[qp] = peer
        for name, value in station.items():
            ctx.set(getattr(dut.station, name), value)
        ctx.set(dut.connections.valid, 1)
        ctx.set(dut.connections.qp, qp)
        ctx.set(dut.connections.entry, connection_layout().const({"open": 1, **asdict(peer)}))
        await ctx.tick()
        ctx.set(dut.connections.valid, 0)
        for _ in range(OPEN_CYCLES - 1):
            await ctx.tick()

    def post(self, qp, packet, lane):
        size = self.dut.config.beat_bytes
        data = self.rng.randbytes(lane) + packet.payload
        header = {f"header.{name}": value for name, value in asdict(packet).items()
                  if name not in ("payload", "fields")}
        header |= {"header.qp": qp, "header.length": len(packet.payload), "header.lane": lane}
        count = max(1, -(-len(data) // size)) if packet.payload else 1
        for index in range(count):
            beat = data[index * size:(index + 1) * size]
            beat += self.rng.randbytes(size - len(beat))
            self.beats.append(self.fields.pack({
                **(header if index == 0 else {"header.length": self.rng.getrandbits(8)}),
                "data": int.from_bytes(beat, "little"), "first": index == 0, "last": index == count - 1}))

    async def step(self):
        ctx, dut = self.ctx, self.dut
        packets, o = dut.packets, dut.o
        if not self.offered and self.beats and self.rng.random() >= self.stalls[0]:
            self.offered = True
            ctx.set(packets.payload.as_value(), self.beats[0])
        ctx.set(packets.valid, self.offered)
        ctx.set(o.tready, self.rng.random() >= self.stalls[1])
        taken = self.offered and ctx.get(packets.ready)
        if self.offered and self.begins is None:
            self.begins = self.cycle
        if ctx.get(o.tvalid) and ctx.get(o.tready):
            keep, last = ctx.get(o.tkeep), ctx.get(o.tlast)
            if not self.frame:
                self.starts.append(self.cycle)
            count = keep.bit_count()
            assert keep == (1 << count) - 1 and (last or count == dut.config.beat_bytes) and not ctx.get(o.tuser)
            self.frame += ctx.get(o.tdata).to_bytes(dut.config.beat_bytes, "little")[:count]
            if last:
                self.frames.append(self.frame)
                self.ends.append(self.cycle)
                self.frame = b""
        await ctx.tick()
        self.cycle += 1
        if taken:
            self.beats.pop(0)
            self.offered = False

    async def drain(self, count):
        limit = self.cycle + 100 + 40 * len(self.beats) * (1 + 9 * any(self.stalls)) + 20 * count
        while len(self.frames) < count:
            assert self.cycle < limit, f"{len(self.frames)} frames of {count}"
            await self.step()
        for _ in range(20):
            await self.step()
        assert len(self.frames) == count and not self.frame and not self.beats


def _run(config, rng, body, **options):
    dut = FrameBuilder(config)

    async def testbench(ctx):
        await body(Bench(ctx, dut, rng, **options))

    run_cell(dut, testbench)


STALLS = (0.3, 0.5)


@pytest.mark.parametrize("width, count, stalls", [
    (64, 60, (0, 0)), (64, 30, STALLS), (512, 40, (0, 0)), *(
        pytest.param(width, 40, stalls, marks=[pytest.mark.long, *more]) for width, stalls, more in (
            (128, STALLS, ()), (256, STALLS, ()), (512, STALLS, ()), (1024, STALLS, ()),
            (256, (0, 0), [pytest.mark.soak]), (1024, (0, 0), [pytest.mark.soak])))])
def test_random_packets(width, count, stalls, seed):
    rng = random.Random(seed)

    async def body(bench):
        expected = []
        for qp in range(4):
            await bench.open(qp, random_peer(rng, ipv6=qp & 1, vlan=qp >> 1, **(
                {} if qp & 1 else {"peer_ip": 0xFFFF_0000_0000 | rng.getrandbits(32)})))
        for _ in range(count):
            qp, packet = rng.randrange(4), random_packet(rng, 200)
            bench.post(qp, packet, rng.randrange(width // 8) if packet.payload else 0)
            expected.append(frame(packet, bench.peers[qp], to_peer=True))
        await bench.drain(count)
        for found, wanted in zip(bench.frames, expected, strict=True):
            assert found.hex(" ", 4).split() == wanted.hex(" ", 4).split()

    _run(config_of(width), rng, body, stalls=stalls)


@pytest.mark.parametrize("width", [64, pytest.param(512, marks=pytest.mark.long)])
def test_lanes(width, seed):
    """Payload from every lane, short enough to end in the beat where it begins, or just behind it."""
    rng = random.Random(seed)
    size = width // 8

    async def body(bench):
        await bench.open(1, Peer())
        expected = []
        for lane in range(0, size, 1 if size == 8 else 9):
            for length in (1, size - lane, size - lane + 1):
                opcode = rng.choice([Opcode.WRITE_MIDDLE, Opcode.WRITE_ONLY])
                packet = random_packet(rng, 0, opcode=opcode, length=length)
                bench.post(1, packet, lane)
                expected.append(frame(packet, Peer(), to_peer=True))
        await bench.drain(len(expected))
        assert bench.frames == expected

    _run(config_of(width), rng, body)


@pytest.mark.parametrize("width, cases", [
    (512, [(Opcode.WRITE_ONLY, 64, 0, 3), (Opcode.WRITE_ONLY, 64, 31, 3), (Opcode.ACKNOWLEDGE, 0, 0, 1),
           (Opcode.WRITE_ONLY, 4096, 5, 66), (Opcode.WRITE_MIDDLE, 4096, 60, 66), (Opcode.READ_ONLY, 1024, 0, 17),
           (Opcode.READ_ONLY, 0, 63, 1)]),
    (64, [(Opcode.WRITE_ONLY, 64, 3, 18), (Opcode.ACKNOWLEDGE, 0, 0, 8)]),
], ids=["512", "64"])
def test_throughput(width, cases, seed):
    """Cycles per packet in steady state, by opcode, length and lane; all frames have IPv4 and no VLAN tag."""
    rng = random.Random(seed)

    async def body(bench):
        await bench.open(2, Peer())
        for opcode, length, lane, cycles in cases:
            count = 2 if length > 1000 else 20
            bench.clear()
            packets = [random_packet(rng, 0, opcode=opcode, length=length) for _ in range(count)]
            for packet in packets:
                bench.post(2, packet, lane)
            await bench.drain(count)
            assert bench.frames == [frame(packet, Peer(), to_peer=True) for packet in packets]
            assert bench.ends[-1] - bench.ends[0] == cycles * (count - 1)
            # The first frame begins as early as a single one.
            assert bench.starts[0] - bench.begins == LATENCY + (lane == 60)

    _run(config_of(width, max_mtu=4096, receive_beats=2048, response_beats=2048, buffer_beats=2048), rng, body)


def test_reopened(seed):
    """A queue pair that is closed keeps its peer; one that is opened again has a new one."""
    rng = random.Random(seed)
    peer, other = random_peer(rng, ipv6=1), random_peer(rng, ipv6=0, vlan=1, peer_ip=0xFFFF_0A01_0203)

    async def body(bench):
        packet = random_packet(rng, 64)
        await bench.open(3, other)
        await bench.open(3, peer)
        bench.ctx.set(bench.dut.connections.entry, connection_layout().const(asdict(other)))
        bench.ctx.set(bench.dut.connections.valid, 1)
        await bench.ctx.tick()
        bench.ctx.set(bench.dut.connections.valid, 0)
        bench.post(3, packet, 0)
        await bench.drain(1)
        await bench.open(3, replace(other, peer_qpn=7))
        bench.post(3, packet, 0)
        await bench.drain(2)
        assert bench.frames == [frame(packet, one, to_peer=True) for one in (peer, replace(other, peer_qpn=7))]

    _run(config_of(64), rng, body)
