# SPDX-License-Identifier: Apache-2.0
"""Pipes of the accelerator: what their lanes receive, and the presets as endpoints."""

from dataclasses import replace

import pytest

from hw.ace.config import PRESETS, ULTRA, AceConfig
from hw.ace.programs.schedule import plan
from hw.ace.words import Collective
from hw.errors import UserError
from sim.system import ENDPOINTS, LinkConfig, Machine, MachineConfig
from sim.system.endpoint_kinds import BUILT, kind_of, rules
from sim.system.routes import piece_bytes, route
from sim.validation.as_rtl import as_rtl
from sim.validation.as_rtl import cycles as as_cycles
from sim.validation.offload import share_of_ideal

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
    # A beat in each direction of the memory port is taken from computation, or what ACE's authors took.
    assert config.memory_share == (128e9 if name == "ultra" else 2 * beat * config.clock_hz)
    assert as_rtl(preset, (4,), link_rate=1, link_latency=0, memory_latency=0).kind == replace(
        kind, name="rtl", memory_bytes_per_s=None)


@pytest.mark.parametrize("shape", [(4, 4, 2), (4, 4, 4), (4, 8, 4)])
def test_ultra_is_within_five_percent_of_ideal(shape):
    """With the paper's links, and its 128 GB/s of memory for reads and as much for writes; not with half of its FSMs,
    SRAM or width, and not if reads and writes share the bandwidth."""
    def share(kind, **changes):
        return share_of_ideal(shape, kind, size=32 << 20, **{**rules("ultra"), "memory_pool": "separate", **changes})

    ultra = ENDPOINTS["ultra"]
    assert share(ultra) > 0.95
    assert share(ultra, memory_pool="shared") < 0.65
    assert share(replace(ultra, port_bytes=64)) < 0.75 > share(ENDPOINTS["wide"], **rules("wide"))
    if shape != (4, 4, 2):
        assert share(replace(ultra, fsms=16)) < 0.9 > share(replace(ultra, sram_bytes=ultra.sram_bytes // 2))


def test_two_pipes_suffice_for_the_papers_links_only():
    """Links of a beat per cycle in all dimensions need the four."""
    two = replace(ENDPOINTS["ultra"], pipes=2)
    assert share_of_ideal((4, 4, 4), two, size=32 << 20, **{**rules("ultra"), "memory_pool": "separate"}) > 0.95
    shares = [size / 128 / as_cycles(as_rtl(replace(ULTRA, pipes=pipes), (4, 4, 4), link_rate=1, link_latency=20,
                                            memory_latency=100, fold=True), Collective.ALL_REDUCE, size)
              for size in (8 << 20,) for pipes in (2, 4)]
    assert shares[0] < 0.9 and shares[1] > 0.95


def test_positions_are_whole_beats():
    """Five positions of a chunk of 1,024 bytes, of which the accelerator sends whole beats of 128."""
    config = MachineConfig(shape=(5,), endpoint="ultra", **{**rules("ultra"), "chunk_bytes": 1024})
    made = plan(Collective.ALL_REDUCE, (5,), (0,), (0,))
    assert made.positions == 5 and piece_bytes(config, made) == 128
    assert {grain.size for leg in route(config, made, 64).legs for grain in leg.grains} == {128}
    with pytest.raises(UserError, match=r"^5 positions of 128 bytes do not fit .* must be at least 640\."):
        piece_bytes(config.with_(chunk_bytes=512), made)


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
