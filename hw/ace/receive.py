# SPDX-License-Identifier: Apache-2.0
"""Receive: stores or combines payload from a pipe's ports in the SRAM, and passes GRANTs to the FSMs.

LinkPort -> Receive -> Sram, PipeMerge, pool.  Latency: 11 cycles from a beat on a port to its write, plus AluArray's
further slices; 1 cycle from a GRANT on a port to ``grants``.  Throughput: one beat per cycle over all ports of the
pipe, for packets of any length; reduced ones, one per :attr:`AluArray.slices` cycles.

::

    cycle  0                1             2             3 ... 10                 11
           choose a port    look up the   request the   lanes                    write
                            chunk         update             8: report to the FSM

Cycles 0 to 2 stall while the SRAM does not accept the update, and before a packet of the loopback until it may read
what the previous one wrote. A packet is reported with its first beat, so that it leaves for the next rank while the
others are written; one of the loopback, and with lanes narrower than a beat any, with its last.
"""

from amaranth import *
from amaranth.hdl import Assert, Format
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.delay import delayed
from hw.common.event import EventSignature
from hw.common.table import Table
from hw.stream import RoundRobin, Skid

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
    landing_layout,
)
from .numerics.alu_array import AluArray
from .sram import SramUpdateSignature, longest_stall, write_latency
from .watchdog import ProgressSignature

__all__ = [
    "LANDED_EARLY", "ChunkLookup", "DataLanded", "Receive", "ReceiveCounts", "lookup_layout", "receive_latency",
    "received_grant_layout", "settle_cycles",
]

LANDED_EARLY = 3
"""Cycles between a report of a packet to its FSM and the write of the reported beat: an FSM needs more to read it."""


def lookup_layout():
    """The chunk to look up."""
    return data.StructLayout({"communicator": 4, "sequence": SEQUENCE_WIDTH})


class ChunkLookup(wiring.Signature):
    """Look-up of a packet's chunk: Receive drives ``chunk``, and the pool drives ``destination`` from the cycle after
    ``valid`` on."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"valid": Out(1), "chunk": Out(lookup_layout()),
                          "destination": In(destination_layout(config))})


def received_grant_layout(config):
    """A GRANT of the current epoch, and the port where it was received."""
    return data.StructLayout({"port": range(config.ports), "grant": grant_layout(config)})


class DataLanded(EventSignature):
    """Progress of a DATA packet. Driven by Receive for the pool.

    * ``begin``: SRAM reads that are accepted more than :data:`LANDED_EARLY` cycles later, one beat per cycle, see the
      packet. The pool needs at least as long to send it.
    * ``late``: no beat of it is written :data:`LANDED_EARLY` cycles later, so that none of the FSM's may be read then.
    * ``end``: with its last beat; reads that are accepted more than :data:`LANDED_EARLY` cycles later see all of it.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__(landed_layout(config))


class ReceiveCounts(wiring.Signature):
    """Counts of Receive in each cycle: packets dropped because of their epoch, or because they exceed the slot; beats
    written with and without reduction.

    Parameters
    ----------
    pipes : int
        Pipes that are counted together.
    """

    def __init__(self, pipes: int = 1) -> None:
        super().__init__({name: Out(range(pipes + 1)) for name in (
            "late_packets", "bad_packets", "reduced_beats", "copied_beats")})


def _packet_layout(config):
    """A DATA packet in progress: where its next beat goes, and the properties from its header."""
    return data.StructLayout({
        "slot": config.slot_bits, "beat": config.chunk_beat_bits, "arithmetic": arithmetic_layout(), "reduce": 1,
        "dropped": 1, "landing": landing_layout(config)})


def receive_latency(config):
    """Cycles from a beat on a port to its write, without stalls."""
    return 2 + write_latency(config)


def settle_cycles(config):
    """Cycles after which the pipelines hold nothing of a stopped communicator: twice the longest, :class:`Receive`,
    with the wait of a packet of the loopback."""
    return 2 * (receive_latency(config) + longest_stall(config) + write_latency(config))


