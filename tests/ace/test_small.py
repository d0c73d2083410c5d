# SPDX-License-Identifier: Apache-2.0
"""A minimal accelerator: a ring, one lane, sums of 16 or 32 bits only, no counters, short addresses."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from hw.ace.config import TINY
from hw.ace.numerics.formats import DType, reductions
from hw.ace.timing import AceTimingOptions
from hw.ace.words import Collective
from hw.errors import UserError
from sim.ace.cluster import Cluster
from sim.ace.compare import compare
from sim.ace.shared_library import build_library

pytestmark = [pytest.mark.rtl, pytest.mark.long]

SMALL = replace(TINY, lanes=1, prod=False, fp8=False, avg=False, widen=False, varying=False, counters=False,
                dimensions=1, address_width=34, fsms=2, slots=4, queue_depth=2, communicators=2, regions=8,
                timing=AceTimingOptions.all())


@cache
def library():
    return build_library(SMALL)


def test_rings(seed):
    found = compare(SMALL, collectives=60, seed=seed, faults=True, library=library(), shapes=((2,), (3,), (5,)))
    assert found["collectives"] >= 60
    assert (found["mismatches"], found["hangs"]) == (0, 0), found["first_mismatches"]
    assert set(found["operations"]) <= {one.name for one in reductions(SMALL)} == {"SUM", "MIN", "MAX"}
    assert found["faults"] and not any(found["link_counts"].values())
    assert set(found["types"]) <= {"FP32", "FP16", "BF16", "INT32", "INT8"}


def test_what_is_not_there():
    with pytest.raises(UserError, match=r"^A torus must have 1 to 1 dimensions"):
        Cluster(SMALL, (2, 2), library=library())
    with Cluster(SMALL, (2,), library=library()) as cluster:
        driver = cluster.drivers[0]
        features = cluster.do(driver.read("FEATURES"))[0]
        assert features == {"dimensions": 1, "prod": 0, "fp8": 0, "avg": 0, "widen": 0, "varying": 0, "counters": 0,
                            "address_bits": 34}
        cluster.collective(Collective.ALL_REDUCE, [np.ones(100, np.uint32)] * 2, dtype=DType.INT32, count=100)
        assert set(cluster.do(driver.counters())[0].values()) == {0}
        for wrong, message in (
                (driver.define_region(1, base=1 << 34, length=4096), r"^A region must be within .* 34 bits of address"),
                (driver.configure_queue(1, sc=1 << 34), r"^A completion word must be within"),
                (driver.define_communicator(1, shape=(2,), coordinates=(0,), share=None, dimensions=(1,)),
                 r"^The accelerator has ports for 1 of a torus's dimensions: there is none numbered 1$")):
            with pytest.raises(ValueError, match=message):
                cluster.do(wrong)
