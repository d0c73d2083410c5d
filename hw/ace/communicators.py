"""The communicator table: shape, place in it, and which FSMs and slots are a communicator's own.

Registers -> Communicators -> intake, chunker, FSM pool.  Latency: 0.  Throughput: one look-up per port and cycle.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sizes import DOMAIN_WIDTH
from hw.common.sweep import SweepSignature
from hw.common.table import Table

__all__ = ["Communicators", "own", "shape_layout", "share_layout"]

_COORDINATE = 7
"""Bits of a coordinate, and of a size less one."""


def share_layout(config):
    """A communicator's own FSMs and slots: a power of two of each, of which a chunk's sequence picks one."""
    return data.StructLayout({
        "fsm_first": config.fsm_bits, "fsm_mask": config.fsm_bits,
        "slot_first": config.slot_bits, "slot_mask": config.slot_bits,
    })


def shape_layout(config):
    """Sizes less one, this endpoint's coordinates, and the bits of each of the root's coordinates."""
    return data.StructLayout({
        "valid": 1, "domain": DOMAIN_WIDTH,
        "sizes": data.ArrayLayout(_COORDINATE, config.dimensions),
        "place": data.ArrayLayout(_COORDINATE, config.dimensions),
        "root_widths": data.ArrayLayout(4, config.dimensions), "ranks": 8,
    })


class Communicators(wiring.Component):
    """Keep the table; after reset no entry is valid.

    Parameters
    ----------
    config : AceConfig
    shares : int
        Look-ups of shares.

    Members
    -------
    init : ``In(SweepSignature)``
    write : ``In(1)``, number, share, shape : ``In``
    share_reads : array of ``In``; ``number`` in, ``share`` out
    shape_number : ``In``, shape_read : ``Out(shape_layout)``
    """

    def __init__(self, config, *, shares):
        self.config = config
        number = config.communicator_bits
        super().__init__({
            "init": In(SweepSignature(config)),
            "write": In(1), "number": In(number), "share": In(share_layout(config)), "shape": In(shape_layout(config)),
            "share_reads": In(wiring.Signature({
                "number": Out(number), "share": In(share_layout(config))})).array(shares),
            "shape_number": In(number), "shape_read": Out(shape_layout(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, init = self.config, SweepSignature(self.config)
        m.submodules.shares = shares = Table(share_layout(config), depth=config.communicators,
                                             reads=len(self.share_reads), init=init)
        m.submodules.shapes = shapes = Table(shape_layout(config), depth=config.communicators, reads=1, init=init)
        for table, row in ((shares, self.share), (shapes, self.shape)):
            wiring.connect(m, wiring.flipped(self.init), table.init)
            m.d.comb += [table.write.en.eq(self.write), table.write.addr.eq(self.number), table.write.data.eq(row)]
        for read, port in zip(shares.read, self.share_reads, strict=True):
            m.d.comb += [read.addr.eq(port.number), port.share.eq(read.data)]
        m.d.comb += [shapes.read[0].addr.eq(self.shape_number), self.shape_read.eq(shapes.read[0].data)]
        return m


def own(share, sequence):
    """FSM and slot of a chunk of this sequence."""
    return (share.fsm_first + (sequence & share.fsm_mask))[:len(share.fsm_first)], (
        share.slot_first + (sequence & share.slot_mask))[:len(share.slot_first)]
