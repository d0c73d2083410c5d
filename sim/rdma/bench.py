# SPDX-License-Identifier: Apache-2.0
"""Rates, latency and goodput of a RoCEv2 unit that writes another one's memory or reads it, measured in RTL.

Every byte is compared.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dmace.drivers.rdma import Connection, RdmaDriver
from dmace.drivers.registers import wait
from hw.rdma import protocol
from hw.rdma.config import RdmaConfig, remote_memory
from sim.rdma.cluster import Cluster, Flow, Library, Memory
from sim.rdma.network import Faults, Line, NetworkFailed, Switch
from sim.rdma.unit_driver import unit_driver
from sim.rdma.wire import HEADER_BYTES, LINE_BYTES, frame_bytes, network_cycles

__all__ = ["Setting", "goodput", "latency", "rate"]

_LOCAL, _VA, _QP, _KEY = 0x100_0000, 0x7F00_0000_0000, 1, 0x5A
_SPAN = 1 << 20
_LIMIT = 200_000_000
_TIMEOUT = 5
_STEP = 256


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Two units at a switch.

    Parameters
    ----------
    line_rate : float
        Bytes per cycle of each segment; 50 is 100 Gbit/s at 250 MHz.
    line_latency : int
        Cycles of each of the two segments between the units.
    memory_latency : int
        Cycles of both memories, for reads and for writes.
    seed : int
    """

    line_rate: float
    line_latency: int = 50
    memory_latency: int = 100
    seed: int = 1


