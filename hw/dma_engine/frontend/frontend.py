# SPDX-License-Identifier: Apache-2.0
"""The front end: from doorbells to segments with checked addresses.

              stores                       words
    ┌──────────┐  ┌───────────┐  ┌──────────┐  ┌────────┐ heads  ┌───────────┐ scheduled
    │ doorbell │─▶│ ark_words │─▶│ arrivals │─▶│ queues │◀──────▶│ scheduler │────────┐
    └──────────┘  └───────────┘  └──────────┘  └────────┘        └───────────┘        │
         │ tails                      ▲ ring_words       shares ▲   ▲ credit, blocked │
         ▼                            │                         ▼   │                 ▼
       rings ─────────────────────────┘                  ┌────────┐ │        ┌───────────┐ segments
                                                         │ shares │ │        │ legalizer │─────────▶ read issue
                        ┌────────┐ ┌─────────┐           └────────┘ │        └───────────┘
                        │ credit │ │ targets │──────────────────────┘          ▲   ▲   ▲
                        └────────┘ └─────────┘                                 │   │   │
                                                                    regions, pages, settings
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiSignature
from hw.common.doorbell import WORD_BITS, Doorbell, TailPortSignature
from hw.common.posts import PostPortSignature
from hw.common.regions import RegionTable, RegionWriteSignature
from hw.common.sweep import SweepSignature
from hw.common.wiring import Wiring
from hw.dma_engine.completion.retire import HeadLookupSignature
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.configuration import (
    ConnectionWriteSignature,
    PageWriteSignature,
    QueueStatesSignature,
    QueueWriteSignature,
    TargetSettingsSignature,
)
from hw.dma_engine.control.epochs import EpochLookupSignature
from hw.dma_engine.layouts import event_layout, ring_word_layout, segment_layout
from hw.dma_engine.strobes import QueueStrobeSignature, RetiredSignature, ReturnedSignature, ScheduledSignature

from .ark_words import ArkWords
from .arrivals import Arrivals
from .legalizer import Legalizer
from .pages import PageTable
from .queues import OccupancySignature, QueueStore
from .scheduler import Scheduler, TailLookupSignature
from .segment_credit import SegmentCredit
from .settings import QueueSettingsTable, SettingsLookupSignature
from .shares import Shares
from .targets import TargetLimits
from .window_pool import WindowPool

__all__ = ["FrontEnd", "FrontEndActivitySignature"]


class FrontEndActivitySignature(wiring.Signature):
    """Events of the front end in this cycle, for counters and traces: a word was accepted or refused; a pick was
    dropped.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"posted": Out(QueueStrobeSignature(config)), "refused": Out(1),
                          "dropped": Out(QueueStrobeSignature(config))})