class Receive(wiring.Component):
    """Accept beats from the ports, round robin, and update the SRAM.

    A port is served until its packet ends; the loopback, until it has no beat. Then others are served, packets in turn.

    A packet that exceeds its slot is dropped. So is a packet whose epoch is not the communicator's current one, or
    whose communicator is not open; if this changes within a packet, its remaining beats are dropped.

    Parameters
    ----------
    config : AceConfig
    pipe : int
        Number of the pipe, which has the ports ``config.pipe_ports[pipe]``.

    Members
    -------
    ports : ``In(stream.Signature(flit_layout)).array(ports of the pipe)``
        DATA and GRANT packets. The beats of one follow each other without gaps, except those of the loopback. Those of
        the loopback may update the same beats one after the other.
    lookup : ``Out(ChunkLookup)``
    update : ``Out(SramUpdateSignature)``
        Of the SRAM.
    grants : ``Out(stream.Signature(received_grant_layout))``, aborts : ``Out(stream.Signature(abort_layout))``
        Those of the current epoch.
    landed : ``Out(DataLanded)``
    communicator_status : ``In(CommunicatorStatusSignature)``
    progress : ``Out(ProgressSignature)``
        Communicators with received packets.
    counts : ``Out(ReceiveCounts)``
    """

    def __init__(self, config: AceConfig, pipe: int = 0) -> None:
        self.config = config
        self.numbers = config.pipe_ports[pipe]
        super().__init__({
            "ports": In(stream.Signature(flit_layout(config))).array(len(self.numbers)),
            "lookup": Out(ChunkLookup(config)), "update": Out(SramUpdateSignature(config)),
            "grants": Out(stream.Signature(received_grant_layout(config))),
            "aborts": Out(stream.Signature(abort_layout())), "landed": Out(DataLanded(config)),
            "communicator_status": In(CommunicatorStatusSignature(config)), "progress": Out(ProgressSignature(config)),
            "counts": Out(ReceiveCounts()),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.alus = alus = AluArray(config, data.StructLayout({"reduce": 1}))
        taken, looked = Signal(), Signal()      # the second and the third stage accept a beat
        ahead = alus.slices == 1                # packets are reported with their first beat
        valid, port, flit = self._choose(m, taken, slices=alus.slices)

        # A GRANT is forwarded at once; the first beat of a DATA packet looks up its chunk.
        header, is_data, is_grant, is_abort = flit.header, Signal(), Signal(), Signal()
        stale = self._stale(m, valid & taken, port, flit)
        starts = valid & ~stale & flit.first
        m.d.comb += [
            is_data.eq(~flit.first | (header.kind == PacketKind.DATA)),
            is_grant.eq(starts & (header.kind == PacketKind.GRANT)),
            is_abort.eq(starts & (header.kind == PacketKind.ABORT)),
            self.grants.valid.eq(is_grant & looked),
            self.grants.payload.port.eq(Array(self.numbers)[port] if len(self.numbers) > 1 else self.numbers[0]),
            *(self.grants.payload.grant[name].eq(header[name]) for name, _ in grant_layout(config)),
            self.aborts.valid.eq(is_abort & looked),
            self.aborts.payload.communicator.eq(header.communicator),
            self.aborts.payload.record.eq(flit.data[:RecordLayout.size]),
            self.lookup.valid.eq(looked),
            *(self.lookup.chunk[name].eq(header[name]) for name, _ in lookup_layout()),
            taken.eq(looked & ~(is_grant & ~self.grants.ready) & ~(is_abort & ~self.aborts.ready)),
        ]

        # The look-up is complete: request the update.
        known, last, word, counts = Signal(), Signal(reset_less=True), Signal.like(flit.data), self.counts
        with m.If(looked):
            m.d.sync += [known.eq(valid & is_data & ~stale & taken), last.eq(flit.last), word.eq(flit.data)]
        m.d.sync += counts.late_packets.eq(valid & flit.first & stale & taken)
        packet, first = self._packet(m, known, port, flit, looked)
        live, accepted = Signal(), Signal()
        paced = self._pause(m, accepted & packet.reduce, alus.slices)
        spaced = self._spaced(m, accepted & last, packet, alus.slices)
        m.d.comb += [
            live.eq(known & ~packet.dropped),
            self.update.valid.eq(live & ~(packet.reduce & paced) & ~spaced),
            self.update.address.eq(Cat(packet.beat, packet.slot)), self.update.reads.eq(packet.reduce),
            accepted.eq(self.update.valid & self.update.ready),
            looked.eq(~live | accepted),
        ]

        # Both operands meet.
        behind = config.sram_latency
        m.d.comb += [
            alus.valid.eq(delayed(m, accepted, behind, name="live", reset_less=False)),
            alus.reduce.eq(delayed(m, packet.reduce, behind, name="reduce")),
            alus.arithmetic.eq(delayed(m, packet.arithmetic, behind, name="arithmetic")),
            alus.tag.reduce.eq(alus.reduce),
            alus.a.eq(self.update.operand), alus.b.eq(delayed(m, word, behind, name="data")),
            self.update.result.eq(alus.o),
        ]

        report, landing = Signal(landed_layout(config)), packet.landing
        m.d.comb += [
            *(report[name].eq(landing[name]) for name, _ in landing_layout(config)),
            report.begin.eq(accepted & (Mux(landing.local, last, first) if ahead else last)),
            report.late.eq(live & ~first & ~accepted & ~landing.local if ahead else 0),
            report.end.eq(accepted & last),
        ]
        early = write_latency(config) - LANDED_EARLY
        m.d.comb += [
            self.landed.valid.eq(delayed(m, report.begin | report.late | report.end, early, name="landed",
                                         reset_less=False)),
            self.landed.payload.eq(delayed(m, report, early, name="landed_payload")),
            counts.reduced_beats.eq(alus.o_valid & alus.o_tag.reduce),
            counts.copied_beats.eq(alus.o_valid & ~alus.o_tag.reduce),
        ]
        return m

    def _stale(self, m, valid, port, flit):
        """Whether the beat's packet is not of the current epoch of an open communicator."""
        config, communicator_status = self.config, self.communicator_status
        sender_layout = data.StructLayout({"communicator": 4, "epoch": EPOCH_WIDTH})
        # Communicator and epoch of the packet in progress at each port.
        m.submodules.senders = senders = Table(sender_layout, depth=_rows(self.numbers), reads=1, init=None)
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

    def _choose(self, m, taken, *, slices):
        """Take a beat from a port when the next stage is free or ``taken``; return it, registered, with ``valid`` and
        the number of the port in this pipe. With ``receive_skid``, one more may be taken."""
        ports = list(self.ports)
        m.submodules.turn = turn = RoundRobin(len(ports))
        ready, stays = Signal(len(ports)), Signal(len(ports))   # with a beat; in the middle of a packet
        staying, granted = Signal(), Signal(len(ports))
        number = Signal(range(_rows(ports)), reset_less=True)
        for place, (port, one) in enumerate(zip(ports, self.numbers, strict=True)):
            if one != self.config.local_port:
                m.d.sync += Assert(port.valid | ~stays[place], Format(f"port {one}: a packet has a gap"))
        chosen, free = Signal.like(number), Signal()
        m.d.comb += [
            ready.eq(Cat(port.valid for port in ports) & ~self._paced(m, granted & free.replicate(len(ports)), slices)),
            staying.eq((ready & stays).any()),
            turn.requests.eq(ready), turn.advance.eq(~staying & free),
            granted.eq(Mux(staying, stays, turn.grant_onehot)), chosen.eq(Mux(staying, number, turn.grant)),
            *(port.ready.eq(has & free) for port, has in zip(ports, granted, strict=True)),
        ]
        with m.If(free & turn.valid):
            m.d.sync += [number.eq(chosen), stays.eq(granted & ~Cat(port.payload.last for port in ports))]
        beat = _select([port.payload for port in ports], chosen)
        if self.config.timing.receive_skid:
            m.submodules.skid = skid = Skid(data.StructLayout({"port": len(number), "flit": flit_layout(self.config)}))
            m.d.comb += [skid.i.valid.eq(turn.valid), skid.i.payload.port.eq(chosen), skid.i.payload.flit.eq(beat),
                         free.eq(skid.i.ready), skid.o.ready.eq(taken)]
            return skid.o.valid, skid.o.payload.port, skid.o.payload.flit
        valid, flit = Signal(), Signal(flit_layout(self.config), reset_less=True)
        m.d.comb += free.eq(~valid | taken)
        with m.If(free):
            m.d.sync += [valid.eq(turn.valid), flit.eq(beat)]
        return valid, number, flit

    def _pause(self, m, reduces, slices):
        """Whether an earlier reduction is in progress, ``slices`` cycles at a time."""
        if slices == 1:
            return C(0)
        left = Signal(range(slices))
        m.d.sync += left.eq(Mux(reduces, slices - 1, left - left.any()))
        return left.any()

    def _spaced(self, m, ends, packet, slices):
        """Whether a packet of the loopback has to wait: a beat of it reads what the same one of the previous packet
        wrote. ``ends``: the last beat of ``packet`` is accepted."""
        if self.config.local_port not in self.numbers:
            return C(0)
        # Each beat of a packet is as far behind the packet's first as in the previous packet, or farther: ``slices``
        # cycles for each beat, or one in a packet that is not reduced; of the latter, none reads.
        cycles, beats = write_latency(self.config) + 1, packet.landing.beats
        passed, left = Mux(packet.reduce, beats * slices, beats), Signal(range(cycles + 1))
        m.d.sync += left.eq(Mux(ends & packet.landing.local, Mux(passed < cycles, cycles - 1 - passed, 0),
                                left - left.any()))
        return left.any() & packet.landing.local

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

    def _packet(self, m, known, port, flit, looked):
        """The packet of the beat that was looked up, and whether that is its first; ``beat`` is where that beat goes.
        They stay until ``looked``."""
        config, destination = self.config, self.lookup.destination
        # The packet in progress at each port; that of the next beat is read before.
        m.submodules.packets = packets = Table(_packet_layout(config), depth=_rows(self.numbers), reads=1, init=None)
        beyond = Signal()
        m.d.comb += beyond.eq((flit.header.offset + flit.header.beats)[config.chunk_beat_bits:].any())
        # The header's fields, one cycle later.
        number = Signal.like(port, reset_less=True)
        said = Signal(data.StructLayout({"first": 1, "beat": config.chunk_beat_bits, "beats": 7, "reduce": 1,
                                         "final": 1, "odd_phase": 1, "beyond": 1}), reset_less=True)
        with m.If(looked):
            m.d.sync += [number.eq(port), said.first.eq(flit.first), said.beat.eq(flit.header.offset),
                         said.beats.eq(flit.header.beats), said.reduce.eq(flit.header.reduce),
                         said.final.eq(flit.header.final), said.odd_phase.eq(flit.header.phase[0]),
                         said.beyond.eq(beyond)]
        m.d.sync += self.counts.bad_packets.eq(known & said.first & said.beyond)

        odd, local = (Signal(name=name) for name in ("odd", "local"))
        m.d.comb += [odd.eq(Array(C(one & 1, 1) for one in self.numbers)[number]),
                     local.eq(Array(C(one == config.local_port, 1) for one in self.numbers)[number])]
        begun, packet, after = (Signal(_packet_layout(config), name=name) for name in ("begun", "packet", "after"))
        ongoing = Signal(_packet_layout(config), reset_less=True)
        with m.If(looked):
            m.d.sync += ongoing.eq(Mux(known & (number == port), after, packets.read[0].data))
        m.d.comb += [
            begun.slot.eq(destination.slot), begun.beat.eq(said.beat), begun.arithmetic.eq(destination.arithmetic),
            begun.reduce.eq(said.reduce), begun.dropped.eq(said.beyond),
            begun.landing.fsm.eq(destination.fsm), begun.landing.beats.eq(said.beats),
            begun.landing.final.eq(said.final), begun.landing.odd_phase.eq(said.odd_phase),
            begun.landing.odd.eq(odd), begun.landing.local.eq(local),
            packets.read[0].addr.eq(port), packet.eq(Mux(said.first, begun, ongoing)),
            after.eq(packet), after.beat.eq(packet.beat + 1),
            packets.write.en.eq(known & looked), packets.write.addr.eq(number), packets.write.data.eq(after),
        ]
        return packet, said.first


def _rows(ports):
    """Rows of a table with an entry for each port."""
    return max(2, 1 << (len(ports) - 1).bit_length())


def _select(values, number):
    """The one of ``values`` with this number, by two bits at a time: a multiplexer of four is one LUT."""
    if len(values) == 1:
        return values[0]
    groups = [values[at:at + 4] for at in range(0, len(values), 4)]
    return _select([Array(group)[number[:2]] for group in groups], number[2:])
