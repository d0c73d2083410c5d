# SPDX-License-Identifier: Apache-2.0
"""The cluster around RoCEv2 units, with a stub in place of the unit: traffic, memory, frames, registers, checks."""

import ctypes
import random
from dataclasses import replace
from functools import cache

import pytest

from hw.rdma.config import TINY, WIDE, remote_memory
from sim.rdma.cluster import Cluster, Flow, Memory, Reason, build_cluster
from sim.rdma.network import FaultAction, Line, NetworkFailed, Switch
from sim.rdma.pins import pins_header, unit_members
from sim.verilator.design import Design
from tests.sim.rdma.stub import FAULT, LoopUnit

pytestmark = pytest.mark.rtl

CONFIGS = [TINY, *(pytest.param(config, marks=pytest.mark.long) for config in (
    WIDE, replace(WIDE, data_width=128, id_width=3), replace(WIDE, data_width=1024, id_width=1)))]


@cache
def _library(config):
    return build_cluster(config, component=Design(LoopUnit, config))


def _cluster(config=TINY, ports=2, **options):
    return Cluster(_library(config), [Line(bytes_per_cycle=config.beat_bytes)] * ports, **options)


def _mac(port):
    return bytes([2, 0, 0, 0, 0, port])


def _frame(generator, source, destination, size):
    return _mac(destination) + _mac(source) + b"\x88\xb5" + generator.randbytes(size - 14)


def test_the_stub_has_the_ports_of_a_unit():
    assert {name: LoopUnit(TINY).signature.members[name] for name in unit_members(TINY)} == unit_members(TINY)
    header = pins_header(LoopUnit(TINY))
    # id 8, addr 64, len 8, cache 4, prot 3, qos 4, data 64, strb 8, first, last
    assert "namespace pins::writes {\nconstexpr size_t kBits = 165;" in header
    assert "constexpr Field k_data{91, 64};" in header and "constexpr Field k_last{164, 1};" in header


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: str(config.data_width))
@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_traffic_moves_every_byte(config, stall, seed):
    """The stub's remote memory is the unit's own, at addresses with bit 63."""
    generator = random.Random(f"{seed} {config.data_width} {stall}")
    memory = Memory(read_latency=20, write_latency=30, jitter=50, out_of_order=True, stall=stall)
    guard, flows = 0xEE, []
    with _cluster(config, units=1, memories=[memory], seed=seed) as cluster:
        for number, size in enumerate((1, 3, 64, 1000, 4096, 10_001)):
            ids = 1 if config.id_width < 3 else 2
            first = number // 2 * ids if config.id_width > 2 else number % (1 << config.id_width)
            local = (number + 1) << 20 | generator.randrange(999)
            remote = remote_memory(number, generator.randrange(64, 9999))
            data = generator.randbytes(3 * size + 2)
            begin = local if number % 2 else remote
            cluster.store(0, begin - 1, data)
            cluster.map(0, (remote if number % 2 else local) - 64, 3 * size + 128, guard)
            flow = Flow(write=number % 2 == 1, local=local, remote=remote, size=size, count=3, slots=3, depth=2,
                        ids=ids, first_id=first, keep_latencies=True)
            flows.append((cluster.flow(0, flow), flow, data))
        assert cluster.run(100_000, until_done=True) is Reason.DONE
        for number, flow, data in flows:
            result = cluster.result(0, number)
            assert (result.begun, result.done, result.failed) == (3, 3, 0)
            assert result.latency_least > 20 and result.first < result.last <= cluster.cycle
            latencies = cluster.latencies(0, number)
            assert (latencies.min(), latencies.max(), latencies.sum()) == (
                result.latency_least, result.latency_most, result.latency_sum)
            end = flow.remote if flow.write else flow.local
            found = cluster.load(0, end - 8, 3 * flow.size + 16)
            assert found == bytes([guard] * 8) + data[1:-1] + bytes([guard] * 8), flow
        if stall == 0:
            assert cluster.memory_counts(0).write_bytes == sum(3 * flow.size for _, flow, _ in flows if flow.write)


