# SPDX-License-Identifier: Apache-2.0
"""AxCACHE, AxPROT and AxQOS at the pins: the source region's on AR, the destination region's on AW."""

import cocotb
import pytest

from tests.dma_engine.bench import DESTINATION, DESTINATION_BASE, DOMAIN, SOURCE, SOURCE_BASE, Bench, session_seed
from tests.dma_engine.jobs import Job

pytestmark = pytest.mark.rtl

# As written to the register, and as shown on the bus: allocate without Modifiable is reserved.
SETTINGS = [
    ({"cache": 0xF, "prot": 7, "qos": 15}, (0xF, 7, 15)),
    ({"cache": 0xD, "prot": 2, "qos": 8}, (0x1, 2, 8)),
    ({"cache": 0x6, "prot": 1, "qos": 1}, (0x6, 1, 1)),
    ({"cache": 0x8, "prot": 4, "qos": 4}, (0x0, 4, 4)),
    ({}, (0, 0, 0)),
]


def test_each_burst(engine):
    engine("tiny", "each_burst")


@cocotb.test()
async def each_burst(dut):
    """Requests of one and of many segments, sources within a page and across: every burst, and both of two."""
    bench = Bench(dut, seed=session_seed("attributes"))
    jobs = [Job(8, 0, 0), Job(100, 4096 - 50, 3), Job(3000, 2000, 4090)]
    words = await bench.lay_out(jobs)
    seen, check = [], bench.memory.issued
    bench.memory.issued = lambda *burst: (seen.append(burst), check(*burst))
    top = 1 << (bench.config.axi_id_width - 1)
    for index, (written, shown) in enumerate(SETTINGS):
        other_written, other_shown = SETTINGS[index - 1]
        await bench.define_region(SOURCE, base=SOURCE_BASE, length=bench._source_bytes, domain=DOMAIN,
                                  writable=False, **written)
        await bench.define_region(DESTINATION, base=DESTINATION_BASE, length=bench.model.regions[DESTINATION].length,
                                  domain=DOMAIN, readable=False, **other_written)
        seen.clear()
        await bench.run(words)
        for queue in range(bench.config.queues):
            await bench.settle(queue)
        reads = [attributes for kind, _, _, attributes in seen if kind == "read"]
        writes = [attributes for kind, number, _, attributes in seen if kind == "write" and not number & top]
        completions = [attributes for _, number, _, attributes in seen if number & top]
        assert len(reads) > len(writes) > len(jobs), f"{len(reads)} reads, {len(writes)} writes"
        assert set(reads) == {shown} and set(writes) == {other_shown} and set(completions) == {(0, 0, 0)}
    await bench.end()
