# SPDX-License-Identifier: Apache-2.0
"""The buffer of frames that are not RoCEv2 for this station, for software or a network interface behind it.

FrameParser's pipeline -> OtherFrames -> ``other``.  Latency: 2 cycles from a frame's last beat.  Throughput: one beat
per cycle.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiStreamSignature
from hw.rdma.config import RdmaConfig
from hw.stream import CommitQueue

from .lanes import up_to

__all__ = ["OTHER_BYTES", "OtherFrames"]

OTHER_BYTES = 8192
"""Bytes of frames that are held; a longer frame is dropped."""


class OtherFrames(wiring.Component):
    """Store each frame as it comes, and keep it or drop it at its end.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    valid : ``In(1)``, data : ``In(data_width)``, last_lane : ``In(lane_bits)``, first, last : ``In(1)``
        A beat of a frame, and its last used lane.
    keep : ``In(1)``
        With ``last``: the frame is to be passed on.
    fits : ``Out(1)``
        With ``last``: it has found free entries. If not, it is dropped.
    o : ``Out(AxiStreamSignature)``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "valid": In(1), "data": In(config.data_width), "last_lane": In(config.lane_bits), "first": In(1),
            "last": In(1), "keep": In(1), "fits": Out(1), "o": Out(AxiStreamSignature(data_width=config.data_width)),
        })

    def elaborate(self, platform):
        m = Module()
        row = data.StructLayout({"data": self.config.data_width, "last_lane": self.config.lane_bits, "last": 1})
        m.submodules.rows = rows = CommitQueue(row, depth=OTHER_BYTES // self.config.beat_bytes)
        lost, beat = Signal(), rows.o.payload
        m.d.comb += [
            rows.i.valid.eq(self.valid), rows.first.eq(self.first), rows.i.payload.data.eq(self.data),
            rows.i.payload.last_lane.eq(self.last_lane), rows.i.payload.last.eq(self.last),
            self.fits.eq(rows.i.ready & (self.first | ~lost)), rows.commit.eq(self.last & self.keep & self.fits),
            self.o.tvalid.eq(rows.o.valid), rows.o.ready.eq(self.o.tready), self.o.tdata.eq(beat.data),
            self.o.tlast.eq(beat.last), self.o.tuser.eq(0),
            self.o.tkeep.eq(up_to(beat.last_lane, self.config.beat_bytes)),
        ]
        with m.If(self.valid):
            m.d.sync += lost.eq(~self.fits)
        return m
