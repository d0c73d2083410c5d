"""Copies of every length and alignment, over many queues at once, with every kind of stall."""

import cocotb
import pytest

from hw.dma_engine.config import PRESETS
from sim.memory import STALLS
from tests.dma_engine.bench import Bench, parameter, preset, session_seed
from tests.dma_engine.jobs import SUITES, suite

pytestmark = pytest.mark.rtl


@pytest.mark.parametrize("stalls", STALLS)
@pytest.mark.parametrize("config", PRESETS)
def test_suites(engine, config, stalls):
    engine(config, "suites", stalls=stalls, suites="tiny straddle_4k")


@cocotb.test()
async def suites(dut):
    """Suites one behind the other, without waiting in between."""
    seed = session_seed()
    bench = Bench(dut, seed=seed, stalls=parameter("stalls", "none"), latency=parameter("latency", 12))
    jobs = [job for name in parameter("suites", " ".join(SUITES)).split()
            for job in suite(name, preset(dut), bench.rng)]
    words = await bench.lay_out(jobs)
    await bench.run(words)
    await bench.end()
