# SPDX-License-Identifier: Apache-2.0
"""ReceiveDispatch: by QPN, source and opcode; closed queue pairs; strobes; cycles."""

import random
from collections import Counter

import pytest

from hw.rdma.config import TINY
from hw.rdma.frames.receive_dispatch import ReceiveDispatch
from hw.rdma.layouts import receive_layout
from hw.rdma.protocol import Opcode
from tests.harness.cell import CellBench, run_cell
from tests.harness.fields import Fields

FIELDS = Fields(receive_layout(TINY))
QPS = TINY.queue_pairs


class Bench(CellBench):
    """Packets in; what leaves at ``requests`` and ``returns``, with the cycle, and the strobes with their QP."""

    def __init__(self, ctx, dut, rng, *, stalls=0):
        super().__init__(ctx, rng)
        self.dut, self.stalls, self.cycle = dut, stalls, 0
        self.got, self.strobes, self.counts = {"requests": [], "returns": []}, [], Counter()

    async def step(self):
        ctx, dut = self.ctx, self.dut
        for name, log in self.got.items():
            o = getattr(dut, name)
            self.set(o.ready, not self.chance(self.stalls))
            if ctx.get(o.valid) and ctx.get(o.ready):
                log.append((self.cycle, ctx.get(o.payload.as_value())))
        for name in ("marked", "notified"):
            if ctx.get(getattr(dut, name).valid):
                self.strobes.append((name, ctx.get(getattr(dut, name).qp)))
        for name in ("unknown", "wrong_source"):
            self.counts[name] += ctx.get(getattr(dut.counts, name))
        taken = ctx.get(dut.i.valid) and ctx.get(dut.i.ready)
        await ctx.tick()
        self.cycle += 1
        return taken

    async def write(self, qp, *, qpn, ip, is_open=1):
        self.set(self.dut.connections.valid, 1)
        self.set(self.dut.connections.qp, qp)
        for name, value in {"open": is_open, "qpn": qpn, "peer_ip": ip}.items():
            self.ctx.set(self.dut.connections.entry[name], value)
        await self.step()
        self.set(self.dut.connections.valid, 0)

    async def send(self, beats):
        for beat in beats:
            while self.chance(self.stalls):
                await self.step()
            self.set(self.dut.i.valid, 1)
            self.ctx.set(self.dut.i.payload.as_value(), beat)
            while not await self.step():
                pass
            self.set(self.dut.i.valid, 0)


def packet(rng, *, count=1, **header):
    """Beats of a packet. Headers of later beats are arbitrary."""
    beats = []
    for index in range(count):
        fields = header if index == 0 else {name: rng.getrandbits(128) for name in ("qpn", "source", "opcode", "ce")}
        beats.append(FIELDS.pack({**{f"header.{name}": value for name, value in fields.items()},
                                  "data": rng.getrandbits(64), "first": index == 0, "last": index == count - 1}))
    return beats


def _run(body, rng, **options):
    dut = ReceiveDispatch(TINY)

    async def testbench(ctx):
        bench = Bench(ctx, dut, rng, **options)
        await body(bench)
        for _ in range(40):
            await bench.step()

    run_cell(dut, testbench)


@pytest.mark.parametrize("stalls", [0, 0.4])
def test_random_packets(stalls, seed):
    rng = random.Random(seed)
    opened = {qp: (rng.getrandbits(24) & -QPS | qp, rng.getrandbits(128)) for qp in range(QPS - 2)}
    wanted, strobes, counts = {"requests": [], "returns": []}, [], Counter()

    async def body(bench):
        for qp, (qpn, ip) in opened.items():
            await bench.write(qp, qpn=qpn, ip=ip)
        await bench.write(0, qpn=opened[0][0], ip=opened[0][1], is_open=0)
        for _ in range(150):
            qp = rng.randrange(QPS)
            qpn, source = opened.get(qp, (qp, 0))
            fault = rng.choice([None, None, "qpn", "source"])
            qpn ^= (1 << rng.randrange(TINY.qp_bits, 24)) * (fault == "qpn")
            source ^= (1 << rng.randrange(128)) * (fault == "source")
            opcode, marked = rng.choice(list(Opcode)), rng.getrandbits(1)
            beats = packet(rng, count=rng.choice([1, 1, 3]), qpn=qpn, source=source, opcode=opcode, ce=marked)
            if qp not in opened or qp == 0 or fault == "qpn":
                counts["unknown"] += 1
            elif fault == "source":
                counts["wrong_source"] += 1
            elif opcode == Opcode.CNP:
                strobes.append(("notified", qp))
            else:
                at = "returns" if Opcode.READ_FIRST <= opcode <= Opcode.ACKNOWLEDGE else "requests"
                beats[0] |= FIELDS.pack({"header.qp": qp})
                wanted[at] += beats
                strobes.extend([("marked", qp)] * marked)
            await bench.send(beats)
        for _ in range(60):
            await bench.step()
        mask = ~FIELDS.mask([name for name in FIELDS.positions if name.startswith("header.")])
        for name, log in bench.got.items():
            assert len(log) == len(wanted[name])
            for (_, found), beat in zip(log, wanted[name], strict=True):
                assert found == beat or (not FIELDS.unpack(beat, "first") and found & mask == beat & mask)
        assert bench.strobes == strobes and bench.counts == counts

    _run(body, rng, stalls=stalls)


def test_cycles(seed):
    """Two cycles of latency, a packet of one beat per cycle, to alternating outputs."""
    rng = random.Random(seed)

    async def body(bench):
        await bench.write(1, qpn=1, ip=5)
        begin = bench.cycle
        for number in range(20):
            await bench.send(packet(rng, qpn=1, source=5, opcode=(Opcode.WRITE_ONLY, Opcode.ACKNOWLEDGE)[number % 2]))
        for _ in range(5):
            await bench.step()
        for first, name in enumerate(("requests", "returns")):
            assert [cycle - begin for cycle, _ in bench.got[name]] == list(range(2 + first, 22, 2))

    _run(body, rng)


def test_closed_and_reopened(seed):
    """A queue pair that is closed drops packets; opened for another peer, it drops those of the old one."""
    rng = random.Random(seed)

    async def body(bench):
        for qpn, ip, is_open in ((3, 7, 1), (3, 7, 0), (3, 8, 1), (0x83, 8, 1)):
            await bench.write(3, qpn=qpn, ip=ip, is_open=is_open)
            for source in (7, 8):
                for number in (3, 0x83):
                    await bench.send(packet(rng, qpn=number, source=source, opcode=Opcode.WRITE_ONLY))
            await bench.send(packet(rng, qpn=4, source=7, opcode=Opcode.WRITE_ONLY))
        for _ in range(4):
            await bench.step()
        found = [(FIELDS.unpack(beat, "header.source"), FIELDS.unpack(beat, "header.qpn"))
                 for _, beat in bench.got["requests"]]
        assert found == [(7, 3), (8, 3), (8, 0x83)]
        assert bench.counts == {"unknown": 3 + 5 + 3 + 3, "wrong_source": 3}

    _run(body, rng)
