# SPDX-License-Identifier: Apache-2.0
"""Receive: stores or combines payload from the ports in the SRAM, and passes GRANTs to the FSMs.

LinkPort -> Receive -> Sram, pool.  Latency: 12 cycles from a beat on a port to its write, plus AluArray's further
slices; 1 cycle from a GRANT on a port to ``grants``.  Throughput: one beat per cycle over all ports, for packets of any
length; reduced ones, one per :attr:`AluArray.slices` cycles.

::

    cycle  0                1             2             3      4 ... 11   12
           choose a port    look up the   read the      (SRAM) lanes      write, report
                            chunk         operand                         to the FSM
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.delay import delayed
from hw.common.event import EventSignature
from hw.common.table import Table
from hw.stream import RoundRobin

from .communicator_status import CommunicatorStatusSignature
from .communicators import EPOCH_WIDTH
from .config import SEQUENCE_WIDTH, AceConfig
from .layouts import (
    PacketKind,
    RecordLayout,
    abort_layout,
    arithmetic_layout,
    destination_layout,
    flit_layout,
    grant_layout,
    landed_layout,
)
from .numerics.alu_array import AluArray, alu_latency
from .sram import SramReadSignature, SramWriteSignature
from .watchdog import ProgressSignature

__all__ = [
    "AbortReceived", "ChunkLookup", "DataLanded", "GrantReceived", "Receive", "ReceiveCounts", "lookup_layout",
    "receive_latency", "settle_cycles",
]


def lookup_layout():
    """The chunk to look up."""
    return data.StructLayout({"communicator": 4, "sequence": SEQUENCE_WIDTH})


class ChunkLookup(wiring.Signature):
    """Look-up of a packet's chunk: Receive drives ``chunk``, and the pool drives ``destination`` one cycle later."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"chunk": Out(lookup_layout()), "destination": In(destination_layout(config))})


class GrantReceived(EventSignature):
    """A GRANT of the current epoch was received at ``payload.port``. Driven by Receive for the pool."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__(data.StructLayout({"port": range(config.ports), "grant": grant_layout(config)}))


class DataLanded(EventSignature):
    """The last beat of a DATA packet is being written: SRAM reads accepted in later cycles see all of the packet.

    Driven by Receive for the pool.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__(landed_layout(config))


class AbortReceived(EventSignature):
    """An ABORT of the current epoch was received: registered by Receive, for Faults."""

    def __init__(self) -> None:
        super().__init__(abort_layout())


class ReceiveCounts(wiring.Signature):
    """Counts of Receive, a strobe each: packets dropped because of their epoch, or because they exceed the slot; beats
    written with and without reduction."""

    def __init__(self) -> None:
        super().__init__({"late_packets": Out(1), "bad_packets": Out(1), "reduced_beats": Out(1),
                          "copied_beats": Out(1)})


def _packet_layout(config):
    """A DATA packet in progress: where its next beat goes, and the properties from its header."""
    return data.StructLayout({
        "slot": config.slot_bits, "beat": config.chunk_beat_bits, "arithmetic": arithmetic_layout(), "reduce": 1,
        "dropped": 1, "landed": landed_layout(config)})


def receive_latency(config):
    """Cycles from a beat on a port to its write."""
    return 2 + config.sram_latency + alu_latency(config)


def settle_cycles(config):
    """Cycles after which the pipelines hold nothing of a stopped communicator: twice the longest, :class:`Receive`."""
    return 2 * receive_latency(config)


