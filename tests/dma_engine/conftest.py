# SPDX-License-Identifier: Apache-2.0
"""The fixture ``engine``: runs cocotb tests of the test's module on a preset, built once per process."""

from functools import cache

import pytest

from hw.dma_engine.config import PRESETS
from tests.dma_engine.bench import environment


@cache
def _built(name, waves):
    # Making the Verilog takes longer than many of the tests.
    from sim.dma.checked import CheckedDma
    from sim.verilator.build import Design, build
    return build(Design(CheckedDma, PRESETS[name]), name=f"dma_{name}", waves=waves)


@pytest.fixture
def engine(request, seed, waves):
    """``engine(preset, testcase, **parameters)``; see :func:`tests.dma_engine.bench.parameter`."""

    def run(name, testcase, **parameters):
        result = _built(name, waves).run(request.module.__name__, testcase=testcase, seed=seed,
                                         env=environment(parameters))
        if result.waves:
            print(f"waves: {result.waves}")
        for test in result.tests:
            print(f"{name} {test.name} {parameters}: seed {seed}, {test.sim_ns / 4:.0f} cycles, {test.seconds:.1f} s")
        return result

    return run
