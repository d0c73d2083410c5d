# SPDX-License-Identifier: Apache-2.0
"""The engine's RTL behind the L2: its copies are right, its attributes decide, and without copies nothing changes."""

from functools import cache

import pytest

from hw.dma_engine.config import TINY
from sim.cache.config import CacheSizes, MachineConfig
from sim.cache.kernels import KERNELS
from sim.cache.program import build_beside, build_model
from sim.cache.run import Copy, beside, execute, idle_kernel, measure

pytestmark = [pytest.mark.long, pytest.mark.rtl]


@cache
def engine():
    """With the protocol monitors on each bus."""
    return build_beside(TINY, checked=True)


MACHINE = MachineConfig()


def test_without_copies_a_kernel_takes_the_same_cycles():
    kernel = KERNELS["bn"].kernel(quick=True)
    alone = measure(build_model(), ["bn"], ["combined"], MACHINE, quick=True)[0]
    found = beside(engine(), kernel, "combined", MACHINE, Copy(allocate=True, depth=0))
    assert {name: found[name] for name in alone} == alone
    assert found["copied"] == found["line_reads"] == 0


@pytest.mark.parametrize("size", [64, 100, 4096])
def test_attributes_of_regions_reach_the_cache(size):
    rows = {allocate: beside(engine(), idle_kernel(20_000), "cache-rw", MACHINE,
                             Copy(allocate=allocate, size=size, slots=4)) for allocate in (False, True)}
    for allocate, row in rows.items():
        assert row["copied"] > 2 * row["checked_bytes"] == 2 * 4 * 4 * size
        assert row["allocating_reads"] == (row["line_reads"] if allocate else 0)
        # Completion words have no attributes.
        assert (row["allocating_writes"] > 0.4 * row["line_writes"]) if allocate else row["allocating_writes"] == 0
    # The arenas fit: with allocation, copies run from the L2.
    assert rows[True]["hit_rate"] > 0.5 > rows[False]["hit_rate"]
    lines = 4 * -(-4 * size // 64) + 1      # of the sources, and the kernel's
    assert rows[True]["dram_bytes_read"] <= lines * 64 < rows[False]["copied"] < rows[False]["dram_bytes_read"]


def test_copies_past_the_cache_leave_a_kernel_its_lines():
    kernel = KERNELS["gru"].kernel(quick=True)
    machine = MachineConfig(cache=CacheSizes(sets=240))
    rows = {allocate: beside(engine(), kernel, "cache-r", machine, Copy(allocate=allocate))
            for allocate in (False, True)}
    assert rows[False]["load_fills"] < rows[True]["load_fills"]
    assert rows[False]["executed"] < rows[True]["executed"]


def test_a_rate_limits_the_copies():
    row = beside(engine(), idle_kernel(20_000), "cache-r", MACHINE, Copy(allocate=False, rate=1.5, size=512))
    assert row["copied_per_cycle"] == pytest.approx(1.5, abs=0.06)


def test_copies_of_unaligned_sizes_beside_stores(tmp_path):
    kernel = KERNELS["act"].kernel(quick=True)
    kernel.write(tmp_path / "trace")
    arguments = MACHINE.arguments(groups=kernel.groups, policy={"loads": 1, "stores": 1})
    found = execute(engine(), tmp_path / "trace",
                    [*arguments, "--copy", "size=300,depth=4,read_cache=15,write_cache=3"])
    assert found["wrong_bytes"] == 0 < found["copied"]