def test_depth_and_interval():
    with _cluster(units=1, memories=[Memory(write_latency=500)]) as cluster:
        for number in range(3):
            cluster.map(0, remote_memory(number), 8)
        one = cluster.flow(0, Flow(write=True, local=0, remote=remote_memory(0), size=8, count=10))
        four = cluster.flow(0, Flow(write=True, local=0, remote=remote_memory(1), size=8, count=10, depth=4,
                                    first_id=1))
        slow = cluster.flow(0, Flow(write=True, local=0, remote=remote_memory(2), size=8, count=10, depth=9,
                                    first_id=2, interval=2000, start=100))
        cluster.run(100_000, until_done=True)
        times = [(cluster.result(0, flow).last - cluster.result(0, flow).first) for flow in (one, four, slow)]
        assert 5000 < times[0] < 5100 and 1500 < times[1] < 1600 and 18_500 <= times[2] < 18_600


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: str(config.data_width))
def test_other_frames_cross_the_network(config, seed):
    generator = random.Random(seed)
    sizes = [60, 61, 64, 65, 127, 128, 1500, *(generator.randrange(14, 2000) for _ in range(20))]
    with _cluster(config, 3, units=2, memories=[Memory(stall=0.2), Memory()], seed=seed) as cluster:
        for port in range(3):
            cluster.assign(_mac(port), port)
        frames = [_frame(generator, 0, 1 + number % 2, size) for number, size in enumerate(sizes)]
        back = [_frame(generator, 2, 0, size) for size in sizes]
        for frame in frames:
            cluster.send_other(0, frame)
        for frame in back:
            cluster.send(2, frame)
        cluster.run(30_000)
        assert list(cluster.receive_other(1)) == frames[::2]
        assert [frame for frame, bad in cluster.receive(2) if not bad] == frames[1::2]
        assert list(cluster.receive_other(0)) == back
        counts = cluster.counts(0)
        assert (counts.sent, counts.sent_bytes) == (len(frames), sum(sizes)) and counts.gaps > 0
        assert cluster.counts(1).gaps == 0


def test_time_of_a_streamed_frame():
    """A frame of beats takes the time of a whole frame: the line, not the stream, sets the rate."""
    generator = random.Random(1)
    with Cluster(_library(TINY), [Line(bytes_per_cycle=2.5)] * 2, memories=[Memory()]) as cluster:
        cluster.assign(_mac(1), 1)
        for _ in range(50):
            cluster.send_other(0, _frame(generator, 0, 1, 976))
        cluster.run(40_000)
        counts = cluster.counts(1)
        assert counts.received == 50 and counts.overruns == 0
        first = 2 * (976 + 12) / 2.5 + 20
        assert first <= counts.latency_most < first + 10 and counts.latency_sum < 50 * (first + 10)


def test_corrupt_frames_and_a_full_receive_fifo():
    generator = random.Random(2)
    with _cluster(ports=2, units=1, switch=Switch(receive_bytes=1000)) as cluster:
        cluster.assign(_mac(0), 0)
        cluster.direct(0, FaultAction.BAD_FCS, opcode=-2, down=True, number=2)
        frames = [_frame(generator, 1, 0, 100) for _ in range(5)]
        for frame in frames:
            cluster.send(1, frame)
        cluster.run(1000)
        assert list(cluster.receive_other(0)) == [frames[0], *frames[2:]]
        cluster.send(1, _frame(generator, 1, 0, 1001))
        cluster.run(1000)
        assert list(cluster.receive_other(0)) == [] and cluster.counts(0).overruns == 1


def test_a_unit_marks_a_frame_as_corrupt():
    generator = random.Random(3)
    with _cluster(ports=2) as cluster:
        for value in (8, 0):
            cluster.write_register(0, 0, value)
            cluster.send_other(0, _frame(generator, 0, 1, 100))
            cluster.run(1000)
        assert len(list(cluster.receive_other(1))) == cluster.counts(0).fcs_drops == 1


def test_registers_and_interrupts():
    with _cluster() as cluster:
        cluster.write_registers(1, [(0, 0x12345600), (0, 0x87654320)])
        assert cluster.read_register(1, 0) == 0x87654320 and cluster.read_register(1, 0x40) == 0x40
        assert cluster.read_register(0, 0) == 0 and cluster.interrupted(1) is None
        assert cluster.run(10, until_interrupt=True) is Reason.LIMIT
        cluster.write_register(1, 0, 1)
        assert cluster.run(10, until_interrupt=True) is Reason.INTERRUPT
        assert cluster.interrupted(0) is None and 0 < cluster.interrupted(1) <= cluster.cycle
        for access in (lambda: cluster.write_register(1, FAULT, 1), lambda: cluster.read_register(1, FAULT)):
            with pytest.raises(NetworkFailed, match=r"^Unit 1 responded to a register access with an error\.$"):
                access()


@pytest.mark.parametrize("write", [False, True])
def test_a_failed_burst_fails_its_operation(write):
    with _cluster(units=1) as cluster:
        cluster.map(0, remote_memory(0), 1 << 16)
        cluster.fail_burst(0, 3, write=write)
        flow = cluster.flow(0, Flow(write=write, local=0, remote=remote_memory(0), size=5000, count=4))
        assert cluster.run(100_000, until_done=True) is Reason.DONE
        assert (cluster.result(0, flow).done, cluster.result(0, flow).failed) == (4, 1)


def test_more_operations_of_a_flow():
    with _cluster(units=1) as cluster:
        cluster.map(0, remote_memory(0), 64)
        flow = cluster.flow(0, Flow(write=True, local=0, remote=remote_memory(0), size=8, count=4, slots=8))
        for count, done in ((0, 4), (3, 7), (0, 7)):
            if done > 4:
                cluster.extend(0, flow, count)
            assert cluster.run(100_000, until_done=True) is Reason.DONE
            assert (cluster.result(0, flow).begun, cluster.result(0, flow).done) == (done, done)


