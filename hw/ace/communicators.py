# SPDX-License-Identifier: Apache-2.0
"""The communicator table: shape, coordinates, and each communicator's own FSMs and slots.

Registers -> Communicators -> decoder, chunker, FSM pool.  Latency: 0.  Throughput: one look-up per port and cycle.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sizes import DOMAIN_WIDTH
from hw.common.sweep import SweepSignature
from hw.common.table import Table

from .config import ONE_SHOT_WIDTH, AceConfig

__all__ = [
    "EPOCH_WIDTH", "PRIORITY_WIDTH", "CommunicatorWrite", "Communicators", "ShapeRead", "ShareRead", "mode_layout",
    "own", "shape_layout", "share_layout",
]

EPOCH_WIDTH = 4
PRIORITY_WIDTH = 2

_COORDINATE = 7
"""Bits of a coordinate, and of a size less one."""


def share_layout(config):
    """A communicator's own FSMs and slots: a power of two of each; a chunk's sequence number selects one of each."""
    return data.StructLayout({
        "fsm_first": config.fsm_bits, "fsm_mask": config.fsm_bits,
        "slot_first": config.slot_bits, "slot_mask": config.slot_bits,
    })


def shape_layout(config):
    """Sizes less one, this endpoint's coordinates, the bits of each of the root's coordinates, and the most bytes of a
    one-shot all-reduce."""
    return data.StructLayout({
        "valid": 1, "domain": DOMAIN_WIDTH,
        "sizes": data.ArrayLayout(_COORDINATE, config.dimensions),
        "coordinates": data.ArrayLayout(_COORDINATE, config.dimensions),
        "root_widths": data.ArrayLayout(4, config.dimensions), "ranks": 8,
        "one_shot": ONE_SHOT_WIDTH,
    })


def mode_layout(config):
    """Mode of a communicator: the ``ports`` that its programs use, and the ``rank`` of this endpoint."""
    return data.StructLayout({
        "valid": 1, "epoch": EPOCH_WIDTH, "priority": PRIORITY_WIDTH, "ports": config.ports, "rank": 8})


class CommunicatorWrite(wiring.Signature):
    """Write of one entry of the communicator table, from the registers to every stage that stores a part of it.

    The registers assert ``valid`` for one cycle per write; the new entry is valid from the next cycle on. There is no
    back-pressure. Software writes an entry only while the communicator has no work in progress.

    Members
    -------
    valid : ``Out(1)``
    number : ``Out(communicator)``
        Entry to write.
    share : ``Out(share_layout)``, shape : ``Out(shape_layout)``, mode : ``Out(mode_layout)``
        The entry.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "valid": Out(1), "number": Out(config.communicator_bits), "share": Out(share_layout(config)),
            "shape": Out(shape_layout(config)), "mode": Out(mode_layout(config)),
        })


class ShareRead(wiring.Signature):
    """Read port of a communicator's share. The reader drives ``number``; ``share`` follows in the same cycle."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"number": Out(config.communicator_bits), "share": In(share_layout(config))})


class ShapeRead(wiring.Signature):
    """Read port of a communicator's shape. The reader drives ``number``; ``shape`` follows in the same cycle."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"number": Out(config.communicator_bits), "shape": In(shape_layout(config))})


class Communicators(wiring.Component):
    """Store the table; after reset no entry is valid.

    Parameters
    ----------
    config : AceConfig
    shares : int
        Read ports for shares.

    Members
    -------
    init : ``In(SweepSignature)``
    write : ``In(CommunicatorWrite)``
    shares : ``In(ShareRead).array(shares)``
    shape : ``In(ShapeRead)``
    """

    def __init__(self, config: AceConfig, *, shares: int) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "write": In(CommunicatorWrite(config)),
            "shares": In(ShareRead(config)).array(shares), "shape": In(ShapeRead(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, init, write = self.config, SweepSignature(self.config), self.write
        m.submodules.shares = shares = Table(share_layout(config), depth=config.communicators,
                                             reads=len(self.shares), init=init)
        m.submodules.shapes = shapes = Table(shape_layout(config), depth=config.communicators, reads=1, init=init)
        for table, row in ((shares, write.share), (shapes, write.shape)):
            wiring.connect(m, wiring.flipped(self.init), table.init)
            m.d.comb += [table.write.en.eq(write.valid), table.write.addr.eq(write.number), table.write.data.eq(row)]
        for read, port in zip(shares.read, self.shares, strict=True):
            m.d.comb += [read.addr.eq(port.number), port.share.eq(read.data)]
        m.d.comb += [shapes.read[0].addr.eq(self.shape.number), self.shape.shape.eq(shapes.read[0].data)]
        return m


def own(share, sequence):
    """FSM and slot of the chunk with this sequence number."""
    return (share.fsm_first + (sequence & share.fsm_mask))[:len(share.fsm_first)], (
        share.slot_first + (sequence & share.slot_mask))[:len(share.slot_first)]
