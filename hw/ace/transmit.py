# SPDX-License-Identifier: Apache-2.0
"""Transmit: reads pieces of chunks from the SRAM and sends them at the ports of a pipe.

Pool -> Transmit (<- Sram) -> LinkPort.  Latency: 2 cycles from a send to its first beat on a port.  Throughput: one
beat per cycle over all ports of the pipe, for packets of any length.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.delay import delayed

from .config import AHEAD_BEATS, AceConfig
from .faults import AbortSend
from .layouts import PacketKind, RecordLayout, flit_layout, packet_layout, send_layout
from .link.sender import ReplayLevels
from .sram import SramReadSignature

__all__ = ["SendPort", "Transmit", "TransmitCounts"]


class SendPort(wiring.Signature):
    """DATA packets to send: a stream of ``send_layout`` from the pool, and credits ahead of it.

    Members
    -------
    payload, valid, ready
        The stream; a packet has ``header.beats + 1`` beats.
    free : ``In(ports)``
        Credit for one packet more than those taken up to the previous cycle; at most ``AHEAD`` beats wait at the port
        to be sent.
    paused : ``Out(fsms)``
        FSMs whose payload must not be read in this cycle.
    read : ``In(1)``, fsm : ``In(fsm)``
        In the previous cycle, the last beat of a packet of this FSM was read: its slot may be overwritten.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            **stream.Signature(send_layout(config)).members,
            "free": In(config.ports + 1), "paused": Out(config.fsms), "read": In(1), "fsm": In(config.fsm_bits),
        })


class TransmitCounts(wiring.Signature):
    """Counts of Transmit, a strobe for each of its ports: in the previous cycle, a beat of a DATA packet went to it."""

    def __init__(self, ports: int) -> None:
        super().__init__({"sent_beats": Out(ports)})