def _bound(config: RdmaConfig, setting: Setting, size: int, *, write: bool) -> tuple[float, str]:
    """Least cycles of a message of one packet, and the cause: its frame on the line, or its beats on the bus."""
    frame = frame_bytes(size, write=write)
    line, bus = (frame + LINE_BYTES) / setting.line_rate, float(-(-frame // config.beat_bytes))
    return (line, "line") if line >= bus else (bus, "bus")


def _mac(unit: int) -> str:
    return f"02:00:00:00:00:{unit + 1:02x}"


def _qpn(config: RdmaConfig, unit: int) -> int:
    return (unit + 1) * 2 * config.queue_pairs + _QP


@contextmanager
def _pair(library: Library, setting: Setting, *, selective: bool = False) -> Iterator[tuple[Cluster, list[RdmaDriver]]]:
    """Two units with a queue pair, of which unit 0 has the other's memory as remote memory 1."""
    config = library.config
    memory = Memory(read_latency=setting.memory_latency, write_latency=setting.memory_latency)
    lines = [Line(bytes_per_cycle=setting.line_rate, latency=setting.line_latency)] * 2
    with Cluster(library, lines, memories=[memory], switch=Switch(), seed=setting.seed) as cluster:
        drivers = [unit_driver(cluster, unit) for unit in range(2)]
        for unit, driver in enumerate(drivers):
            wait(driver.check_identity())
            wait(driver.set_station(mac=_mac(unit), ipv4=f"10.0.0.{unit + 1}"))
            wait(driver.open(Connection(
                qpn=_qpn(config, unit), peer_qpn=_qpn(config, 1 - unit), peer_mac=_mac(1 - unit),
                peer_ip=f"10.0.0.{2 - unit}", mtu=config.max_mtu, max_reads=config.reads, timeout=_TIMEOUT,
                selective=selective)))
            rkey = wait(driver.define_region(0, va=_VA, length=_SPAN, address=_LOCAL, key=_KEY))
            wait(driver.define_remote(1, qp=_QP, rkey=rkey, va=_VA, length=_SPAN))
            cluster.store(unit, _LOCAL, random.Random(setting.seed + unit).randbytes(_SPAN))
        yield cluster, drivers


def _check(cluster: Cluster, setting: Setting, *, write: bool, touched: int) -> None:
    expected = random.Random(setting.seed + (not write)).randbytes(_SPAN)[:touched]
    for unit in range(2):
        if cluster.load(unit, _LOCAL, touched) != expected:
            raise NetworkFailed(f"{'WRITEs' if write else 'READs'} left wrong bytes in the memory of unit {unit}.")


def _flow(size: int, *, write: bool, count: int, depth: int, ids: int) -> Flow:
    return Flow(write=write, local=_LOCAL, remote=remote_memory(1), size=size, count=count, depth=depth,
                slots=min(count, _SPAN // size), ids=ids)


def _finish(cluster: Cluster, flow: int) -> int:
    """Wait for the end of a flow; the cycle of its last response."""
    while cluster.result(0, flow).done < cluster.result(0, flow).begun or not cluster.result(0, flow).begun:
        if cluster.cycle > _LIMIT:
            raise NetworkFailed(f"The messages have not completed within {_LIMIT:,} cycles.")
        cluster.run(10 * _STEP, until_done=True)
    result = cluster.result(0, flow)
    if result.failed:
        raise NetworkFailed(f"{result.failed} messages have failed.")
    return result.last


def rate(library: Library, setting: Setting, size: int, *, write: bool, count: int, depth: int) -> dict[str, Any]:
    """Messages of one packet on one queue pair, ``depth`` in flight at most, in the steady state.

    Returns
    -------
    dict
        ``cycles`` per message, between the first quarter of the messages and the issue of the last one; ``bound``, the
        least cycles, and what ``binds``; ``share``, of the bound; ``bytes_per_cycle`` of payload.
    """
    config = library.config
    if size > config.max_mtu:
        raise NetworkFailed(f"A message of one packet has at most {config.max_mtu} bytes, not {size}.")
    with _pair(library, setting) as (cluster, _):
        flow = cluster.flow(0, _flow(size, write=write, count=count, depth=depth,
                                     ids=min(depth, 1 << config.id_width)))
        points: list[tuple[int, int]] = []
        while cluster.result(0, flow).begun < count:
            cluster.run(_STEP)
            result = cluster.result(0, flow)
            if result.done >= count // 4:
                points.append((cluster.cycle, result.done))
            if cluster.cycle > _LIMIT:
                raise NetworkFailed(f"The messages have not been issued within {_LIMIT:,} cycles.")
        _finish(cluster, flow)
        _check(cluster, setting, write=write, touched=min(count, _SPAN // size) * size)
    if len(points) < 3:
        raise NetworkFailed(f"{count} messages are too few to measure a rate.")
    (begin, first), (end, last) = points[0], points[-1]
    cycles = (end - begin) / (last - first)
    bound, binds = _bound(config, setting, size, write=write)
    return {"bytes": size, "write": write, "depth": depth, "cycles": round(cycles, 3), "bound": round(bound, 3),
            "binds": binds, "share": round(bound / cycles, 4), "bytes_per_cycle": round(size / cycles, 2)}


def latency(library: Library, setting: Setting, size: int, *, write: bool, count: int = 8) -> dict[str, Any]:
    """One message at a time, from its burst at the unit to the last response.

    Returns
    -------
    dict
        Mean ``cycles``; of them ``network`` and ``memory``: the frames' time on both segments and in the switch, and
        the latency of the peer's memory; ``units`` is the remainder, of both units in both directions.
    """
    with _pair(library, setting) as (cluster, _):
        flow = cluster.flow(0, _flow(size, write=write, count=count, depth=1, ids=1))
        _finish(cluster, flow)
        _check(cluster, setting, write=write, touched=count * size)
        cycles = cluster.result(0, flow).latency
    there, back = (frame_bytes(size, write=True), HEADER_BYTES + protocol.AETH_BYTES) if write else (
        HEADER_BYTES + protocol.RETH_BYTES, frame_bytes(size, write=False))
    network = sum(network_cycles(frame + LINE_BYTES, frame, setting.line_rate, setting.line_latency)
                  for frame in (there, back))
    return {"bytes": size, "write": write, "cycles": round(cycles, 1), "network": round(network, 1),
            "memory": setting.memory_latency, "units": round(cycles - network - setting.memory_latency, 1)}


def goodput(library: Library, setting: Setting, loss: float, *, selective: bool, size: int, count: int,
            depth: int) -> dict[str, Any]:
    """WRITEs on one queue pair while frames are lost in both directions.

    Returns
    -------
    dict
        ``messages``; ``bytes_per_cycle`` of payload from the first burst to the last response; ``ideal``: the line's
        payload less the lost frames; ``share`` of it; ``resent`` packets and ``timeouts``.
    """
    config = library.config
    with _pair(library, setting, selective=selective) as (cluster, drivers):
        for port in range(2):
            cluster.fault(port, Faults(loss=loss))
        flow = cluster.flow(0, _flow(size, write=True, count=count, depth=depth, ids=min(depth, 1 << config.id_width)))
        last = _finish(cluster, flow)
        first = cluster.result(0, flow).first
        _check(cluster, setting, write=True, touched=min(count, _SPAN // size) * size)
        counters = wait(drivers[0].counters())
    bound, _ = _bound(config, setting, size, write=True)
    got, ideal = count * size / (last - first), size / bound * (1 - loss)
    return {"loss": loss, "selective": selective, "messages": count, "bytes_per_cycle": round(got, 2),
            "ideal": round(ideal, 2), "share": round(got / ideal, 4), "resent": counters["packets_resent"],
            "timeouts": counters["timeouts"]}
