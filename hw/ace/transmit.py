"""What leaves at the ports: pieces of chunks out of the SRAM, and GRANTs between them.

Pool -> Transmit (<- Sram) -> LinkPort.  Latency: 4 cycles from a send to its first beat on a port, 5 where the ports'
queues are in block RAM; 1 cycle from a GRANT to its port.  Throughput: one beat per cycle over all ports, whatever the
packets' lengths; besides, one GRANT per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream import CreditCounter, Queue

from .delay import delayed
from .layouts import flit_layout, packet_layout, send_layout, signal_layout
from .sram import Sram, SramReadSignature

__all__ = ["Transmit"]

SIGNALS = 8
"""GRANTs that wait at a port."""


class Transmit(wiring.Component):
    """Read the payload of one packet after the other, each into the queue of its port.

    A packet is taken when its port's queue has room for all of it. So nothing that was read is ever held up, and
    as long as the user looks at ``room``, no port holds up another.

    GRANTs have queues of their own and go before packets that wait; never into one that has begun.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    sends : ``In(stream.Signature(send_layout))``
        DATA packets, of ``header.beats + 1`` beats.
    signals : ``In(stream.Signature(signal_layout))``
        GRANTs.
    room, signal_room : ``Out(ports)``
        The port will take at least two more packets, or GRANTs, than those taken up to the cycle before.
    sent : ``Out``; ``valid``, ``fsm``
        In the cycle before, the last beat of a packet was read: its place in the SRAM may be written.
    read : ``Out(SramReadSignature)``
    ports : ``Out(stream.Signature(flit_layout)).array(ports)``
    beats : ``Out(ports)``
        In the cycle before, a beat of a DATA packet left at the port.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "sends": In(stream.Signature(send_layout(config))), "signals": In(stream.Signature(signal_layout(config))),
            "room": Out(config.ports), "signal_room": Out(config.ports),
            "sent": Out(wiring.Signature({"valid": Out(1), "fsm": Out(config.fsm_bits)})),
            "read": Out(SramReadSignature(config)),
            "ports": Out(stream.Signature(flit_layout(config))).array(config.ports),
            "beats": Out(config.ports),
        })

    @property
    def queue_beats(self):
        """Beats that wait at a port: four packets, or as many as fit the least that LUT RAM can hold."""
        return max(Queue.LUT_RAM_DEPTH, 4 * self.config.packet_beats)

    @property
    def latency(self):
        """Cycles from a send to its first beat on a port."""
        return 2 + Sram.LATENCY + (self.queue_beats > Queue.LUT_RAM_DEPTH)

    def elaborate(self, platform):
        m = Module()
        config = self.config
        fits, signal_fits = Signal(config.ports), Signal(config.ports)
        taken, signal_taken = Signal(), Signal()
        m.d.comb += [taken.eq(self.sends.valid & self.sends.ready),
                     self.signals.ready.eq(signal_fits.bit_select(self.signals.payload.port, 1)),
                     signal_taken.eq(self.signals.valid & self.signals.ready)]
        packet, reading = self._next(m, taken, fits)

        # A beat is asked for now, and here with its header when its data is.
        layout = data.StructLayout({
            "port": range(config.ports), "header": packet_layout(config), "first": 1, "last": 1})
        asked = Signal(layout)
        m.d.comb += [asked.port.eq(packet.send.port), asked.header.eq(packet.send.header),
                     asked.first.eq(packet.first), asked.last.eq(packet.left == 0)]
        here = delayed(m, reading, Sram.LATENCY, name="here", reset_less=False)
        known = delayed(m, asked, Sram.LATENCY, name="known")

        for number, port in enumerate(self.ports):
            m.submodules[f"queue_{number}"] = queue = Queue(flit_layout(config), depth=self.queue_beats)
            m.submodules[f"signals_{number}"] = signals = Queue(packet_layout(config), depth=SIGNALS, ram="lut")
            m.submodules[f"places_{number}"] = places = CreditCounter(self.queue_beats, max_take=config.packet_beats)
            send = self.sends.payload
            m.d.comb += [
                places.take.eq(send.header.beats + 1), places.take_stb.eq(taken & (send.port == number)),
                places.give.eq(queue.o.valid & queue.o.ready),
                fits[number].eq(places.available >= config.packet_beats),
                self.room[number].eq(places.available >= 2 * config.packet_beats),
                queue.i.valid.eq(here & (known.port == number)), queue.i.payload.data.eq(self.read.data),
                *(queue.i.payload[name].eq(known[name]) for name in ("header", "first", "last")),
                signals.i.valid.eq(signal_taken & (self.signals.payload.port == number)),
                signals.i.payload.eq(self.signals.payload.header),
                signal_fits[number].eq(signals.i.ready),
                self.signal_room[number].eq(signals.level < SIGNALS - 1),
            ]
            m.d.sync += self.beats[number].eq(queue.o.valid & queue.o.ready)
            self._merge(m, queue.o, signals.o, port, name=f"stays_{number}")
        return m

    def _next(self, m, taken, fits):
        """The packet that is being read; and that a beat of it is, now."""
        layout = data.StructLayout({
            "send": send_layout(self.config), "first": 1, "left": range(self.config.packet_beats)})
        valid, packet = Signal(), Signal(layout, reset_less=True)
        # A send that was taken while the packet before is still being read.
        spare_full, spare = Signal(), Signal(send_layout(self.config), reset_less=True)
        after = Signal(send_layout(self.config))
        reading, done = Signal(), Signal()
        m.d.comb += [
            self.sends.ready.eq(~spare_full & fits.bit_select(self.sends.payload.port, 1)),
            self.read.valid.eq(valid), self.read.address.eq(packet.send.address),
            reading.eq(valid & self.read.ready), done.eq(reading & (packet.left == 0)),
            after.eq(Mux(spare_full, spare, self.sends.payload)),
        ]
        m.d.sync += [self.sent.valid.eq(done), self.sent.fsm.eq(packet.send.fsm)]
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

    def _merge(self, m, packets, signals, port, *, name):
        """A GRANT when there is one, but for when a packet was offered or has begun."""
        stays, signal = Signal(name=name), Signal(name=f"{name}_not")
        flit = port.payload
        m.d.comb += [
            signal.eq(signals.valid & ~stays),
            port.valid.eq(signal | packets.valid),
            flit.eq(packets.payload),
            packets.ready.eq(port.ready & ~signal), signals.ready.eq(port.ready & signal),
        ]
        with m.If(signal):
            m.d.comb += [flit.header.eq(signals.payload), flit.first.eq(1), flit.last.eq(1)]
        with m.Elif(packets.valid):
            m.d.sync += stays.eq(~(port.ready & flit.last))
