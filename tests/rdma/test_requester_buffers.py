# SPDX-License-Identifier: Apache-2.0
"""RequesterBuffers between random bursts and a model of the transport."""

import random
from dataclasses import replace

import pytest

from hw.axi import Resp
from hw.rdma.config import TINY
from hw.rdma.requester.buffers import RequesterBuffers
from tests.harness.cell import run_cell
from tests.rdma.requester_bench import PAGE, RequesterBench

SMALL = replace(TINY, max_mtu=4096, packets=16, buffer_beats=1024)
BROAD = replace(TINY, data_width=512, max_mtu=4096, buffer_beats=128, block_beats=2)
REMOTES = {3: (1, 0x7654_3210_0000), 5: (2, 0x1_0000_0033), 15: (6, 0xFFFF_0000_0000_0000), 0: (7, 123)}
"""Number -> queue pair and virtual address of offset 0."""

MTUS = {1: 256, 2: 1024, 6: 4096, 7: 512}
SELECTIVE = {2, 7}
LENGTH = 16 * PAGE + 1234
FAR = 0x7FFF_FFFF_F000
"""Length of remote memory 15, to the last bit of an offset."""


def _run(config, body, **options):
    dut = RequesterBuffers(config)
    benches = []

    async def live(ctx):
        bench = RequesterBench(ctx, dut, config, **options)
        benches.append(bench)
        await bench.start()
        for qp, mtu in MTUS.items():
            await bench.connect(qp, mtu=min(mtu, config.max_mtu), selective=qp in SELECTIVE)
        for number, (qp, va) in REMOTES.items():
            await bench.define(number, qp=qp, va=va, length=FAR if number == 15 else LENGTH)
        await body(bench)
        await bench.drain()

    run_cell(dut, live)
    return benches[0]


class _Traffic:
    """Random bursts, each to a 4 KiB page of its own."""

    def __init__(self, bench, refused):
        self.bench, self.rng, self.refused = bench, bench.rng, refused
        self.pages, self.next = {}, 0

    def page(self, remote):
        if remote.length > PAGE << 20:
            self.next += 1
            return self.rng.choice((0, remote.length // PAGE - 4096)) + self.next % 4096
        taken = {page for number, page in self.pages.values() if number == remote.number}
        free = [page for page in range(remote.length // PAGE + 1) if page not in taken]
        return self.rng.choice(free) if free else None

    def offer(self):
        bench, rng, config = self.bench, self.rng, self.bench.config
        self.pages = {key: page for key, page in self.pages.items() if key[1] in getattr(bench, key[0])}
        remote, kind = bench.remotes[rng.choice(list(REMOTES))], rng.choice(("writes", "reads"))
        burst_id, page = rng.getrandbits(config.id_width), self.page(remote)
        if page is None or burst_id in getattr(bench, kind) or len(bench.sources[kind].queue) > 20:
            return
        beat, limit = config.beat_bytes, min(PAGE, remote.length - page * PAGE)
        longest = min(PAGE, 256 * beat)
        size = rng.choice((1, rng.randint(1, beat), rng.randint(1, 300), rng.randint(1, longest), longest))
        size = min(size, limit)
        offset = rng.choice((0, beat * rng.randrange(PAGE // beat), rng.randrange(PAGE), limit - size))
        offset = min(offset, limit - size)
        # At most 256 beats.
        size = min(size, 256 * beat - offset % beat)
        self.pages[kind, burst_id] = remote.number, page
        start = page * PAGE + offset
        if rng.random() < self.refused:
            self._refused(kind, burst_id, remote, start, size)
        elif kind == "writes":
            beats = (offset + size - 1) // beat - offset // beat + 1
            lead = rng.choice((0, 0, 0, rng.randint(0, beats)))
            trail = rng.choice((0, 0, 0, rng.randint(0, beats - lead), beats - lead))
            bench.write(burst_id, remote, start, size, lead=lead, trail=trail)
        else:
            bench.read(burst_id, remote, start, (offset + size - 1) // beat - offset // beat + 1)

    def _refused(self, kind, burst_id, remote, start, size):
        bench, rng, beat = self.bench, self.rng, self.bench.config.beat_bytes
        beats = (start + size - 1) // beat - start // beat + 1
        # An entry that was never written; one beyond the table, with the lower bits of one that is valid; beyond the
        # end of the memory; strobes with a gap.
        way = rng.choice(("unknown", "outside", "end", "gap"))
        if way in ("unknown", "outside"):
            number = 7 if way == "unknown" else remote.number + bench.config.remotes * rng.choice((1, 16, 128))
            if kind == "writes":
                bench.write(burst_id, remote, start, size, resp=Resp.DECERR, number=number)
            else:
                bench.read(burst_id, remote, start, beats, resp=Resp.DECERR, number=number)
        elif way == "end":
            end = remote.length % PAGE
            end_page = remote.length - end
            if kind == "writes":
                size = rng.randint(1, 300)
                bench.write(burst_id, remote, end_page + rng.randint(max(0, end - size + 1), end), size,
                            resp=Resp.SLVERR)
            else:
                # The last beat starts at the end of the memory, or later.
                last = -(-end // beat) + rng.choice((0, 0, 1, 5))
                beats = rng.randint(1, min(last + 1, 256))
                offset = (last - beats + 1) * beat + (rng.randrange(beat) if beats > 1 else 0)
                bench.read(burst_id, remote, end_page + offset, beats, resp=Resp.SLVERR)
        elif kind == "writes" and beats > 2:
            bench.write(burst_id, remote, start, size, gap=rng.randint(1, beats - 2), resp=Resp.SLVERR)
        self.bench.seen[f"{kind} {way}"] += 1


@pytest.mark.parametrize(("config", "bursts", "options"), [
    pytest.param(TINY, 150, {}, id="tiny"),
    pytest.param(TINY, 120, {"source": 0.5, "sink": 0.4, "resends": 0.4}, id="stalls"),
    pytest.param(SMALL, 80, {"resends": 0.3, "sink": 0.7}, id="small"),
    pytest.param(BROAD, 150, {"source": 0.8, "sink": 0.7, "resends": 0.3}, id="broad"),
])
def test_random(config, bursts, options, seed):
    async def body(bench):
        traffic = _Traffic(bench, refused=0.1)
        for _ in range(bursts):
            traffic.offer()
            for _ in range(bench.rng.choice((0, 1, 30))):
                await bench.step()

    bench = _run(config, body, rng=random.Random(f"{seed} {options}"), **options)
    print(bench.cycle, bench.seen)
    for name in ("write OKAY", "read OKAY", "WRITE_ONLY", "WRITE_FIRST", "WRITE_LAST"):
        assert bench.seen[name], name
