# SPDX-License-Identifier: Apache-2.0
"""FunctionControl: settings from the configuration space, and the order of a function-level reset."""

import random

import pytest

from hw.pcie.function import DEVICE_CONTROL, RESET_CYCLES, RESET_TIMEOUT, FunctionControl
from tests.harness.cell import run_cell

POLL_BITS = 4


def test_settings():
    dut = FunctionControl(poll_bits=POLL_BITS)
    rng = random.Random(1)

    async def live(ctx):
        for _ in range(50):
            payload, read, master, enable, mask = (rng.randrange(count) for count in (4, 6, 2, 2, 2))
            ctx.set(dut.cfg.cfg_max_payload, payload)
            ctx.set(dut.cfg.cfg_max_read_req, read)
            ctx.set(dut.cfg.cfg_function_status, rng.getrandbits(16) & ~4 | master << 2)
            ctx.set(dut.cfg.cfg_interrupt_msix_enable, rng.getrandbits(3) << 1 | enable)
            ctx.set(dut.cfg.cfg_interrupt_msix_mask, rng.getrandbits(3) << 1 | mask)
            await ctx.tick()
            assert ctx.get(dut.settings.max_payload) == ctx.get(dut.status.max_payload) == payload
            assert ctx.get(dut.settings.max_read) == ctx.get(dut.status.max_read) == read
            assert ctx.get(dut.settings.bus_master) == ctx.get(dut.status.bus_master) == master
            assert (ctx.get(dut.msix_enable), ctx.get(dut.msix_mask)) == (enable, mask)
            assert ctx.get(dut.cfg.pcie_cq_np_req) == 3

    run_cell(dut, live)


def test_extended_tags():
    """The bit is read again and again; a read stays until it is done, however long that takes."""
    dut = FunctionControl(poll_bits=POLL_BITS)
    rng = random.Random(2)

    async def live(ctx):
        assert not ctx.get(dut.settings.extended_tags)
        for _ in range(20):
            value = rng.getrandbits(32)
            for _ in range(2 << POLL_BITS):
                if ctx.get(dut.cfg.cfg_mgmt_read):
                    break
                await ctx.tick()
            for _ in range(rng.randrange(6)):
                await ctx.tick()
                assert ctx.get(dut.cfg.cfg_mgmt_read) and ctx.get(dut.cfg.cfg_mgmt_addr) == DEVICE_CONTROL
            ctx.set(dut.cfg.cfg_mgmt_read_data, value)
            ctx.set(dut.cfg.cfg_mgmt_read_write_done, 1)
            await ctx.tick()
            ctx.set(dut.cfg.cfg_mgmt_read_write_done, 0)
            ctx.set(dut.cfg.cfg_mgmt_read_data, ~value & 0xFFFF_FFFF)
            assert not ctx.get(dut.cfg.cfg_mgmt_read)
            for _ in range(4):
                assert ctx.get(dut.settings.extended_tags) == value >> 8 & 1
                await ctx.tick()

    run_cell(dut, live)


@pytest.mark.parametrize(("timeout", "limit"), [(77, 77), (0, RESET_TIMEOUT), (RESET_TIMEOUT + 1, RESET_TIMEOUT)])
def test_function_level_reset(timeout, limit):
    """Refuse; discard once the completer is idle; done once the requester is idle; then run again."""
    dut = FunctionControl(poll_bits=POLL_BITS)
    rng = random.Random(3)

    async def live(ctx):
        ctx.set(dut.timeout, timeout)

        async def settle(cycles):
            for _ in range(cycles):
                await ctx.tick()

        def levels():
            return tuple(ctx.get(level) for level in (
                dut.reset.refuse, dut.settings.halt, dut.reset.discard, dut.cfg.cfg_flr_done))

        for _ in range(6):
            for idle in (dut.reset.completer_idle, dut.reset.requester_idle):
                ctx.set(idle, 0)
            await settle(rng.randrange(20))
            assert levels() == (0, 0, 0, 0) and ctx.get(dut.settings.timeout) == timeout
            # Resets of other functions do not concern this one.
            ctx.set(dut.cfg.cfg_flr_in_process, 0b1110)
            await settle(5)
            assert levels() == (0, 0, 0, 0)
            ctx.set(dut.cfg.cfg_flr_in_process, 0b1111)
            await settle(rng.randrange(3, 200))
            assert levels() == (1, 1, 0, 0) and ctx.get(dut.cfg.pcie_cq_np_req) == 0
            # A flag that falls again starts the wait from the beginning.
            for idle, discard in ((dut.reset.completer_idle, 0), (dut.reset.requester_idle, 1)):
                ctx.set(idle, 1)
                await settle(RESET_CYCLES - 2)
                assert levels() == (1, 1, discard, 0)
                ctx.set(idle, 0)
                await settle(RESET_CYCLES)
                assert levels() == (1, 1, discard, 0)
                ctx.set(idle, 1)
                if not discard:
                    await settle(RESET_CYCLES + 2)
                    assert levels() == (1, 1, 1, 0) and ctx.get(dut.settings.timeout) == limit
                    assert ctx.get(dut.cfg.pcie_cq_np_req) == 3
            done = 0
            for _ in range(RESET_CYCLES + 10):
                await ctx.tick()
                done += ctx.get(dut.cfg.cfg_flr_done)
            assert done == 1 and levels() == (1, 1, 0, 0)
            ctx.set(dut.cfg.cfg_flr_in_process, 0)
            await settle(4)
            assert levels() == (0, 0, 0, 0)

    run_cell(dut, live)


def test_reset_of_the_engine_alone():
    """The same steps, but no report; the engine stays in reset until nothing that it issued is left."""
    dut = FunctionControl(poll_bits=POLL_BITS)

    async def live(ctx):
        reset = dut.reset

        async def settle(cycles):
            for _ in range(cycles):
                await ctx.tick()
                assert not ctx.get(dut.cfg.cfg_flr_done)

        def levels():
            return tuple(ctx.get(level) for level in (reset.refuse, dut.settings.halt, reset.engine, reset.discard))

        # From the start the engine is in reset: requests are refused until it is not.
        ctx.set(reset.engine_down, 1)
        await settle(100)
        assert levels() == (1, 0, 0, 0)
        ctx.set(reset.engine_down, 0)
        await settle(3)
        assert levels() == (0, 0, 0, 0)
        for again in range(2):
            # However short it is.
            ctx.set(reset.engine_down, 1)
            await settle(1)
            ctx.set(reset.engine_down, again)
            await settle(200)
            assert levels() == (1, 1, 1, 0)
            ctx.set(reset.completer_idle, 1)
            await settle(RESET_CYCLES + 2)
            assert levels() == (1, 1, 1, 1)
            ctx.set(reset.engine_down, 1)
            await settle(200)
            assert levels() == (1, 1, 1, 1)
            ctx.set(reset.requester_idle, 1)
            await settle(RESET_CYCLES + 2)
            assert levels() == (1, 1, 0, 1)
            ctx.set(reset.engine_down, 0)
            await settle(4)
            assert levels() == (0, 0, 0, 0)
            ctx.set(reset.completer_idle, 0)
            ctx.set(reset.requester_idle, 0)

    run_cell(dut, live)