class Transmit(wiring.Component):
    """Read the payload of one packet after the other into the memory of its port.

    A packet is taken when its port's memory has free entries for all of it, so data that was read never stalls. Its
    reads wait while its FSM is ``paused``. If the user observes ``free``, no port blocks another, and an urgent packet
    waits for at most one packet besides the one on the link.

    GRANTs do not pass here; the ports send them before waiting packets. ABORTs are sent between packets, and while one
    waits, the port is not ``free``.

    Parameters
    ----------
    config : AceConfig
    pipe : int
        Number of the pipe, which has the ports ``config.pipe_ports[pipe]``. Sends and ABORTs name ports by their
        numbers in the accelerator; there is never credit for a port of another pipe.

    Members
    -------
    sends : ``In(SendPort)``
    abort : ``In(AbortSend)``
    read : ``Out(SramReadSignature)``
    ports : ``Out(stream.Signature(flit_layout)).array(ports of the pipe)``
        Packets; the loopback is one of the ports of the last pipe. The port always has free entries for what is sent to
        it: ``ready`` is ignored.
    levels : ``In(ReplayLevels).array(ports of the pipe)``
    counts : ``Out(TransmitCounts)``
    """

    AHEAD = AHEAD_BEATS

    def __init__(self, config: AceConfig, pipe: int = 0) -> None:
        self.config = config
        self.numbers = config.pipe_ports[pipe]
        ports = len(self.numbers)
        super().__init__({
            "sends": In(SendPort(config)), "abort": In(AbortSend(config)), "read": Out(SramReadSignature(config)),
            "ports": Out(stream.Signature(flit_layout(config))).array(ports),
            "levels": In(ReplayLevels(config)).array(ports), "counts": Out(TransmitCounts(ports)),
        })

    @property
    def latency(self) -> int:
        """Cycles from a send to its first beat on a port."""
        return 1 + self.config.sram_latency

    def elaborate(self, platform):
        m = Module()
        config = self.config
        fits = Signal(config.ports + 1, init=sum(1 << number for number in self.numbers))
        taken = Signal()
        m.d.comb += taken.eq(self.sends.valid & self.sends.ready)
        packet, reading = self._next(m, taken, fits)

        # A beat is requested now, and arrives ``sram_latency`` cycles later together with its header.
        layout = data.StructLayout({
            "port": range(config.ports + 1), "header": packet_layout(config), "first": 1, "last": 1})
        requested = Signal(layout)
        m.d.comb += [requested.port.eq(packet.send.port), requested.header.eq(packet.send.header),
                     requested.first.eq(packet.first), requested.last.eq(packet.left == 0)]
        here = delayed(m, reading, config.sram_latency, name="here", reset_less=False)
        known = delayed(m, requested, config.sram_latency, name="known")

        send = self.sends.payload
        for index, (number, port) in enumerate(zip(self.numbers, self.ports, strict=True)):
            flit = port.payload
            # Beats that were taken and are not yet included in the port's levels.
            held = Signal(range(2 * config.packet_beats + 8), name=f"held_{number}")
            mine, beats = taken & (send.port == number), send.header.beats
            beat, abort, vacant, open_ = (Signal(name=f"{name}_{number}", init=name == "vacant") for name in (
                "beat", "abort", "vacant", "open"))
            inside = Signal(name=f"inside_{number}")    # in the middle of a packet
            aborting = Signal(name=f"aborting_{number}")
            # The loopback has a memory of its own, and no ABORTs.
            local = number == config.local_port
            aborts = C(0, 1) if local else self.abort.valid[number]
            m.d["sync" if config.timing.registered_abort_requests else "comb"] += aborting.eq(aborts)
            # Occupancy in the next cycle, so that no addition precedes the choice of the next packet; with
            # ``speculative_port_credits``, both with this packet and without.
            cases, speculative = [], config.timing.speculative_port_credits
            for more, one in ((0, 0), (beats, 1)) if speculative else ((Mux(mine, beats + 1, 0), 0),):
                after = Signal.like(held, name=f"after_{number}")       # without ``one`` more
                kept, waiting = (Signal(range(2 * config.replay_beats), name=f"{name}_{number}")
                                 for name in ("kept", "waiting"))
                m.d.comb += [after.eq(held + more), kept.eq(self.levels[index].level + after),
                             waiting.eq(self.levels[index].fresh + after)]
                most = (config.local_beats if local else config.replay_beats) - config.packet_beats - one
                cases.append(Cat(
                    _at_most(kept, most),
                    # ABORTs may still precede it.
                    _at_most(kept, most) if local else _at_most(kept, most - 2) & _at_most(waiting, self.AHEAD - one),
                    (after + one - beat)[:len(held)]))
            m.d.sync += [Cat(fits[number], vacant, held).eq(Mux(mine, cases[-1], cases[0])), open_.eq(vacant)]
            m.d.comb += [
                # A continuous stream of packets must not starve an ABORT.
                self.sends.free[number].eq(vacant & ~aborting),
                beat.eq(here & (known.port == number)),
                abort.eq(aborts & open_ & ~beat & ~inside & ~(self.sends.valid & (send.port == number))),
                *([] if local else [self.abort.taken[number].eq(abort)]),
                port.valid.eq(beat | abort), flit.data.eq(self.read.data),
                *(flit[name].eq(known[name]) for name in ("header", "first", "last")),
            ]
            with m.If(beat):
                m.d.sync += inside.eq(~known.last)
            with m.If(abort):
                m.d.comb += [
                    flit.header.kind.eq(PacketKind.ABORT), flit.header.communicator.eq(self.abort.communicator),
                    flit.header.epoch.eq(self.abort.epoch), flit.data[:RecordLayout.size].eq(self.abort.record),
                    flit.first.eq(1), flit.last.eq(1),
                ]
            m.d.sync += self.counts.sent_beats[index].eq(beat)
        return m

    def _next(self, m, taken, fits):
        """The packet that is being read, and a strobe: one of its beats is read in this cycle."""
        layout = data.StructLayout({
            "send": send_layout(self.config), "first": 1, "left": range(self.config.packet_beats)})
        valid, packet = Signal(), Signal(layout, reset_less=True)
        # A send that was taken while the previous packet is being read.
        spare_full, spare = Signal(), Signal(send_layout(self.config), reset_less=True)
        after = Signal(send_layout(self.config))
        reading, done = Signal(), Signal()
        m.d.comb += [
            self.sends.ready.eq(~spare_full & fits.bit_select(self.sends.payload.port, 1)),
            self.read.valid.eq(valid & ~self.sends.paused.bit_select(packet.send.fsm, 1)),
            self.read.address.eq(packet.send.address),
            reading.eq(self.read.valid & self.read.ready), done.eq(reading & (packet.left == 0)),
            after.eq(Mux(spare_full, spare, self.sends.payload)),
        ]
        m.d.sync += [self.sends.read.eq(done), self.sends.fsm.eq(packet.send.fsm)]
        with m.If(~spare_full):
            m.d.sync += spare.eq(self.sends.payload)
        with m.If(~valid | done):
            m.d.sync += [valid.eq(spare_full | taken), spare_full.eq(0), packet.send.eq(after), packet.first.eq(1),
                         packet.left.eq(after.header.beats)]
        with m.Else():
            with m.If(taken):
                m.d.sync += spare_full.eq(1)
            with m.If(reading):
                beat = packet.send.address[:self.config.chunk_beat_bits]
                m.d.sync += [beat.eq(beat + 1), packet.first.eq(0), packet.left.eq(packet.left - 1)]
        return packet, reading


def _at_most(value, limit):
    """``value <= limit`` for a constant, without the carry chain that synthesis would infer."""
    found = C(1, 1)
    for index, bit in enumerate(value):
        found = ~bit | found if limit >> index & 1 else ~bit & found
    return found
