# SPDX-License-Identifier: Apache-2.0
"""A bench for RequesterBuffers: a DMA engine, a transport and the peers' memory in Python.

Writes are compared at the peer: a packet is executed when it retires, in the order of its queue pair. Each packet may
be sent several times, and all copies must be equal.
"""

import os
import random
from collections import Counter, defaultdict, deque
from dataclasses import replace

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles

from hw.rdma import layouts
from hw.rdma.config import TINY
from hw.rdma.requester.buffers import RequesterBuffers
from sim.verilator.build import Design
from tests.harness.fields import Fields
from tests.rdma.dma_side import DmaSide
from tests.rdma.remote_memory import PAGE, Remote, SparseMemory
from tests.rdma.streams import Ports, Sink, Source
from tests.rdma.transport_side import TransportSide

__all__ = ["CONFIGS", "FAR", "LENGTH", "MTUS", "REMOTES", "RequesterBench", "live_bench", "prepare", "simulate_buffers"]

CONFIGS = {
    "TINY": TINY, "SINGLE": replace(TINY, block_beats=1, buffer_beats=512, id_width=4),
    "SMALL": replace(TINY, max_mtu=4096, packets=16, buffer_beats=1024, receive_beats=2048, response_beats=1024),
    "BROAD": replace(TINY, data_width=512, max_mtu=4096, buffer_beats=128, block_beats=2),
}

REMOTES = {3: (1, 0x7654_3210_0000), 5: (2, 0x1_0000_0033), 15: (6, 0xFFFF_0000_0000_0000), 0: (7, 123)}
"""Number -> queue pair and virtual address of offset 0."""

MTUS = {1: 256, 2: 1024, 6: 4096, 7: 512}
SELECTIVE = {2, 7}
LENGTH = 16 * PAGE + 1234
FAR = 0x7FFF_FFFF_F000
"""Length of remote memory 15."""


