# SPDX-License-Identifier: Apache-2.0
"""The RoCEv2 unit's registers in gateware: station, queue pairs, memory tables, status, counts of events, interrupt.

s_axil -> RegisterWindow -> RdmaControl -> all stages.  Latency: as ``hw.regs.RegisterBank``.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.axi import AxiLiteSignature
from hw.common.sweep import SweepSignature
from hw.regs import RegisterBank

from .config import RdmaConfig
from .fault_log import FaultState, fault_layout
from .frames.frame_parser import FrameCounts
from .frames.receive_dispatch import DispatchCounts
from .ports import (
    ConnectionWrite,
    MarkSignature,
    RecordsTaken,
    RegionWrite,
    RemoteWrite,
    RequesterStatus,
    ResponderStatus,
    StationSettings,
)
from .registers import COUNTERS, STAGED, register_map
from .requester.buffers.unit import BufferCounts, BufferLevels
from .requester.transport.ports import RequesterCounts
from .responder.counts import ResponderCounts

__all__ = ["RdmaControl"]


class RdmaControl(wiring.Component):
    """Hardware side of the unit's register map.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
        The bus stalls during the sweep, which would overwrite what software writes.
    bus : ``In(AxiLiteSignature)``
    writable : ``In(1)``
        Writes of connections are accepted; while they are not, the bus accepts no writes. Three may follow.
    station : ``Out(StationSettings)``, connections : ``Out(ConnectionWrite)``, regions : ``Out(RegionWrite)``,
    remotes : ``Out(RemoteWrite)``, taken : ``Out(RecordsTaken)``
        Software's settings.
    requester : ``In(RequesterStatus)``, responder : ``In(ResponderStatus)``, state : ``In(FaultState)``
        Of the queue pair that software selects.
    log : ``In(stream.Signature(fault_layout))``
        Failures, which software takes one by one.
    free : ``In(BufferLevels)``
    frame_counts, dispatch_counts, buffer_counts, requester_counts, responder_counts, notified
        Events of this cycle.
    irq : ``Out(1)``
        Registered.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "bus": In(AxiLiteSignature(addr_width=12, data_width=32)),
            "writable": In(1), "station": Out(StationSettings()), "connections": Out(ConnectionWrite(config)),
            "regions": Out(RegionWrite(config)), "remotes": Out(RemoteWrite(config)),
            "taken": Out(RecordsTaken(config)), "requester": In(RequesterStatus(config)),
            "responder": In(ResponderStatus(config)), "state": In(FaultState(config)),
            "log": In(stream.Signature(fault_layout(config))), "free": In(BufferLevels(config)),
            "frame_counts": In(FrameCounts()), "dispatch_counts": In(DispatchCounts()),
            "buffer_counts": In(BufferCounts()), "requester_counts": In(RequesterCounts()),
            "responder_counts": In(ResponderCounts()), "notified": In(MarkSignature(config)), "irq": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.bank = bank = RegisterBank(register_map(self.config))
        connect(m, flipped(self.bus), bank.bus)
        for channel, stalls in (("aw", self.init.active | ~self.writable), ("w", self.init.active),
                                ("ar", self.init.active)):
            with m.If(stalls):
                m.d.comb += [getattr(bank.bus, f"{channel}valid").eq(0), getattr(self.bus, f"{channel}ready").eq(0)]
        self._settings(m, bank)
        self._status(m, bank)
        self._counts(m, bank)
        return m

    def _settings(self, m, bank):
        entry, station = self.connections.entry, self.station
        m.d.comb += [
            station.mac.eq(_pair(bank, "mac")), station.ipv4.eq(bank.ipv4.value),
            station.ipv6.eq(Cat(getattr(bank, f"ipv6_{part}").value for part in range(4))),
            *(entry[name].eq(getattr(getattr(bank, register.lower()), name))
              for register, names in STAGED.items() for name in names),
            entry.peer_mac.eq(_pair(bank, "qp_peer_mac")), entry.ring_base.eq(_pair(bank, "qp_ring_base")),
            entry.peer_ip.eq(Cat(getattr(bank, f"qp_peer_ip_{part}").value for part in range(4))),
            entry.open.eq(bank.qp_commit.open),
            self.connections.valid.eq(bank.qp_commit.written_stb), self.connections.qp.eq(bank.qp_commit.qp),
            self.taken.valid.eq(bank.records_commit.written_stb), self.taken.qp.eq(bank.records_commit.qp),
            self.taken.head.eq(bank.records_head.head),
        ]
        region, remote = self.regions.entry, self.remotes.entry
        m.d.comb += [
            self.regions.valid.eq(bank.region_commit.written_stb), self.regions.region.eq(bank.region_commit.region),
            *(region[name].eq(_pair(bank, f"region_{name}")) for name in ("va", "length", "address")),
            *(region[name].eq(getattr(bank.region_access, name))
              for name in ("key", "domain", "readable", "writable", "valid")),
            self.remotes.valid.eq(bank.remote_commit.written_stb), self.remotes.remote.eq(bank.remote_commit.remote),
            *(remote[name].eq(_pair(bank, f"remote_{name}")) for name in ("va", "length")),
            remote.rkey.eq(bank.remote_rkey.rkey),
            *(remote[name].eq(getattr(bank.remote_access, name)) for name in ("qp", "valid")),
        ]

    def _status(self, m, bank):
        requester, responder, state, log = self.requester, self.responder, self.state, self.log
        m.d.comb += [
            *(half.qp.eq(bank.qp_select.qp) for half in (requester, responder, state)),
            bank.qp_state.open.eq(state.open), bank.qp_state.failed.eq(state.failed),
            bank.qp_state.fault.eq(Mux(state.failed, state.code, 0)), bank.qp_state.busy.eq(responder.busy),
            bank.qp_outstanding.packets.eq(requester.outstanding), bank.qp_oldest.psn.eq(requester.oldest),
            bank.qp_next.psn.eq(requester.next), bank.qp_rate.rate.eq(requester.rate),
            bank.qp_expected.psn.eq(responder.expected), bank.qp_messages.msn.eq(responder.messages),
            bank.fault.valid.eq(log.valid), bank.fault.qp.eq(log.payload.qp), bank.fault.code.eq(log.payload.code),
            log.ready.eq(bank.fault_take.written_stb & bank.fault_take.take),
            bank.free.packets.eq(self.free.packets), bank.free.blocks.eq(self.free.blocks),
            bank.irq_status.register_set.eq(bank.refused), bank.irq_status.fault_set.eq(log.valid),
        ]
        m.d.sync += self.irq.eq(Cat(getattr(bank.irq_status, name) & getattr(bank.irq_enable, name)
                                    for name in ("register", "fault")).any())

    def _counts(self, m, bank):
        frames, dispatch, buffers, requester, responder = (
            self.frame_counts, self.dispatch_counts, self.buffer_counts, self.requester_counts, self.responder_counts)
        increments = {
            "frames_received": frames.good, "frames_malformed": frames.malformed, "frames_corrupt": frames.icrc,
            "frames_overflow": frames.dropped, "frames_marked": frames.marked, "frames_unknown": dispatch.unknown,
            "frames_foreign": dispatch.wrong_source, "other_received": frames.passed, "other_dropped": frames.lost,
            "bursts_refused": buffers.refused, "buffer_stalls": buffers.stalled, "packets_sent": requester.sent,
            "packets_resent": requester.retransmitted, "packets_retired": requester.retired,
            "timeouts": requester.timeouts, "naks_received": requester.naks, "rnrs_received": requester.rnrs,
            "cnps_received": self.notified.valid, "returns_dropped": requester.dropped,
            "requests_executed": responder.executed, "requests_repeated": responder.duplicate,
            "requests_early": responder.gap, "requests_forbidden": responder.access,
            "requests_invalid": responder.invalid, "requests_not_ready": responder.not_ready,
            "responses_sent": responder.sent, "memory_unexpected": responder.unexpected,
        }
        for name in (name.lower() for name, _ in COUNTERS):
            counter, happens = Signal(32, name=f"count_{name}"), Signal(name=f"happens_{name}")
            m.d.sync += [happens.eq(increments[name]), counter.eq(counter + happens)]
            m.d.comb += getattr(bank, f"count_{name}").value.eq(counter)


def _pair(bank, name):
    return Cat(getattr(bank, f"{name}_lo").value, getattr(bank, f"{name}_hi").value)