class Receive(wiring.Component):
    """Accept beats from the ports, round robin, and update the SRAM.

    A port is served until its packet ends, or until it has no beat; then others are served. So a slow link blocks no
    other port.

    A packet that exceeds its slot is dropped. So is a packet whose epoch is not the communicator's current one, or
    whose communicator is not open; if this changes within a packet, its remaining beats are dropped.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    ports : ``In(stream.Signature(flit_layout)).array(ports)``
        DATA and GRANT packets.
    lookup : ``Out(ChunkLookup)``
    read : ``Out(SramReadSignature)``, write : ``Out(SramWriteSignature)``
        Of the SRAM; never stalled.
    grants : ``Out(GrantReceived)``, landed : ``Out(DataLanded)``, aborts : ``Out(AbortReceived)``
    communicator_status : ``In(CommunicatorStatusSignature)``
    progress : ``Out(ProgressSignature)``
        Communicators with received packets.
    counts : ``Out(ReceiveCounts)``
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "ports": In(stream.Signature(flit_layout(config))).array(config.ports),
            "lookup": Out(ChunkLookup(config)),
            "read": Out(SramReadSignature(config)), "write": Out(SramWriteSignature(config)),
            "grants": Out(GrantReceived(config)), "landed": Out(DataLanded(config)), "aborts": Out(AbortReceived()),
            "communicator_status": In(CommunicatorStatusSignature(config)), "progress": Out(ProgressSignature(config)),
            "counts": Out(ReceiveCounts()),
        })

    def elaborate(self, platform):
        m = Module()
        tag_layout = data.StructLayout({
            "address": self.config.sram_bits, "reduce": 1, "last": 1, "landed": landed_layout(self.config)})
        m.submodules.alus = alus = AluArray(self.config, tag_layout)
        valid, port, flit = self._choose(m, slices=alus.slices)

        # A GRANT is forwarded at once; the first beat of a DATA packet looks up its chunk.
        header, is_data = flit.header, Signal()
        stale = self._stale(m, valid, port, flit)
        m.d.comb += [
            is_data.eq(~flit.first | (header.kind == PacketKind.DATA)),
            self.grants.valid.eq(valid & ~stale & flit.first & (header.kind == PacketKind.GRANT)),
            self.grants.payload.port.eq(port),
            *(self.grants.payload.grant[name].eq(header[name]) for name, _ in grant_layout(self.config)),
            *(self.lookup.chunk[name].eq(header[name]) for name, _ in lookup_layout()),
        ]

        m.d.sync += [
            self.aborts.valid.eq(valid & ~stale & flit.first & (header.kind == PacketKind.ABORT)),
            self.aborts.payload.communicator.eq(header.communicator),
            self.aborts.payload.record.eq(flit.data[:RecordLayout.size]),
        ]

        # The look-up is complete: read the operand.
        known, last, counts = Signal(), Signal(reset_less=True), self.counts
        m.d.sync += [known.eq(valid & is_data & ~stale), last.eq(flit.last),
                     counts.late_packets.eq(valid & flit.first & stale)]
        packet = self._packet(m, known, port, flit)
        live = known & ~packet.dropped
        tag = Signal(tag_layout)
        m.d.comb += [
            tag.address.eq(Cat(packet.beat, packet.slot)), tag.reduce.eq(packet.reduce), tag.last.eq(last),
            tag.landed.eq(packet.landed),
            self.read.valid.eq(live & packet.reduce), self.read.address.eq(tag.address),
        ]

        # Both operands meet.
        behind = self.config.sram_latency
        m.d.comb += [
            alus.valid.eq(delayed(m, live, behind, name="live", reset_less=False)),
            alus.reduce.eq(delayed(m, packet.reduce, behind, name="reduce")),
            alus.arithmetic.eq(delayed(m, packet.arithmetic, behind, name="arithmetic")),
            alus.tag.eq(delayed(m, tag, behind, name="tag")),
            alus.a.eq(self.read.data),
            alus.b.eq(delayed(m, flit.data, 1 + behind, name="data")),
        ]

        done = alus.o_tag
        m.d.comb += [
            self.write.valid.eq(alus.o_valid), self.write.address.eq(done.address), self.write.data.eq(alus.o),
            self.landed.valid.eq(alus.o_valid & done.last), self.landed.payload.eq(done.landed),
            counts.reduced_beats.eq(alus.o_valid & done.reduce), counts.copied_beats.eq(alus.o_valid & ~done.reduce),
        ]
        return m

    def _stale(self, m, valid, port, flit):
        """Whether the beat's packet is not of the current epoch of an open communicator."""
        config, communicator_status = self.config, self.communicator_status
        sender_layout = data.StructLayout({"communicator": 4, "epoch": EPOCH_WIDTH})
        # Communicator and epoch of the packet in progress at each port.
        m.submodules.senders = senders = Table(sender_layout, depth=1 << (config.ports - 1).bit_length(), reads=1,
                                               init=None)
        said, mine, stale = Signal(sender_layout), Signal(sender_layout), Signal()
        number = mine.communicator[:config.communicator_bits]
        m.d.comb += [
            said.communicator.eq(flit.header.communicator), said.epoch.eq(flit.header.epoch),
            senders.read[0].addr.eq(port), mine.eq(Mux(flit.first, said, senders.read[0].data)),
            senders.write.en.eq(valid & flit.first), senders.write.addr.eq(port), senders.write.data.eq(said),
            stale.eq(communicator_status.closed.bit_select(number, 1)
                     | (communicator_status.epochs[number] != mine.epoch)
                     | mine.communicator[config.communicator_bits:].any()),
        ]
        m.d.sync += self.progress.communicators.eq(Mux(valid & ~stale, 1 << number, 0))
        return stale

    def _choose(self, m, *, slices):
        """Take a beat from a port; return it, registered, with ``valid`` and the number of the port."""
        ports = list(self.ports)
        m.submodules.turn = turn = RoundRobin(len(ports))
        ready, stays = Signal(len(ports)), Signal(len(ports))   # with a beat; in the middle of a packet
        staying, granted = Signal(), Signal(len(ports))
        valid, number = Signal(), Signal(range(len(ports)), reset_less=True)
        chosen = Signal.like(number)
        m.d.comb += [
            ready.eq(Cat(port.valid for port in ports) & ~self._paced(m, granted, slices)),
            staying.eq((ready & stays).any()),
            turn.requests.eq(ready), turn.advance.eq(~staying),
            granted.eq(Mux(staying, stays, turn.grant_onehot)), chosen.eq(Mux(staying, number, turn.grant)),
            *(port.ready.eq(has) for port, has in zip(ports, granted, strict=True)),
        ]
        flit = Signal(flit_layout(self.config), reset_less=True)
        m.d.sync += [valid.eq(turn.valid), flit.eq(_select([port.payload for port in ports], chosen))]
        with m.If(turn.valid):
            m.d.sync += [number.eq(chosen), stays.eq(granted & ~Cat(port.payload.last for port in ports))]
        return valid, number, flit

    def _paced(self, m, granted, slices):
        """Ports to exclude now, because their next beat is to be reduced and an earlier reduction is in progress."""
        if slices == 1:
            return C(0, len(self.ports))
        reduces, reducing, left = Signal(len(self.ports)), Signal(len(self.ports)), Signal(range(slices))
        for number, port in enumerate(self.ports):
            flit = port.payload
            m.d.comb += reducing[number].eq(Mux(
                flit.first, flit.header.reduce & (flit.header.kind == PacketKind.DATA), reduces[number]))
            with m.If(granted[number]):
                m.d.sync += reduces[number].eq(reducing[number])
        with m.If((granted & reducing).any()):
            m.d.sync += left.eq(slices - 1)
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        return reducing & (left != 0).replicate(len(self.ports))

    def _packet(self, m, known, port, flit):
        """The packet of the beat that was looked up; ``beat`` is where that beat goes."""
        config, destination = self.config, self.lookup.destination
        # The packet in progress at each port.
        m.submodules.packets = packets = Table(
            _packet_layout(config), depth=1 << (config.ports - 1).bit_length(), reads=1, init=None)
        beyond = Signal()
        m.d.comb += beyond.eq((flit.header.offset + flit.header.beats)[config.chunk_beat_bits:].any())
        # The header's fields, one cycle later.
        number = Signal.like(port, reset_less=True)
        said = Signal(data.StructLayout({"first": 1, "beat": config.chunk_beat_bits, "beats": 7, "reduce": 1,
                                         "beyond": 1}), reset_less=True)
        m.d.sync += [number.eq(port), said.first.eq(flit.first), said.beat.eq(flit.header.offset),
                     said.beats.eq(flit.header.beats), said.reduce.eq(flit.header.reduce), said.beyond.eq(beyond),
                     self.counts.bad_packets.eq(known & said.first & said.beyond)]

        begun, packet, after = (Signal(_packet_layout(config), name=name) for name in ("begun", "packet", "after"))
        m.d.comb += [
            begun.slot.eq(destination.slot), begun.beat.eq(said.beat), begun.arithmetic.eq(destination.arithmetic),
            begun.reduce.eq(said.reduce), begun.dropped.eq(said.beyond),
            begun.landed.fsm.eq(destination.fsm), begun.landed.beats.eq(said.beats),
            packets.read[0].addr.eq(number), packet.eq(Mux(said.first, begun, packets.read[0].data)),
            after.eq(packet), after.beat.eq(packet.beat + 1),
            packets.write.en.eq(known), packets.write.addr.eq(number), packets.write.data.eq(after),
        ]
        return packet


def _select(values, number):
    """The one of ``values`` with this number, by two bits at a time: a multiplexer of four is one LUT."""
    if len(values) == 1:
        return values[0]
    groups = [values[at:at + 4] for at in range(0, len(values), 4)]
    return _select([Array(group)[number[:2]] for group in groups], number[2:])
