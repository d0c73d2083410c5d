# SPDX-License-Identifier: Apache-2.0
"""Remote memories and the state of their queue pairs, looked up once per burst.

WriteCutter, ReadCutter -> RemoteTable.  Latency: 1 cycle.  Throughput: one look-up per cycle and port.
"""

from amaranth import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.table import BLOCK_RAM, Table
from hw.rdma.config import ADDR_WIDTH, LENGTH_WIDTH, REMOTE_WIDTH, RdmaConfig
from hw.rdma.layouts import remote_layout
from hw.rdma.ports import ConnectionWrite, RemoteWrite

__all__ = ["LOOKUPS", "RemoteLookup", "RemoteTable", "target_layout"]

LOOKUPS = 2
"""Ports: one for write bursts, one for read bursts."""


def target_layout(config):
    """A remote memory, and its queue pair. ``known``: the number names a valid entry; else the rest is undefined."""
    return data.StructLayout({
        "known": 1, "open": 1, "mtu": 3, "selective": 1, "qp": config.qp_bits, "rkey": 32, "va": ADDR_WIDTH,
        "length": LENGTH_WIDTH})


class RemoteLookup(wiring.Signature):
    """Look up remote memory ``number``: ``target`` is valid from the cycle after ``en`` until the next ``en``."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"en": Out(1), "number": Out(REMOTE_WIDTH), "target": In(target_layout(config))})


class RemoteTable(wiring.Component):
    """Keep the remote memories in block RAM, a copy for each port, and options of queue pairs in LUT RAM.

    A look-up in the cycle in which the same entry is written finds no valid entry.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    connections : ``In(ConnectionWrite)``, remotes : ``In(RemoteWrite)``
        Not before the sweep has ended.
    lookups : ``In(RemoteLookup).array(LOOKUPS)``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "connections": In(ConnectionWrite(config)), "remotes": In(RemoteWrite(config)),
            "lookups": In(RemoteLookup(config)).array(LOOKUPS),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        state = data.StructLayout({"open": 1, "mtu": 3, "selective": 1})
        m.submodules.states = states = Table(
            state, depth=config.queue_pairs, reads=LOOKUPS, init=SweepSignature(config))
        wiring.connect(m, wiring.flipped(self.init), states.init)
        entry = self.connections.entry
        m.d.comb += [
            states.write.en.eq(self.connections.valid), states.write.addr.eq(self.connections.qp),
            states.write.data.open.eq(entry.open), states.write.data.mtu.eq(entry.mtu),
            states.write.data.selective.eq(entry.selective if config.selective else 0),
        ]
        layout = remote_layout(config)
        for index, lookup in enumerate(self.lookups):
            m.submodules[f"remotes_{index}"] = remotes = memory.Memory(
                shape=layout, depth=config.remotes, init=[], attrs=BLOCK_RAM)
            write, read = remotes.write_port(), remotes.read_port()
            m.d.comb += [
                write.en.eq(self.init.active | self.remotes.valid),
                write.addr.eq(Mux(self.init.active, self.init.address, self.remotes.remote)),
                Value.cast(write.data).eq(Mux(self.init.active, 0, self.remotes.entry.as_value())),
                read.en.eq(lookup.en), read.addr.eq(lookup.number),
            ]
            inside, found, qp = Signal(name=f"inside_{index}"), read.data, states.read[index]
            with m.If(lookup.en):
                m.d.sync += inside.eq(((lookup.number >> config.remote_bits) == 0)
                                      & ~(write.en & (write.addr == read.addr)))
            m.d.comb += [lookup.target[name].eq(found[name]) for name in ("qp", "rkey", "va", "length")]
            m.d.comb += [
                lookup.target.known.eq(inside & found.valid), qp.addr.eq(found.qp),
                lookup.target.open.eq(qp.data.open), lookup.target.mtu.eq(qp.data.mtu),
                lookup.target.selective.eq(qp.data.selective),
            ]
        return m
