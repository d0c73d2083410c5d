# SPDX-License-Identifier: Apache-2.0
"""Addresses of each queue pair's peer, for the headers of the frames to it.

Latency: a look-up takes 1 cycle; an opened queue pair is known ``OPEN_CYCLES`` after the strobe.  Throughput: one
look-up per cycle.
"""

from functools import reduce
from operator import add

from amaranth import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from hw.common.delay import delayed
from hw.common.table import Table, ram_of
from hw.rdma.config import RdmaConfig
from hw.rdma.ports import ConnectionWrite, StationSettings
from hw.rdma.protocol import QPN_WIDTH
from hw.stream.storage import NO_COLLISION

__all__ = ["OPEN_CYCLES", "PeerTable", "folded", "peer_layout"]

OPEN_CYCLES = 4

PROTOCOL_UDP, IPV4_VERSION, IPV4_FLAGS = 17, 0x45, 0x4000
"""IP protocol number of UDP; IPv4 version and header length; its word of flags: do not fragment."""


def peer_layout():
    """The peer of a queue pair. ``checksum``: sum of the IPv4 header without its length, folded to 16 bits."""
    return data.StructLayout({
        "mac": 48, "ip": 128, "vlan_tag": 16, "udp_port": 16, "traffic_class": 8, "hop_limit": 8, "qpn": QPN_WIDTH,
        "checksum": 16})


def folded(total):
    """A sum of 16-bit words with its carries added to it once."""
    return total[:16] + total[16:]


class PeerTable(wiring.Component):
    """Written when software opens a queue pair. Closing one changes nothing: packets in flight still leave.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    connections : ``In(ConnectionWrite)``, station : ``In(StationSettings)``
    qp : ``In``, read : ``In(1)``
        Queue pair to look up.
    ipv6, vlan : ``Out(1)``
        Of queue pair ``qp``, combinational.
    peer : ``Out(peer_layout())``
        Of the last ``qp`` with ``read``, from the next cycle on.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "connections": In(ConnectionWrite(config)), "station": In(StationSettings()),
            "qp": In(config.qp_bits), "read": In(1), "ipv6": Out(1), "vlan": Out(1), "peer": Out(peer_layout()),
        })

    def elaborate(self, platform):
        m = Module()
        depth = self.config.queue_pairs
        m.submodules.shapes = shapes = Table(2, depth=depth, reads=1, init=None)
        m.submodules.rows = rows = memory.Memory(
            shape=peer_layout(), depth=depth, init=[], attrs=ram_of(depth) | NO_COLLISION)
        entry, opens = self.connections.entry, self.connections.valid & self.connections.entry.open
        m.d.comb += [
            shapes.write.en.eq(opens), shapes.write.addr.eq(self.connections.qp),
            shapes.write.data.eq(Cat(entry.ipv6, entry.vlan)),
            shapes.read[0].addr.eq(self.qp), Cat(self.ipv6, self.vlan).eq(shapes.read[0].data),
        ]
        write, read = rows.write_port(), rows.read_port()
        m.d.comb += [read.addr.eq(self.qp), read.en.eq(self.read), self.peer.eq(read.data)]

        # The sum of the constant words of an IPv4 header, in three cycles.
        source, target = self.station.ipv4, entry.peer_ip[:32]
        words = [Cat(entry.traffic_class, C(IPV4_VERSION, 8)), Cat(C(PROTOCOL_UDP, 8), entry.hop_limit),
                 source[:16], source[16:], target[:16], target[16:]]
        pairs = [Signal(18, name=f"pair_{index}", reset_less=True) for index in range(3)]
        total, once = Signal(19, reset_less=True), Signal(17, reset_less=True)
        m.d.sync += [*(pair.eq(words[2 * index] + words[2 * index + 1]) for index, pair in enumerate(pairs)),
                     total.eq(reduce(add, pairs) + IPV4_FLAGS), once.eq(folded(total))]
        row = Signal(peer_layout())
        m.d.comb += [
            row.mac.eq(entry.peer_mac), row.ip.eq(entry.peer_ip), row.qpn.eq(entry.peer_qpn),
            *(row[name].eq(entry[name]) for name in ("vlan_tag", "udp_port", "traffic_class", "hop_limit")),
        ]
        fields = delayed(m, row, OPEN_CYCLES - 1, name="fields")
        m.d.comb += [
            write.en.eq(delayed(m, opens, OPEN_CYCLES - 1, name="opens", reset_less=False)),
            write.addr.eq(delayed(m, self.connections.qp, OPEN_CYCLES - 1, name="opened")),
            write.data.eq(fields), write.data.checksum.eq(folded(once)),
        ]
        return m
