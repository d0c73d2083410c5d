# SPDX-License-Identifier: Apache-2.0
"""Trigger counters of an endpoint. Only connects.

::

    bus -> TriggerStores --+                  +-> words ---------------+
    local, remote ---------+-> OperationMerge -> TriggerTable          v
    chains ----------------+          ^            |  ^   firing -> TriggerPoster -> dma, ace, chains
    registers -> BlockResets ---------+        due v  | leave          ^
                                              PendingFirings --- pages +
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiSignature
from hw.common.posts import WORD_BITS, PostPortSignature
from hw.common.wiring import Wiring

from .config import TriggerConfig
from .inspection import TriggerInspection
from .operations import OperationMerge
from .pending import PendingFirings
from .ports import TickSignature, TriggerSettings, TriggerStatus
from .poster import TriggerPoster
from .resets import BlockResets
from .stores import TriggerStores
from .table import TriggerTable

__all__ = ["TriggerUnit"]


class TriggerUnit(wiring.Component):
    """Count ticks, and post prepared words at thresholds; ``docs/triggers.md`` is the contract.

    From the W handshake of a tick to the posted word in the engine's doorbell stage: 4 cycles, 9 with ``pipelined``;
    where a word that is stored to the doorbell itself takes 1.

    Parameters
    ----------
    config : TriggerConfig

    Members
    -------
    bus : ``In(AxiSignature)``
        Stores to the trigger pages.
    local, remote : ``In(TickSignature)``
        Ticks of requests of this endpoint, and of its neighbours.
    dma, ace : ``Out(PostPortSignature)``
        Words to the queues of the engines.
    settings : ``In(TriggerSettings)``, status : ``Out(TriggerStatus)``
        From the registers and to them.
    """

    def __init__(self, config: TriggerConfig) -> None:
        self.config = config
        super().__init__({
            "bus": In(AxiSignature(addr_width=config.doorbell_addr_width, data_width=WORD_BITS,
                                   id_width=config.doorbell_id_width)),
            "local": In(TickSignature(config)), "remote": In(TickSignature(config)),
            "dma": Out(PostPortSignature(config.dma_pages)), "ace": Out(PostPortSignature(config.ace_pages)),
            "settings": In(TriggerSettings(config)), "status": Out(TriggerStatus(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(stores=TriggerStores(config), operations=OperationMerge(config),
                  table=TriggerTable(config), pending=PendingFirings(config), poster=TriggerPoster(config),
                  resets=BlockResets(config), inspection=TriggerInspection(config))

        # -- Operations.
        wires.connect("self.bus", "stores.bus")
        wires.connect("stores.ops", "operations.stores")
        for number, source in enumerate(("poster.chain", "self.local", "self.remote")):
            wires.connect(source, f"operations.ticks[{number}]")
        wires.connect("resets.clear", "operations.clear")
        wires.connect("operations.cleared", "resets.cleared")
        wires.connect("operations.ops", "table.ops")
        wires.connect("table.code", "operations.code")
        wires.connect("table.row", "operations.row")
        wires.connect("table.words", "poster.words")

        # -- Firings.
        wires.connect("table.due", "pending.due")
        wires.connect("pending.pages", "poster.pages")
        wires.connect("poster.ready", "pending.ready")
        wires.broadcast("pending.leave", "table.leave", "poster.leave")
        wires.connect("table.requeue", "pending.requeue")
        wires.connect("table.firing", "poster.firing")
        wires.connect("poster.dma", "self.dma")
        wires.connect("poster.ace", "self.ace")

        # -- Registers.
        wires.broadcast("self.settings", "pending.settings", "poster.settings", "resets.settings",
                        "inspection.settings")
        wires.connect("poster.active", "resets.active")
        wires.broadcast("resets.busy", "table.resetting", "pending.resetting", "inspection.busy")
        wires.connect("inspection.read", "operations.read")
        wires.connect("operations.done_read", "inspection.done_read")
        wires.connect("operations.read_row", "inspection.read_row")
        wires.connect("operations.ticked", "inspection.ticked")
        wires.connect("operations.refusal", "inspection.refusals[0]")
        wires.connect("poster.refusal", "inspection.refusals[1]")
        wires.connect("poster.fired", "inspection.fired")
        wires.connect("inspection.status", "self.status")
        wires.finish()
        return m
