# SPDX-License-Identifier: Apache-2.0
"""RequesterBuffers between random bursts and a model of the transport."""

import os
from collections import Counter

import cocotb
import pytest

from hw.axi import Resp
from tests.rdma.buffers_bench import REMOTES, live_bench, simulate_buffers
from tests.rdma.remote_memory import PAGE


class _Traffic:
    """Random bursts, each to a 4 KiB page of its own."""

    def __init__(self, bench, refused):
        self.bench, self.rng, self.refused = bench, bench.rng, refused
        self.pages, self.next, self.offered, self.kind = {}, 0, 0, "writes"

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
        remote, kind = bench.remotes[rng.choice(list(REMOTES))], self.kind
        if len(bench.sources[kind].queue) > 5 or (remote.qp in bench.failed and not self._revive(remote.qp)):
            return
        burst_id, page = rng.getrandbits(config.id_width), self.page(remote)
        if page is None or burst_id in getattr(bench, kind):
            return
        self.offered, self.kind = self.offered + 1, rng.choice(("writes", "writes", "reads"))
        beat, limit = config.beat_bytes, min(PAGE, remote.length - page * PAGE)
        longest = min(PAGE, 256 * beat)
        size = rng.choice((1, beat, rng.randint(1, beat), rng.randint(1, 100), rng.randint(1, 300),
                           rng.randint(1, 1000), rng.randint(1, longest), longest))
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

    def _revive(self, qp):
        """Use a failed queue pair again once it is idle, as if it was opened again; or still while it fails."""
        bench = self.bench
        if any(burst.remote.qp == qp for burst in (*bench.writes.values(), *bench.reads.values())):
            return self.rng.random() < 0.1
        bench.failed.discard(qp)
        bench.messages.pop(qp, None)
        return True

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


LATE = {"resends": 0.4}
STALLS = {"source": 0.5, "sink": 0.4, **LATE}
FAILS = {"fails": 0.1, "resends": 0.2, "sink": 0.7}
SEEN = ("write OKAY", "write SLVERR", "write DECERR", "read OKAY", "read SLVERR", "read DECERR", "WRITE_ONLY",
        "WRITE_FIRST", "WRITE_MIDDLE", "WRITE_LAST", "writes gap", "writes end", "writes outside", "writes unknown",
        "reads end", "reads outside", "reads unknown", "sent again", "retired while offered", "failed write",
        "failed burst", "failed read")
"""Cases that must occur."""

_total = Counter()


@pytest.mark.rtl
@pytest.mark.parametrize(("name", "bursts"), [
    ("TINY", 100), ("BROAD", 80), pytest.param("SMALL", 200, marks=pytest.mark.long),
    pytest.param("SINGLE", 200, marks=pytest.mark.long)])
def test_random(simulate, name, bursts, soak):
    """Random bursts: all lanes, empty beats, refused ones, stalls on every stream."""
    simulate_buffers(simulate, name, ["random_traffic", "all_cases_occurred"],
                     RDMA_BURSTS=bursts * (20 if soak else 1))


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(options=[{}, STALLS, FAILS, {"source": 0.2, **LATE}])
async def random_traffic(dut, options):
    bench = await live_bench(dut, **options)
    traffic = _Traffic(bench, refused=0.2)
    while traffic.offered < int(os.environ["RDMA_BURSTS"]):
        traffic.offer()
        for _ in range(bench.rng.choice((0, 1, 1, 10))):
            await bench.step()
    await bench.drain()
    _total.update(bench.seen)


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def all_cases_occurred(dut):
    dut._log.info(str(_total))
    assert not [name for name in SEEN if not _total[name]]