_STEP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64)
_WRITE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint64,
                          ctypes.POINTER(ctypes.c_uint8), ctypes.POINTER(ctypes.c_uint8), ctypes.c_uint32)
_READ = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint64,
                         ctypes.c_uint32)


class _Observer(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("step", _STEP), ("write", _WRITE), ("read", _READ)]


def test_an_observer_sees_accesses_and_lets_them_fail():
    cycles, written, bursts, failing = [], {}, [], set()

    def write(_, unit, cycle, address, data, strobes, last):
        assert unit == 0 and cycle == cycles[-1] and address % TINY.beat_bytes == 0
        written.update({address + lane: data[lane] for lane in range(TINY.beat_bytes) if strobes[0] >> lane & 1})
        return last and "write" in failing

    def read(_, unit, cycle, address, beats):
        bursts.append((address, beats))
        return unit == 0 and "read" in failing

    observer = _Observer(None, _STEP(lambda _, cycle: cycles.append(cycle)), _WRITE(write), _READ(read))
    data = random.Random(1).randbytes(100)
    with _cluster(units=1) as cluster:
        cluster.store(0, 0, data)
        cluster.map(0, remote_memory(0), 200)
        cluster.observe(ctypes.addressof(observer))
        for kind, failed in (("none", 0), ("write", 0), ("write", 1), ("read", 1)):
            flow = cluster.flow(0, Flow(write=kind != "read", local=0 if kind != "read" else 1 << 20,
                                        remote=remote_memory(0, 3), size=100, count=1))
            failing.update({kind} if failed else ())
            assert cluster.run(10_000, until_done=True) is Reason.DONE
            assert (cluster.result(0, flow).done, cluster.result(0, flow).failed) == (1, failed)
        assert written == {remote_memory(0, 3) + at: byte for at, byte in enumerate(data)}
        assert bursts == [(remote_memory(0, 3), 13)]
        count = len(cycles)
        cluster.observe(None)
        cluster.run(10)
        assert cycles == list(range(cycles[0], cycles[0] + count)) and len(cycles) == count


def test_rules_are_checked():
    with _cluster() as cluster:
        cluster.write_register(0, 0, 2)
        cluster.send_other(0, _frame(random.Random(1), 0, 1, 64))
        with pytest.raises(NetworkFailed, match=r"^Unit 0 sent a frame with an illegal tkeep\.$"):
            cluster.run(1000)
    with _cluster() as cluster:
        cluster.write_register(1, 0, 4)
        cluster.map(1, remote_memory(0), 8)
        cluster.flow(1, Flow(write=True, local=0, remote=remote_memory(0), size=8, count=1))
        with pytest.raises(NetworkFailed, match=r"^Unit 1 responded to a burst that was not issued\.$"):
            cluster.run(1000)
    with _cluster() as cluster:
        cluster.write_register(0, 0, 6)
        cluster.map(0, remote_memory(0), 8)
        cluster.flow(0, Flow(write=False, local=0, remote=remote_memory(0), size=8, count=1))
        with pytest.raises(NetworkFailed, match=r"^Unit 0 responded to a burst that was not issued\.$"):
            cluster.run(1000)
    with _cluster() as cluster:
        cluster.flow(0, Flow(write=False, local=0, remote=remote_memory(0), size=8, count=1))
        with pytest.raises(NetworkFailed, match=r"^Unit 0 used memory that it may not\.$"):
            cluster.run(1000)


def test_wrong_settings():
    with pytest.raises(NetworkFailed, match=r"^A cluster with 2 ports has 1 to 2 units, not 3\.$"):
        _cluster(units=3)
    with pytest.raises(NetworkFailed, match=r"^2 units have 1 or 2 memories, not 3\.$"):
        _cluster(memories=[Memory()] * 3)
    with _cluster() as cluster:
        good = Flow(write=True, local=0, remote=0, size=8, count=1)
        for wrong in ({"size": 0}, {"slots": 0}, {"depth": 0}, {"ids": 0}, {"size": 1 << 31}):
            with pytest.raises(NetworkFailed, match=r"^A flow has operations of 1 to 1073741824 bytes, and at "):
                cluster.flow(0, replace(good, **wrong))
        with pytest.raises(NetworkFailed, match=r"^IDs are from 0 to 255, and the flow uses some up to 256\.$"):
            cluster.flow(0, replace(good, first_id=250, ids=7))
        with pytest.raises(NetworkFailed, match=r"^There is no unit 2\.$"):
            cluster.flow(2, good)
        with pytest.raises(NetworkFailed, match=r"^There is no memory at one of the addresses\.$"):
            cluster.load(0, 1 << 40, 1)
        with pytest.raises(NetworkFailed, match=r"^A frame has 14 to 16384 bytes, not 5\.$"):
            cluster.send_other(0, b"12345")
    for call in (lambda: cluster.run(1), lambda: cluster.flow(0, good), lambda: cluster.cycle):
        with pytest.raises(NetworkFailed, match=r"^The network is closed\.$"):
            call()
