# SPDX-License-Identifier: Apache-2.0
"""Paged regions: every byte in its page, and requests with missing pages."""

import cocotb
import pytest

from hw.dma_engine.words import NativeWord, RequestFlag, Status
from tests.dma_engine.bench import DOMAIN, GUARD, Bench, parameter, session_seed

pytestmark = pytest.mark.rtl

SMALL, LARGE = 64 << 10, 2 << 20
PAGES = 32
"""Entries of the page table of ``tiny``."""

SOURCE, DESTINATION = 3, 9
QUEUE = 1
AROUND = 8192
"""Bytes that are compared on each side of a page's ends."""

# Scattered over the address space, in random order.
FRAMES = (0x7_0000_0000, 0xFFFF_FFFF_FFC0_0000, 0x0000_0020_0000, 0x1_2340_0000, 0x8000_0000_0000_0000,
          0x1_2300_0000, 0x55_0000_0000, 0x44_0000_0000, 0x33_0000_0000)


class Pages(Bench):
    """Paged regions, in which only the surroundings of the pages' ends have bytes in memory."""

    async def lay_pages(self, number, size, first, frames, *, length=None, **rights):
        """A region whose pages are at ``frames``, with None for a missing page."""
        for index, frame in enumerate(frames):
            if first + index < PAGES:
                await self.define_page(first + index, frame)
            if frame is not None:
                for start in (frame - AROUND, frame + size - AROUND):
                    self.fill(start, self.rng.randbytes(2 * AROUND) if number == SOURCE
                              else bytes([GUARD]) * (2 * AROUND))
        await self.define_region(number, base=0x5A5A_5000, length=length or size * len(frames), domain=DOMAIN,
                                 paged=True, large=size == LARGE, first_page=first, **rights)

    async def copy(self, src, dst, length, flags=RequestFlag.SC):
        await self.wait_for_free_entries(QUEUE, 1)
        await self.post(QUEUE, NativeWord.copy(src=(SOURCE, src), dst=(DESTINATION, dst), length=length, flags=flags))

    def at(self, size, frames, offset, length):
        """Bytes of a region in memory, computed without the model."""
        return b"".join(self.memory.read(frames[place // size] + place % size, 1)
                        for place in range(offset, offset + length))

    def statuses(self):
        return [entry.status for entry in self.model.log]


def test_boundaries(engine):
    engine("tiny", "boundaries", size=SMALL)
    engine("tiny", "boundaries", size=LARGE)


@cocotb.test()
async def boundaries(dut):
    """Sources and destinations at each position around the ends of pages, including the first and the last byte."""
    bench, size = Pages(dut, seed=session_seed("pages")), parameter("size", 0)
    await bench.start()
    sources, destinations = FRAMES[:3], FRAMES[3:6]
    # Lower bits of a large page's entry have no meaning.
    await bench.lay_pages(SOURCE, size, 0, sources, writable=False)
    await bench.lay_pages(DESTINATION, size, PAGES - 3, [
        frame + (0x1F_0000 if size == LARGE else 0) for frame in destinations], readable=False)
    destinations = FRAMES[3:6]
    await bench.start_queues([QUEUE])
    jobs = [(0, 0, 300), (3 * size - 300, 3 * size - 300, 300)]
    for shift in range(-18, 3):
        jobs += [(size + shift, size - 200 + 3 * shift, 17), (2 * size + shift, 2 * size + 5 * shift, 16),
                 (size - 100, 2 * size - 4000 + shift, 90 - shift)]
    jobs += [(size - 700, 2 * size - 333, 1500), (2 * size - 4096, size - 4096, 8192)]
    # No jump within a large page, though a small one would end here.
    for inside in {size // 2, size - SMALL} if size == LARGE else ():
        bench.fill(sources[1] + inside - AROUND, bench.rng.randbytes(2 * AROUND))
        bench.fill(destinations[1] + inside - AROUND, bytes([GUARD]) * (2 * AROUND))
        jobs += [(size + inside - 9, size + inside - 40, 17), (size + inside - 500, size + inside, 1500)]
    for src, dst, length in jobs:
        await bench.copy(src, dst, length)
        await bench.settle(QUEUE)
        assert bench.at(size, destinations, dst, length) == bench.at(size, sources, src, length), (src, dst, length)
    assert bench.statuses() == []
    await bench.end()


def test_missing(engine):
    engine("tiny", "missing")


@cocotb.test()
async def missing(dut):
    """A missing first, middle or last page of a request, of source or destination, also with memory errors."""
    bench = Pages(dut, seed=session_seed("missing"))
    await bench.start()
    await bench.lay_pages(SOURCE, SMALL, 0, [FRAMES[0], FRAMES[1], None, FRAMES[2], FRAMES[6]], writable=False)
    await bench.lay_pages(DESTINATION, SMALL, 8, [FRAMES[3], None, FRAMES[4], FRAMES[5], FRAMES[7]], readable=False)
    await bench.start_queues([QUEUE], skip_errors=True)
    for src, dst, length, status in (
        (2 * SMALL - 1000, 2 * SMALL, 3000, Status.SRC_PAGE),           # from its middle on
        (2 * SMALL - 1, 2 * SMALL, 2, Status.SRC_PAGE),                 # its last byte
        (2 * SMALL, 2 * SMALL, 1, Status.SRC_PAGE),
        (3 * SMALL - 1, 2 * SMALL, 2, Status.SRC_PAGE),                 # its first
        (3 * SMALL, 2 * SMALL, 2, Status.OK),
        (2 * SMALL - 64, 2 * SMALL, 64, Status.OK),
        (0, SMALL - 64, 65, Status.DST_PAGE),
        (0, SMALL - 64, 64, Status.OK),
        (0, 2 * SMALL - 1, 2, Status.DST_PAGE),
        (0, 2 * SMALL, 2, Status.OK),
        (0, SMALL - 2000, 5000, Status.DST_PAGE),
        (2 * SMALL - 2000, SMALL - 100, 4000, Status.SRC_PAGE),         # the destination's is missing earlier
        (2 * SMALL - 100, SMALL - 2000, 4000, Status.SRC_PAGE),
        (SMALL + 1000, 2 * SMALL, 2 * SMALL, Status.SRC_PAGE),          # a whole page of three
    ):
        before = len(bench.model.log)
        await bench.copy(src, dst, length)
        await bench.settle(QUEUE)
        await bench.wait_log()
        found = bench.statuses()[before:]
        assert found == ([] if status is Status.OK else [status]), f"{src:#x} to {dst:#x}, {length} bytes: {found}"
    # The status of a missing page has priority over memory errors, independent of their order in the request.
    bench.fail_page(FRAMES[1] + SMALL - 4096, read="SLVERR")
    bench.fail_page(FRAMES[3] + SMALL - 4096, write="DECERR")
    before = len(bench.model.log)
    for src, dst in ((2 * SMALL - 3000, 2 * SMALL), (0, SMALL - 3000), (2 * SMALL - 4096, SMALL - 4096)):
        await bench.copy(src, dst, 6000)
        await bench.settle(QUEUE)
    assert bench.statuses()[before:] == [Status.SRC_PAGE, Status.DST_PAGE, Status.SRC_PAGE]
    await bench.end()


def test_beyond_the_table(engine):
    engine("tiny", "beyond_the_table", size=SMALL)
    engine("tiny", "beyond_the_table", size=LARGE)


@cocotb.test()
async def beyond_the_table(dut):
    """Pages beyond the last entry are missing, even if the lower bits of the number are those of an existing one."""
    bench, size = Pages(dut, seed=session_seed("beyond")), parameter("size", 0)
    await bench.start()
    for number in range(PAGES):
        await bench.define_page(number, FRAMES[8])
    length = (1 << 36) // size * size
    await bench.lay_pages(SOURCE, size, PAGES - 1, FRAMES[:1], length=length, writable=False)
    await bench.lay_pages(DESTINATION, size, PAGES - 2, FRAMES[2:4], length=length, readable=False)
    await bench.define_page(PAGES - 1, FRAMES[0])
    await bench.start_queues([QUEUE], skip_errors=True)
    for src, dst, count, status in (
        (size - 8, 0, 8, Status.OK), (size - 8, 0, 9, Status.SRC_PAGE), (size, 0, 1, Status.SRC_PAGE),
        (PAGES * size, 0, 8, Status.SRC_PAGE), (length - 8, 0, 8, Status.SRC_PAGE),
        (length - size * PAGES, 0, 8, Status.SRC_PAGE),
        (0, 2 * size - 3, 3, Status.OK), (0, 2 * size - 3, 4, Status.DST_PAGE), (0, PAGES * size, 8, Status.DST_PAGE),
        (0, length - 8, 8, Status.DST_PAGE), (0, length - size * PAGES, 8, Status.DST_PAGE),
    ):
        before = len(bench.model.log)
        await bench.copy(src, dst, count)
        await bench.settle(QUEUE)
        await bench.wait_log()
        found = bench.statuses()[before:]
        assert found == ([] if status is Status.OK else [status]), f"{src:#x} to {dst:#x}, {count} bytes: {found}"
    await bench.end()
