# SPDX-License-Identifier: Apache-2.0
"""Intake of the write path: beats and MSI-X messages in one sequence, with a summary of their strobes.

Bridge, MSI-X table -> WriteIntake -> WriteSplitter.  Latency: 1 cycle.  Throughput: one beat per cycle; a message takes
one cycle. ``ready`` of both inputs is at most two levels behind registers; strobes pass four levels to a register, data
one.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.event import EventSignature
from hw.common.sizes import PAGE_BYTES

from ..attributes import tlp_attributes
from ..config import ADDR_WIDTH, ATTRIBUTE_WIDTH, DWORD_BYTES, MAX_PAYLOAD_BYTES, MIN_PAYLOAD_BYTES, PcieConfig
from ..layouts import MessageLayout, RequesterSettings, write_beat_layout
from .write_strobes import strobes_layout, summarise

__all__ = ["FLUSH_BIT", "PAGE_BITS", "WriteIntake", "payload_index_bits", "taken_beat_layout"]

FLUSH_BIT = 2
"""Bit of AxQOS that requests a flush."""

PAGE_BITS = (PAGE_BYTES - 1).bit_length()


def payload_index_bits(config: PcieConfig) -> int:
    """Bits of a beat's number within the longest payload."""
    return (MAX_PAYLOAD_BYTES // config.beat_bytes - 1).bit_length()


def taken_beat_layout(config: PcieConfig) -> data.StructLayout:
    """A beat with what its burst has in common.

    ``index``: number of the beat in its page. ``mask``: beats of a payload, less one. ``denied``: bus mastering was off
    when the burst started. ``offset``: DW of a message's address within a beat; 0 for bursts.
    """
    return data.StructLayout({
        "id": config.axi_id_width, "page": ADDR_WIDTH - PAGE_BITS, "index": PAGE_BITS - config.lane_bits,
        "offset": config.dword_lane_bits, "mask": payload_index_bits(config), "attributes": ATTRIBUTE_WIDTH, "flush": 1,
        "denied": 1, "message": 1, "last": 1, "strobes": strobes_layout(config), "data": config.data_width,
    })


class WriteIntake(wiring.Component):
    """Accept beats while there are free entries behind. Between two bursts, a waiting message comes first.

    A message is a burst of one beat, with its DW in the lowest position. While bus mastering is off, messages wait and
    bursts are marked as denied.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    beats : ``In(stream.Signature(write_beat_layout))``
    messages : ``In(stream.Signature(MessageLayout))``
    settings : ``In(RequesterSettings)``
        MPS and bus mastering apply from the next burst on.
    open : ``In(1)``
        One more beat fits.
    o : ``Out(EventSignature(taken_beat_layout))``
        Registered.
    idle : ``Out(1)``
    discard : ``In(1)``
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "beats": In(stream.Signature(write_beat_layout(config))),
            "messages": In(stream.Signature(MessageLayout)), "settings": In(RequesterSettings()), "open": In(1),
            "o": Out(EventSignature(taken_beat_layout(config))), "idle": Out(1), "discard": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        beat, taken = self.beats.payload, self.o.payload
        pending, inside = (Signal(name=name) for name in ("pending", "inside"))
        message = Signal(MessageLayout, reset_less=True)
        turn, accept, inject = Signal(), Signal(), Signal()
        m.d.comb += [
            turn.eq(pending & ~inside & self.settings.bus_master), inject.eq(turn & self.open),
            self.beats.ready.eq(self.open & ~turn & ~self.discard), accept.eq(self.beats.valid & self.beats.ready),
            self.messages.ready.eq(~pending & ~self.discard), self.idle.eq(~pending & ~inside & ~self.o.valid),
        ]
        with m.If(self.messages.valid & self.messages.ready):
            m.d.sync += [pending.eq(1), message.eq(self.messages.payload)]
        with m.Elif(inject):
            m.d.sync += pending.eq(0)
        with m.If(accept):
            m.d.sync += inside.eq(~beat.last)

        m.d.sync += [
            self.o.valid.eq(accept | inject), taken.last.eq(turn | beat.last), taken.message.eq(turn),
            taken.data.eq(Cat(Mux(turn, message.data, beat.data[:32]), beat.data[32:])),
            *summarise(taken.strobes, Mux(turn, (1 << DWORD_BYTES) - 1, beat.strb)),
        ]
        address = Mux(turn, message.address, beat.addr)
        lane = self.config.lane_bits
        with m.If(inject | accept & beat.first):
            m.d.sync += [
                taken.id.eq(beat.id), taken.page.eq(address[PAGE_BITS:]), taken.index.eq(address[lane:PAGE_BITS]),
                taken.offset.eq(Mux(turn, message.address[2:lane], 0)), taken.mask.eq(self._mask()),
                taken.attributes.eq(Mux(turn, 0, tlp_attributes(beat))),
                taken.flush.eq(beat.qos[FLUSH_BIT]), taken.denied.eq(~self.settings.bus_master),
            ]
        with m.Elif(accept):
            m.d.sync += taken.index.eq(taken.index + 1)
        return ResetInserter(self.discard)(m)

    def _mask(self):
        """Beats of the maximum payload, less one."""
        least = MIN_PAYLOAD_BYTES // self.config.beat_bytes
        longer = (self.settings.max_payload >= number for number in range(1, MAX_PAYLOAD_BYTES.bit_length() - 7))
        return Cat(Const(least - 1, (least - 1).bit_length()), *longer)
