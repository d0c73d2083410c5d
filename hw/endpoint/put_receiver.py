# SPDX-License-Identifier: Apache-2.0
"""Neighbours' writes: checked against the table of exported spans, then written to memory, or counted.

PutPort -> PutReceiver -> MemoryPort, TriggerUnit; MemoryPort -> PutReceiver -> PutPort.  Latency: 5 cycles
from a packet's last flit to its first beat at the memory port.  Throughput: one beat per cycle, over all ports.
"""

from amaranth import *
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.ace.layouts import flit_layout
from hw.stream import Queue, Skid
from hw.triggers.config import BLOCK_LSB, BLOCK_WIDTH, COUNTER_SPACE, INDEX_WIDTH
from hw.triggers.layouts import decode_tick, tick_layout
from hw.triggers.ports import TickSignature

from .config import ADDR_WIDTH, EXPORT_WIDTH, REMOTE_OFFSET_WIDTH, EndpointConfig
from .layouts import export_layout, header_view, put_layout, response_layout, write_layout
from .packet_merge import PacketMerge
from .tick_queue import TickQueue

__all__ = ["ExportWrite", "PutReceiver", "PutReceiverCounts", "PutResults"]

PACKETS = 8
"""Complete packets that can wait for the memory port."""

PACKETS_OF_BEATS = 4
"""Packets of maximum length that fit in the buffer of beats."""

PAGE_BITS = 12

QUIET_WIDTH = 3
"""After a link goes down, all its packets have arrived when its stream was idle for 2 ** QUIET_WIDTH cycles."""


class ExportWrite(wiring.Signature):
    """Write of one entry of the table of exported spans, from the registers: a strobe without back-pressure. It applies
    to packets checked in later cycles; ``open`` = 0 makes the entry invalid."""

    def __init__(self, config: EndpointConfig) -> None:
        super().__init__({"valid": Out(1), "span": Out(config.export_bits), "open": Out(1),
                          "entry": Out(export_layout())})


class PutResults(wiring.Signature):
    """Results of a neighbour's writes, in the order of their packets: a stream of one bit, 1 for an error; and
    ``discard``.

    ``discard`` is set when the link goes down; until it is cleared, results not yet sent to the neighbour are dropped.
    """

    def __init__(self) -> None:
        super().__init__({**stream.Signature(1).members, "discard": Out(1)})


class PutReceiverCounts(wiring.Signature):
    """Event strobes of PutReceiver, one cycle after the event: a packet was processed; it was refused; a response was
    dropped, as no write was in flight at its port."""

    def __init__(self) -> None:
        super().__init__({"taken": Out(1), "refused": Out(1), "unexpected": Out(1)})