class FrontEnd(wiring.Component):
    """Accept words, pick one segment per cycle, and check it. Only connects.

    Parameters
    ----------
    config : DmaConfig
    posts : bool
        With ``posts``.

    Members
    -------
    init : ``In(SweepSignature)``
    s_axi_db : ``In(AxiSignature)``
        Doorbells.
    posts : ``In(PostPortSignature)``
        Words that other parts of an endpoint post.
    configure, region, page, connection, targets : ``In``
        Tables and settings that software commits.
    queues : ``In(QueueStatesSignature)``, held : ``In(queues)``
    clear, flush : ``In(QueueStrobeSignature)``
        Accept words of a queue again; drop its words.
    events : ``Out(stream.Signature(event_layout))``, occupancy : ``Out(OccupancySignature)``
        Events of queues that refuse words; state of the queues.
    tails : ``Out(TailPortSignature)``, ring_words : ``In(stream)``, consumed : ``Out(QueueStrobeSignature)``
        Descriptor rings.
    retired : ``In(RetiredSignature)``, returned : ``In(ReturnedSignature)``
    head : ``Out(HeadLookupSignature)``, epoch : ``Out(EpochLookupSignature)``, phase : ``In(1)``
        Look-ups of the scheduler; the phase of the segments that it looks up.
    lookup : ``In(TailLookupSignature)``, settings : ``In(SettingsLookupSignature)``
    scheduled : ``Out(ScheduledSignature)``, segments : ``Out(stream.Signature(segment_layout))``
    activity : ``Out(FrontEndActivitySignature)``
    """

    def __init__(self, config: DmaConfig, *, posts: bool = False) -> None:
        self.config, self.has_posts = config, posts
        strobe = QueueStrobeSignature(config)
        super().__init__({
            "init": In(SweepSignature(config)),
            "s_axi_db": In(AxiSignature(addr_width=config.doorbell_addr_width, data_width=WORD_BITS,
                                        id_width=config.doorbell_id_width)),
            "configure": In(QueueWriteSignature(config)), "region": In(RegionWriteSignature(config)),
            "page": In(PageWriteSignature(config)), "connection": In(ConnectionWriteSignature(config)),
            "targets": In(TargetSettingsSignature(config)),
            "queues": In(QueueStatesSignature(config)), "held": In(config.queues),
            "clear": In(strobe), "flush": In(strobe),
            "events": Out(stream.Signature(event_layout(config))), "occupancy": Out(OccupancySignature(config)),
            "tails": Out(TailPortSignature(config)), "ring_words": In(stream.Signature(ring_word_layout(config))),
            "consumed": Out(strobe),
            "retired": In(RetiredSignature(config)), "returned": In(ReturnedSignature(config)),
            "head": Out(HeadLookupSignature(config)), "epoch": Out(EpochLookupSignature(config)), "phase": In(1),
            "lookup": In(TailLookupSignature(config)), "settings": In(SettingsLookupSignature(config)),
            "scheduled": Out(ScheduledSignature(config)),
            "segments": Out(stream.Signature(segment_layout(config))),
            "activity": Out(FrontEndActivitySignature(config)),
            **({"posts": In(PostPortSignature(config.queues))} if posts else {}),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        wires = Wiring(m, self)
        wires.add(doorbell=Doorbell(config, posts=self.has_posts), ark_words=ArkWords(config),
                  arrivals=Arrivals(config), queues=QueueStore(config), shares=Shares(config),
                  scheduler=Scheduler(config), credit=SegmentCredit(config), regions=RegionTable(config),
                  pages=PageTable(config), settings=QueueSettingsTable(config),
                  legalizer=Legalizer(config), targets=TargetLimits(config), pool=WindowPool(config))
        wires.broadcast("self.init", "doorbell.init", "ark_words.init", "queues.init", "scheduler.init", "shares.init",
                        "pool.init", "regions.init", "pages.init", "settings.init")
        wires.broadcast("self.configure", "ark_words.configure", "scheduler.configure", "shares.configure",
                        "targets.configure", "settings.configure")
        wires.broadcast("self.queues", "queues.queues", "scheduler.queues")

        # -- Words.
        wires.connect("self.s_axi_db", "doorbell.bus")
        if self.has_posts:
            wires.connect("self.posts", "doorbell.posts")
            wires.connect("queues.vacant", "doorbell.vacant")
        else:
            wires.leave_open("queues.vacant", "only posts need it")
        wires.connect("doorbell.o", "ark_words.i")
        wires.connect("self.connection", "ark_words.connection")
        wires.connect("doorbell.tails", "self.tails")
        wires.connect("ark_words.o", "arrivals.doorbells")
        wires.connect("self.ring_words", "arrivals.rings")
        wires.connect("arrivals.o", "queues.i")
        wires.connect("self.clear", "queues.clear")
        wires.connect("queues.events", "self.events")
        wires.connect("queues.occupancy", "self.occupancy")
        wires.connect("queues.posted", "self.activity.posted")
        wires.connect("queues.refused", "self.activity.refused")

        # -- Picks.
        wires.connect("scheduler.queue_heads", "queues.queue_heads")
        wires.connect("scheduler.shares", "shares.scheduler")
        wires.connect("scheduler.credit", "credit.scheduler")
        wires.connect("legalizer.issued", "credit.issued")
        wires.connect("targets.blocked", "scheduler.blocked")
        wires.connect("self.held", "scheduler.held")
        wires.connect("self.flush", "scheduler.flush")
        wires.connect("scheduler.pool", "pool.scheduler")
        wires.broadcast("self.retired", "scheduler.retired", "pool.retired")
        wires.connect("legalizer.abort", "scheduler.abort")
        wires.connect("scheduler.head", "self.head")
        wires.connect("scheduler.epoch", "self.epoch")
        wires.connect("self.phase", "scheduler.phase")
        wires.connect("self.lookup", "scheduler.lookup")
        wires.connect("scheduler.consumed", "self.consumed")
        wires.connect("scheduler.dropped", "self.activity.dropped")
        wires.broadcast("scheduler.scheduled", "legalizer.scheduled", "shares.scheduled", "settings.scheduled",
                        "self.scheduled")

        # -- Checks and addresses.
        wires.connect("self.region", "regions.write")
        wires.connect("scheduler.regions", "regions.lookup")
        wires.connect("regions.entries", "legalizer.regions")
        wires.connect("self.page", "pages.write")
        wires.connect("legalizer.pages", "pages.lookup")
        wires.broadcast("settings.issue", "legalizer.settings", "shares.settings")
        wires.connect("self.settings", "settings.lookup")
        wires.connect("legalizer.o", "self.segments")
        wires.connect("legalizer.entered", "targets.entered")
        wires.connect("self.returned", "targets.returned")
        wires.connect("self.targets", "targets.settings")
        wires.finish()
        return m