class RequesterBench(DmaSide, TransportSide):
    """Drives all ports of a unit whose configuration is ``config``.

    Parameters
    ----------
    dut
        Under cocotb.
    config : RdmaConfig
    rng : random.Random
    source, sink : float
        Chance per cycle that an idle source offers its next item, and that a sink accepts.
    resends : float
        Chance that a packet is sent again, each time.
    fails : float
        Chance that a packet makes its queue pair fail.
    automatic : bool
        The transport works by itself; else the test calls ``send``, ``give`` and ``retire``.
    """

    def __init__(self, dut, config, rng, *, source=1.0, sink=1.0, resends=0.0, fails=0.0, automatic=True):
        self.ports, self.config, self.rng = Ports(dut), config, rng
        self.resends, self.fails, self.automatic = resends, fails, automatic
        self.sources = {name: Source(self, name, source)
                        for name in ("writes", "reads", "send", "returned", "retire")}
        self.sinks = {name: Sink(self, name, sink)
                      for name in ("responses", "beats", "posted", "packets")}
        self.cycle, self.seen = 0, Counter()
        self.remotes, self.mtu, self.selective = {}, {}, {}
        self.writes, self.reads = {}, {}            # ID -> burst
        self.order = defaultdict(deque)             # queue pair -> packets posted and not retired
        self.posted = {}                            # index -> packet
        self.sends = deque()                        # expected on ``packets``: packet, PSN, ackreq
        self.failed = set()                         # queue pairs
        self.messages = {}                          # queue pair -> message in progress at the peer
        self.times = defaultdict(list)
        self.kinds, self.errors = [], 0             # of posted packets: whether it is a READ; beats with an error
        self._packet = None

    def chance(self, probability):
        return probability >= 1 or (probability > 0 and self.rng.random() < probability)

    # -- Settings.

    async def start(self):
        for name in ("connections", "remotes"):
            self.ports.set(f"{name}.valid", 0)
        for _ in range(self.config.sweep_rows + 2):
            await self.step()

    async def connect(self, qp, *, mtu, selective=False, is_open=True):
        self.mtu[qp], self.selective[qp] = mtu, selective
        await self._commit("connections", "qp", qp, layouts.connection_layout(), {
            "open": is_open, "mtu": mtu.bit_length() - 9, "selective": selective})

    async def define(self, number, *, qp, va, length, valid=True):
        remote = Remote(number, qp, self.rng.getrandbits(32), va, length, SparseMemory(self.rng))
        self.remotes[number] = remote
        await self._commit("remotes", "remote", number, layouts.remote_layout(self.config), {
            "valid": valid, "qp": qp, "rkey": remote.rkey, "va": va, "length": length})
        return remote

    async def _commit(self, name, index, number, layout, fields):
        self.ports.set(f"{name}.valid", 1)
        self.ports.set(f"{name}.{index}", number)
        self.ports.set(f"{name}.entry", Fields(layout).pack(fields))
        await self.step()
        self.ports.set(f"{name}.valid", 0)

    # -- Cycles.

    async def step(self):
        """One cycle."""
        for end in (*self.sources.values(), *self.sinks.values()):
            end.begin()
        await self.ports.settle()
        found = {name: sink.end() for name, sink in self.sinks.items()}
        taken = [(name, source.end()) for name, source in self.sources.items()]
        self.stalled = self.ports.get("counts.stalled")
        self.seen["stalled"] += self.stalled
        self.seen["refused"] += self.ports.get("counts.refused")
        await self.ports.tick()
        self.cycle += 1
        for name, handle in (("posted", self._post), ("packets", self._emit), ("responses", self._respond),
                             ("beats", self._deliver)):
            if found[name] is not None:
                handle(found[name])
        for name, what in taken:
            if what is not None:
                self.times[f"{name} in"].append(self.cycle - 1)
                self._accepted(what)
        if self.automatic:
            self._work()

    @property
    def busy(self):
        return bool(self.writes or self.reads or self.posted or self.sends
                    or any(source.queue for source in self.sources.values()))

    async def drain(self, limit=2000):
        """Until nothing is in flight, and then until all entries and blocks are free.

        ``limit``: cycles without progress.
        """
        last, since = None, self.cycle
        while self.busy:
            await self.step()
            progress = len(self.sources["writes"].queue), sum(map(len, self.times.values())), len(self.posted)
            if progress != last:
                last, since = progress, self.cycle
            assert self.cycle - since < limit, f"{self.writes} {self.reads} {self.posted} {self.sends}"
        for _ in range(8):
            await self.step()
        assert self.free() == (self.config.packets, self.config.blocks)

    def free(self):
        """Free entries and blocks."""
        return self.ports.get("free.packets"), self.ports.get("free.blocks")


async def prepare(bench):
    """Open the queue pairs and define the remote memories above."""
    await bench.start()
    for qp, mtu in MTUS.items():
        await bench.connect(qp, mtu=min(mtu, bench.config.max_mtu), selective=qp in SELECTIVE)
    for number, (qp, va) in REMOTES.items():
        await bench.define(number, qp=qp, va=va, length=FAR if number == 15 else LENGTH)


async def live_bench(dut, **options):
    """A prepared bench on a design under cocotb, after a reset; the configuration is named by ``RDMA_CONFIG``."""
    cocotb.start_soon(Clock(dut.clk, 4, unit="ns").start())
    dut.rst.value = 1
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    rng = random.Random(f"{os.environ['COCOTB_RANDOM_SEED']} {options}")
    bench = RequesterBench(dut, CONFIGS[os.environ["RDMA_CONFIG"]], rng, **options)
    await prepare(bench)
    return bench


def simulate_buffers(simulate, name, testcase, **env):
    """Run cocotb tests of the calling module on configuration ``name``."""
    simulate(Design(RequesterBuffers, CONFIGS[name]), testcase=testcase, name=f"requester_buffers_{name.lower()}",
             env={"RDMA_CONFIG": name, **env})