class PutReceiver(wiring.Component):
    """Write the packets of all ports to memory: one burst per complete packet, with the port's number as AXI ID.

    A packet is refused, and writes nothing, if its span is not in the table, if the table does not allow its port to
    write there, if it ends beyond the span, or if it crosses 4 KiB, which no packet of a :class:`PutSender` does. The
    port gets a result when memory has responded to the last packet of a write, or when that packet was refused.

    A packet to a span at a counter address is a tick. It leaves when all earlier packets of its port are complete, and
    its result is its verdict. A packet to a span that counts is followed by a tick when memory has responded OKAY.

    Parameters
    ----------
    config : EndpointConfig

    Members
    -------
    received : array of ``In(stream.Signature(flit_layout))``
        PUT packets of each port.
    results : ``Out(PutResults).array(ports)``
    writes : ``Out(stream.Signature(write_layout))``, responses : ``In(stream.Signature(response_layout))``
        To the memory port, and from it.
    ticks : ``Out(TickSignature)``
    exports : ``In(ExportWrite)``
    down : ``In(ports)``
        Links that are down: packets received over them complete without a result.
    counts : ``Out(PutReceiverCounts)``
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        super().__init__({
            "received": In(stream.Signature(flit_layout(config.ace))).array(config.ports),
            "results": Out(PutResults()).array(config.ports),
            "writes": Out(stream.Signature(write_layout(config))),
            "responses": In(stream.Signature(response_layout(config))),
            "ticks": Out(TickSignature(config.triggers)),
            "exports": In(ExportWrite(config)), "down": In(config.ports), "counts": Out(PutReceiverCounts()),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        self._packet = data.StructLayout({
            "port": range(config.ports), "export": EXPORT_WIDTH, "offset": REMOTE_OFFSET_WIDTH,
            "beats": range(config.packet_beats), "end_lane": config.lane_bits, "ends": 1, "void": 1,
        })
        self._write = data.StructLayout({
            "port": range(config.ports), "addr": ADDR_WIDTH, "beats": range(config.packet_beats),
            "end_lane": config.lane_bits, "ends": 1, "void": 1, "refused": 1,
            # The packet is a tick; or it counts in a counter of a block, ``slice`` counters after the first of its
            # span, unless that is ``beyond`` the block.
            "is_tick": 1, "counts": 1, "block": BLOCK_WIDTH, "counter": INDEX_WIDTH, "slice": INDEX_WIDTH, "beyond": 1,
        })
        m.submodules.beats = beats = Queue(
            config.data_width, depth=max(Queue.LUT_RAM_DEPTH, PACKETS_OF_BEATS * config.packet_beats))
        m.submodules.packets = packets = Queue(self._packet, depth=PACKETS)
        m.submodules.checked = checked = Skid(self._write)
        self._gather(m, beats.i, packets.i)
        self._check(m, packets.o, checked.i)
        self._issue(m, beats.o, checked.o)
        return m

    def _gather(self, m, beats, packets):
        """Merge the packets of all ports into one buffer."""
        m.submodules.merge = merge = PacketMerge(flit_layout(self.config.ace), self.config.ports)
        self._closed = Signal(self.config.ports)
        for source, i, closed in zip(self.received, merge.i, self._closed, strict=True):
            m.d.comb += [i.payload.eq(source.payload), i.valid.eq(source.valid & ~closed),
                         source.ready.eq(i.ready & ~closed)]
        flit, packet = merge.o.payload, packets.payload
        header = header_view(put_layout(self.config), flit)
        known, number, go = Signal(self._packet, reset_less=True), Signal.like(packet.beats), Signal()
        m.d.comb += [
            merge.o.ready.eq(beats.ready & packets.ready), go.eq(merge.o.valid & merge.o.ready),
            beats.valid.eq(go & ~packet.void), beats.payload.eq(flit.data), packets.valid.eq(go & flit.last),
            packet.eq(known), packet.beats.eq(number),
        ]
        self._gathered, self._gathered_port = go & flit.last, packet.port
        with m.If(flit.first):
            m.d.comb += [packet.port.eq(merge.source),
                         *(packet[name].eq(header[name]) for name in ("export", "offset", "end_lane", "ends", "void"))]
        with m.If(go):
            m.d.sync += [known.eq(packet), number.eq(Mux(flit.last, 0, number + 1))]

    def _check(self, m, packets, checked):
        """Look up the span and compute the packet's end in it; a cycle later, check them and compute the address."""
        config, lanes, packet = self.config, self.config.lane_bits, packets.payload
        m.submodules.table = table = memory.Memory(shape=export_layout(), depth=config.exports, init=[])
        write, read = table.write_port(), table.read_port(domain="comb")
        known = Signal(config.exports)
        exports = self.exports
        m.d.comb += [write.addr.eq(exports.span), write.data.eq(exports.entry), write.en.eq(exports.valid),
                     read.addr.eq(packet.export)]
        with m.If(exports.valid):
            m.d.sync += known.bit_select(exports.span, 1).eq(exports.open)

        now, span, valid = Signal(self._packet, reset_less=True), Signal(export_layout(), reset_less=True), Signal()
        is_known, end, crosses = Signal(), Signal(REMOTE_OFFSET_WIDTH + 1 - lanes), Signal()
        in_page = packet.offset[lanes:PAGE_BITS] + packet.beats
        m.d.comb += packets.ready.eq(~valid | checked.ready)
        with m.If(packets.ready):
            m.d.sync += [
                valid.eq(packets.valid), now.eq(packet), span.eq(read.data),
                is_known.eq(known.bit_select(packet.export[:config.export_bits], 1)
                            & ~(packet.export >> config.export_bits).any()),
                end.eq(packet.offset[lanes:] + packet.beats), crosses.eq(in_page[PAGE_BITS - lanes:].any()),
            ]
        beyond = Cat(now.end_lane, end) >= span.length
        short = (now.beats == 0) & (now.end_lane < now.offset[:lanes])
        is_tick, start, odd, slices = Signal(), now.offset[:lanes], Signal(), Signal(REMOTE_OFFSET_WIDTH)
        m.d.comb += [
            is_tick.eq(span.base_page[-4:] == COUNTER_SPACE),
            odd.eq((now.beats != 0) | start[:3].any() | (now.end_lane != (start | 7)) | ~now.ends),
            slices.eq(now.offset >> span.shift),
            checked.payload.is_tick.eq(is_tick), checked.payload.counts.eq(span.counts & ~is_tick),
            checked.payload.block.eq(Mux(
                is_tick, span.base_page[BLOCK_LSB - PAGE_BITS:][:BLOCK_WIDTH], span.block)),
            checked.payload.counter.eq(span.first), checked.payload.slice.eq(slices),
            checked.payload.beyond.eq((slices >> INDEX_WIDTH).any()),
        ]
        m.d.comb += [
            checked.valid.eq(valid),
            checked.payload.refused.eq(~is_known | crosses | beyond | short | (is_tick & odd & ~now.void)
                                       | ~span.ports.bit_select(now.port, 1)),
            checked.payload.addr.eq(Cat(now.offset[:PAGE_BITS], span.base_page + now.offset[PAGE_BITS:])),
            *(checked.payload[name].eq(now[name]) for name in ("port", "beats", "end_lane", "ends", "void")),
        ]

    def _issue(self, m, beats, checked):
        """Write each permitted packet in a burst; drop a refused packet with its beats."""
        config, now, beat = self.config, checked.payload, self.writes.payload
        number, first, final, silent, vacant, step, done = (
            Signal.like(now.beats), Signal(), Signal(), Signal(), Signal(), Signal(), Signal())
        lane, signals, counter = Signal(range(max(2, config.beat_bytes // 8))), Signal(), Signal(INDEX_WIDTH + 1)
        tick, count = Signal(tick_layout(config.triggers)), Signal(tick_layout(config.triggers))
        start = now.addr[:config.lane_bits]
        m.d.comb += [
            silent.eq(now.refused | now.void | now.is_tick), signals.eq(now.is_tick & ~now.refused & ~now.void),
            lane.eq(start[3:]), first.eq(number == 0), final.eq(now.void | (number == now.beats)),
            step.eq(checked.valid & (vacant | ~first) & (now.void | beats.valid) & (silent | self.writes.ready)),
            self.writes.valid.eq(checked.valid & (vacant | ~first) & beats.valid & ~silent),
            beats.ready.eq(step & ~now.void), done.eq(step & final), checked.ready.eq(done),
            beat.id.eq(now.port), beat.addr.eq(now.addr), beat.len.eq(now.beats), beat.data.eq(beats.payload),
            beat.first.eq(first), beat.last.eq(final),
            *(beat.strb[lane].eq(~(first & (lane < start)) & ~(final & (lane > now.end_lane)))
              for lane in range(config.beat_bytes)),
        ]
        with m.If(step):
            m.d.sync += number.eq(Mux(final, 0, number + 1))
        m.d.comb += [
            counter.eq(now.counter + now.slice), count.any.eq(1),
            count.counter.eq(Cat(counter[:INDEX_WIDTH], now.block[:config.triggers.block_bits])),
            count.value.eq(Cat(now.end_lane, now.beats) - start + 1),
            count.malformed.eq(now.beyond | counter[INDEX_WIDTH] | (now.block >> config.triggers.block_bits).any()),
            *decode_tick(config.triggers, tick, word=beats.payload.word_select(lane, 64), block=now.block),
        ]
        m.d.sync += [self.counts.taken.eq(done), self.counts.refused.eq(done & now.refused & ~now.void)]

        # A response without a write in flight is counted and dropped.
        unexpected = Signal(config.ports)
        m.d.comb += self.responses.ready.eq(1)
        m.d.sync += self.counts.unexpected.eq(self.responses.valid
                                              & (unexpected.any() | (self.responses.payload.id >= config.ports)))
        ticks = TickQueue(config)
        m.submodules.ticks = ticks
        connect(m, ticks.o, flipped(self.ticks))
        entry = data.StructLayout({
            "written": 1, "failed": 1, "ends": 1, "ticks": 1, "tick": tick_layout(config.triggers)})
        discards = Signal(config.ports)
        m.d.comb += [results.discard.eq(discards[port]) for port, results in enumerate(self.results)]
        for port in range(config.ports):
            m.submodules[f"flying_{port}"] = flying = Queue(entry, depth=config.puts)
            m.submodules[f"results_{port}"] = results = Queue(1, depth=config.puts, ram="lut")
            mine, named, stale = now.port == port, self.responses.payload.id == port, discards[port]
            head, failed, wrong, over = flying.o.payload, Signal(name=f"failed_{port}"), Signal(name=f"wrong_{port}"), \
                Signal(name=f"over_{port}")
            outstanding = Signal(range(config.puts + 1), name=f"outstanding_{port}")
            begins, report, reports, is_signal, responded, counted, issued = (
                Signal(name=f"{name}_{port}") for name in (
                    "begins", "report", "reports", "is_signal", "responded", "counted", "issued"))
            offer, verdict, error = ticks.signals[port], ticks.verdicts[port], self.responses.payload.resp.as_value()[1]
            with m.If(mine):
                m.d.comb += vacant.eq(flying.i.ready)
            inside = Signal(range(2 * PACKETS), name=f"inside_{port}")
            arrives = self._gathered & (self._gathered_port == port)
            m.d.sync += inside.eq(inside + arrives - (done & mine))
            m.d.comb += [
                flying.i.valid.eq(done & mine), flying.i.payload.written.eq(~silent),
                # A neighbour that exceeds its limit of writes in flight gets no result for the excess ones.
                reports.eq(now.ends & (outstanding != config.puts)),
                flying.i.payload.failed.eq(now.refused & ~now.void), flying.i.payload.ends.eq(reports),
                flying.i.payload.ticks.eq(signals | (now.counts & ~silent)),
                flying.i.payload.tick.eq(Mux(now.is_tick, tick, count)),
                # A tick of a count leaves with the response; a signal is complete with its verdict.
                is_signal.eq(head.ticks & ~head.written), responded.eq(self.responses.valid & named),
                offer.valid.eq(flying.o.valid & is_signal & ~issued), offer.payload.eq(head.tick),
                counted.eq(~head.ticks | error | ticks.counts.ready),
                over.eq(flying.o.valid & Mux(head.written, responded & counted, ~is_signal | verdict.valid)),
                flying.o.ready.eq(over),
                wrong.eq(failed | head.failed | (head.written & error) | (is_signal & verdict.refused)),
                results.i.valid.eq(over & head.ends & ~stale), results.i.payload.eq(wrong),
                self.results[port].valid.eq(results.o.valid & ~stale), self.results[port].payload.eq(results.o.payload),
                results.o.ready.eq(self.results[port].ready | stale),
                begins.eq(done & mine & reports),
                report.eq((results.o.valid & results.o.ready) | (stale & over & head.ends)),
            ]
            with m.If(named):
                m.d.comb += [unexpected[port].eq(flying.level == 0), ticks.counts.payload.eq(head.tick),
                             ticks.counts.valid.eq(responded & flying.o.valid & head.written & head.ticks & ~error),
                             self.responses.ready.eq((flying.o.valid & head.written & counted) | unexpected[port])]
            with m.If(verdict.valid):
                m.d.sync += issued.eq(0)
            with m.Elif(is_signal & offer.valid & offer.ready):
                m.d.sync += issued.eq(1)
            with m.If(over):
                m.d.sync += failed.eq(wrong & ~head.ends & ~stale)
            with m.If(begins & ~report):
                m.d.sync += outstanding.eq(outstanding + 1)
            with m.Elif(report & ~begins):
                m.d.sync += outstanding.eq(outstanding - 1)

            # Packets received before the link went down complete without a result; later ones are stalled until then.
            quiet = Signal(QUIET_WIDTH, name=f"quiet_{port}")
            m.d.comb += self._closed[port].eq(stale & quiet.all())
            with m.If(self.down[port]):
                m.d.sync += [stale.eq(1), quiet.eq(0)]
            with m.Elif(~quiet.all()):
                m.d.sync += quiet.eq(Mux(self.received[port].valid, 0, quiet + 1))
            with m.Elif((outstanding == 0) & (flying.level == 0) & (inside == 0)):
                m.d.sync += stale.eq(0)
        return m
