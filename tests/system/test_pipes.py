# SPDX-License-Identifier: Apache-2.0
"""Pipes of the accelerator: what their lanes receive, and the presets as endpoints."""

from dataclasses import replace

import pytest

from hw.ace.config import PRESETS, AceConfig
from hw.errors import UserError
from sim.system import ENDPOINTS, LinkConfig, Machine, MachineConfig
from sim.system.endpoint_kinds import BUILT, kind_of, rules
from sim.validation.as_rtl import as_rtl

HZ = 1e9
LANES = 64


def cycles(shape, pipes, size=8 << 20):
    """Cycles for each beat of the buffer, of an all-reduce with links and memory that are no limit."""
    kind = replace(ENDPOINTS["ace"], memory_bytes_per_s=None, fsms=None, sram_bytes=None, pipes=pipes,
                   receive_bytes=LANES)
    machine = Machine(MachineConfig(
        shape=shape, endpoint=kind, links=LinkConfig(bytes_per_s=1e14, latency_s=0), clock_hz=HZ, header_bytes=0,
        npu=replace(MachineConfig(shape=(2,)).npu, bus_bytes_per_s=1e14, memory_latency_s=0)))
    machine.issue("ALL_REDUCE", size)
    machine.run()
    return machine.now * HZ / (size / LANES)


def test_a_ring_has_a_pipe_for_each_direction():
    """2 * 7/8 of the buffer arrives, half of it at each port."""
    assert cycles((8,), 1) == pytest.approx(2 * 7 / 8, rel=0.05)
    assert cycles((8,), 2) == pytest.approx(7 / 8, rel=0.05)
    assert cycles((8,), 4) == pytest.approx(7 / 8, rel=0.05)


def test_a_torus_gives_the_first_dimension_its_own_pipes():
    """4x4x4: 3/2 of the buffer arrive in the first dimension, 3/8 in each of the others."""
    assert cycles((4, 4, 4), 1) == pytest.approx(9 / 4, rel=0.05)
    assert cycles((4, 4, 4), 2) == pytest.approx(9 / 8, rel=0.05)
    assert cycles((4, 4, 4), 4) == pytest.approx(3 / 4, rel=0.08)


def test_each_packet_is_received_by_the_pipe_of_its_port():
    """As the hardware assigns ports to pipes; in one direction only, so that both sides of a dimension differ."""
    machine = Machine(MachineConfig(shape=(4, 4, 2), endpoint=replace(ENDPOINTS["ace"], pipes=4), both=False))
    machine.issue("ALL_REDUCE", 1 << 20)
    machine.run()
    endpoint, = machine.endpoints
    for pipe, every in enumerate(AceConfig(pipes=4).pipe_ports):
        # The loopback, which has no link, is not simulated.
        ports = [port for port in every if port < len(endpoint.ports)]
        # Data that leaves at a port arrives at the opposite one of the neighbour; all ranks are alike.
        assert endpoint._lanes[pipe].server.bytes == sum(endpoint.ports[port ^ 1].payload_bytes for port in ports)
        assert endpoint._readers[pipe].bytes == sum(endpoint.ports[port].payload_bytes for port in ports)
    assert len({lanes.server.bytes for lanes in endpoint._lanes}) == 3


@pytest.mark.parametrize("name", BUILT)
def test_presets_are_endpoints(name):
    preset = PRESETS[name]
    config = MachineConfig(shape=(4, 4, 4), endpoint=name, **rules(name))
    kind, beat = config.kind, preset.data_width // 8
    assert (kind.fsms, config.slots, kind.pipes) == (preset.fsms, preset.slots, preset.pipes)
    assert kind.receive_bytes == kind.port_bytes == config.beat_bytes == beat
    # A beat in each direction of the memory port is taken from computation.
    assert config.memory_share == 2 * beat * config.clock_hz
    assert as_rtl(preset, (4,), link_rate=1, link_latency=0, memory_latency=0).kind == replace(kind, name="rtl")


def test_fewer_lanes_receive_less():
    assert kind_of(AceConfig(lanes=4), "half").receive_bytes == 16


@pytest.mark.parametrize("pool", ["shared", "separate"])
def test_the_memory_port_moves_a_beat_in_each_direction(pool):
    machine = Machine(MachineConfig(shape=(2,), endpoint="wide", memory_pool=pool, npu=replace(
        MachineConfig(shape=(2,)).npu, memory_latency_s=0)))
    machine.issue("ALL_REDUCE", 16 << 20)
    machine.run()
    read = machine.statistics()["memory"][0]["read_seconds"]
    assert read == pytest.approx((16 << 20) / (64 * 1.245e9), rel=1e-3) and machine.now < 1.2 * read


def test_pipes_are_checked():
    with pytest.raises(UserError, match=r"^pipes of the endpoint ace must be 1 or 2 or 4, not 3\.$"):
        replace(ENDPOINTS["ace"], pipes=3)
