# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""The trigger unit with flat ports for a C++ bench, and the order of its operations."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.triggers.config import PAGE_WIDTH, TriggerConfig
from hw.triggers.layouts import CODE_WIDTH, RowLayout
from hw.triggers.unit import TriggerUnit

__all__ = ["SOURCES", "ProbedTriggers"]

SOURCES = ("stores", "chain", "local", "remote", "clear", "read")
"""Sources of operations; the verdict on an operation is shown one cycle after the table has taken it."""

PORTS = ("local", "remote")
ENGINES = ("dma", "ace")


class ProbedTriggers(wiring.Component):
    """A :class:`TriggerUnit` as it is, with further outputs. Its module is a part of this one.

    Parameters
    ----------
    config : TriggerConfig

    Members
    -------
    post_page : ``Out(8)``, post_data : ``Out(128)``, post_valid : ``Out(2)``
        The word that is posted to the DMA engine or the accelerator.
    done : ``Out(6)``, done_code : ``Out(3)``, done_row : ``Out(52)``, done_counter : ``Out``
        Source of an operation, the table's verdict in the previous cycle, the row and the counter.
    left : ``Out(1)``, left_counter : ``Out``
        A firing left the table in the previous cycle; not in the same cycle as an operation.
    """

    def __init__(self, config: TriggerConfig) -> None:
        self.config = config
        self.unit = unit = TriggerUnit(config)
        bus = unit.bus.signature.members
        super().__init__({
            **{pin: bus[pin].flow(bus[pin].shape) for pin in (
                "awvalid", "awready", "awaddr", "awlen", "awid", "wvalid", "wready", "wdata", "wstrb", "wlast",
                "bvalid", "bready", "bid", "bresp")},
            **{f"{port}_{name}": flow for port in PORTS for name, flow in (
                ("valid", In(1)), ("ready", Out(1)), ("payload", In(64)), ("verdict", Out(1)), ("code", Out(3)))},
            "post_valid": Out(2), "post_ready": In(2), "post_refused": In(2), "post_page": Out(PAGE_WIDTH),
            "post_data": Out(128), "free": In(128),
            "pages_valid": In(1), "reset_valid": In(1), "select_valid": In(1), "setting_block": In(config.block_bits),
            "setting_counter": In(config.counter_bits), "setting_pages": In(128),
            "busy": Out(8), "row": Out(RowLayout.size), "row_valid": Out(1), "refusal": Out(1),
            "refusal_block": Out(8), "refusal_index": Out(8), "refusal_code": Out(8), "ticked": Out(1),
            "fired": Out(1), "refused": Out(2),
            "done": Out(len(SOURCES)), "done_code": Out(CODE_WIDTH), "done_row": Out(RowLayout.size),
            "done_counter": Out(config.counter_bits), "left": Out(1), "left_counter": Out(config.counter_bits),
        })

    def elaborate(self, platform):
        m = Module()
        unit, settings, status = self.unit, self.unit.settings, self.unit.status
        m.submodules.unit = inner = unit.elaborate(platform)
        for pin, member in unit.bus.signature.members.items():
            ours = getattr(self, pin, None)
            theirs = Value.cast(getattr(unit.bus, pin))
            if member.flow is In:
                m.d.comb += theirs.eq({"awsize": 4, "awburst": 1}.get(pin, 0) if ours is None else ours)
            elif ours is not None:
                m.d.comb += Value.cast(ours).eq(theirs)
        for name in PORTS:
            port = getattr(unit, name)
            m.d.comb += [
                port.valid.eq(getattr(self, f"{name}_valid")),
                port.payload.as_value().eq(getattr(self, f"{name}_payload")),
                getattr(self, f"{name}_ready").eq(port.ready),
                getattr(self, f"{name}_verdict").eq(port.verdict.valid),
                getattr(self, f"{name}_code").eq(port.verdict.code),
            ]
        first = 0
        for number, name in enumerate(ENGINES):
            port, pages = getattr(unit, name), getattr(self.config, f"{name}_pages")
            m.d.comb += [
                port.words.ready.eq(self.post_ready[number]), port.words.refused.eq(self.post_refused[number]),
                port.free.eq(self.free[first:first + pages]), self.post_valid[number].eq(port.words.valid),
            ]
            with m.If(port.words.valid):
                m.d.comb += [self.post_page.eq(port.words.payload.queue + first),
                             self.post_data.eq(port.words.payload.data)]
            first += pages
        m.d.comb += [
            settings.pages_valid.eq(self.pages_valid), settings.pages_block.eq(self.setting_block),
            settings.pages.eq(self.setting_pages), settings.reset_valid.eq(self.reset_valid),
            settings.reset_block.eq(self.setting_block), settings.select_valid.eq(self.select_valid),
            settings.select_counter.eq(self.setting_counter),
            self.busy.eq(status.busy), self.row.eq(status.row), self.row_valid.eq(status.row_valid),
            self.refusal.eq(status.refusal.valid), self.refusal_block.eq(status.refusal.block),
            self.refusal_index.eq(status.refusal.index), self.refusal_code.eq(status.refusal.code),
            self.ticked.eq(status.counts.ticked), self.fired.eq(status.counts.fired),
            self.refused.eq(status.counts.refused),
        ]
        operations, firing = inner.submodules.operations, inner.submodules.table.firing
        verdicts = operations.stores.verdict, *(port.verdict for port in operations.ticks)
        m.d.comb += [
            self.done.eq(Cat(*(verdict.valid for verdict in verdicts), operations.cleared, operations.done_read)),
            self.done_code.eq(operations.stores.verdict.code), self.done_row.eq(operations.read_row),
            self.left.eq(firing.valid), self.left_counter.eq(firing.payload.counter),
            self.done_counter.eq(Cat(operations.refusal.index, operations.refusal.block)),
        ]
        return m
