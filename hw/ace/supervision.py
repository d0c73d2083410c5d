# SPDX-License-Identifier: Apache-2.0
"""Supervision: which communicators are open, what ends them, and which of them make no progress.

::

    work, progress ---> Watchdog -> Faults -> CommunicatorStatus -> all stages
    memory errors, links, ABORTs, software ---^  |
                                                 +-> ABORTs to the neighbours

Latency: that of the stages.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.wiring import Wiring

from .chunk_path import ChunkReports
from .communicator_status import ActivitySignature, CommunicatorEnd, CommunicatorStatus, CommunicatorStatusSignature
from .communicators import CommunicatorWrite
from .config import AceConfig
from .faults import Faults, RecordLookup, Revoke
from .network import NetworkReports
from .operations import WorkSignature
from .pool.fsm_ports import FsmLookup
from .receive import settle_cycles
from .watchdog import Watchdog, WatchdogTimeout

__all__ = ["Supervision", "SupervisionRegisters"]


class SupervisionRegisters(wiring.Signature):
    """The registers' side of supervision: settings, and debug look-ups."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "revoke": Out(Revoke(config)), "timeout": Out(WatchdogTimeout()),
            "fsm": Out(FsmLookup(config)), "record": Out(RecordLookup(config)),
        })


class Supervision(wiring.Component):
    """
    Parameters
    ----------
    config : AceConfig

    Members
    -------
    init : ``In(SweepSignature)``
    communicator : ``In(CommunicatorWrite)``, registers : ``In(SupervisionRegisters)``
    work : ``In(WorkSignature)``
    operations, cutting, decoding : ``In(ActivitySignature)``
        See :class:`CommunicatorStatus`.
    chunks : ``In(ChunkReports)``, network : ``In(NetworkReports)``
    communicator_status : ``Out(CommunicatorStatusSignature)``, end : ``Out(CommunicatorEnd)``
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "communicator": In(CommunicatorWrite(config)), "registers": In(SupervisionRegisters(config)),
            "work": In(WorkSignature(config)),
            **{name: In(ActivitySignature(config)) for name in ("operations", "cutting", "decoding")},
            "chunks": In(ChunkReports(config)), "network": In(NetworkReports(config)),
            "communicator_status": Out(CommunicatorStatusSignature(config)), "end": Out(CommunicatorEnd(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(communicator_status=CommunicatorStatus(config, settle=settle_cycles(config)), faults=Faults(config),
                  watchdog=Watchdog(config))
        wires.connect("self.init", "faults.init")
        wires.broadcast("self.communicator", "communicator_status.write", "faults.write")
        wires.broadcast("communicator_status.communicator_status", "faults.communicator_status",
                        "watchdog.communicator_status", "self.communicator_status")
        wires.broadcast("faults.end", "communicator_status.end", "self.end")
        wires.broadcast("self.work", "faults.work", "watchdog.work")
        for name in ("operations", "cutting", "decoding"):
            wires.connect(f"self.{name}", f"communicator_status.{name}")
        wires.connect("faults.reporting", "communicator_status.reporting")

        # -- Causes.
        wires.connect("watchdog.timed_out", "faults.timed_out")
        wires.connect("self.registers.revoke", "faults.revoke")
        wires.connect("self.chunks.unread", "faults.unread")
        wires.connect("self.chunks.unwritten", "faults.unwritten")
        wires.connect("self.network.down", "faults.down")
        wires.connect("self.network.aborts", "faults.aborts")

        # -- Their effects.
        wires.connect("faults.abort", "self.network.abort")
        wires.connect("faults.fsm", "self.chunks.fsm")
        wires.connect("self.registers.fsm", "faults.shown")
        wires.connect("self.registers.record", "faults.record")

        # -- Progress.
        wires.connect("self.registers.timeout", "watchdog.timeout")
        wires.connect("self.network.progress", "watchdog.received")
        wires.connect("self.chunks.progress", "watchdog.cut")
        wires.connect("self.chunks.turns", "watchdog.turns")
        wires.connect("self.chunks.fill", "watchdog.movers[0]")
        wires.connect("self.chunks.drain", "watchdog.movers[1]")
        wires.finish()
        return m
