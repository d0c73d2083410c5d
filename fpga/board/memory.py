# SPDX-License-Identifier: Apache-2.0
"""On-chip memory behind an engine's AXI4 port, which the host reaches too.

AR -> beats of block RAM -> R, and AW, W -> block RAM -> B, at the same time. Throughput: one beat per cycle each way;
the host's words come in between and cost one cycle each. Latency: AR to R 4 cycles, last W to B 3 cycles.
"""

from amaranth import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In

from hw.axi import AxiSignature, Resp
from hw.stream import Queue, Skid

from .bus import WordSignature

__all__ = ["AxiMemory"]

_BURSTS, _BEATS = 4, 8


class AxiMemory(wiring.Component):
    """A memory from address 0; bursts that start beyond it get DECERR.

    Parameters
    ----------
    signature : AxiSignature
        Of the port. Bursts are INCR of full beats, within the memory where they begin in it.
    size : int
        Bytes, a power of two of at least 4096.

    Members
    -------
    bus : ``In(signature)``
        From the engine.
    host : ``In(WordSignature())``
        From the host.
    """

    def __init__(self, signature: AxiSignature, *, size: int) -> None:
        if not isinstance(size, int) or size < 4096 or size & (size - 1):
            raise ValueError(f"Bytes of a memory must be a power of two of at least 4096, not {size!r}")
        self.size = size
        super().__init__({"bus": In(signature), "host": In(WordSignature())})

    def elaborate(self, platform):
        m = Module()
        bus, host = self.bus, self.host
        width = bus.signature.data_width
        lanes = width // 8
        lane_bits = (lanes - 1).bit_length()
        depth = self.size // lanes
        rows = range(lane_bits, lane_bits + (depth - 1).bit_length())
        m.submodules.memory = ram = memory.Memory(shape=unsigned(width), depth=depth, init=[], attrs={
            "ram_style": "block", "no_rw_check": 1})
        read = ram.read_port()
        write = ram.write_port(granularity=8)
        burst = data.StructLayout({"row": len(rows), "beats": 8, "id": bus.signature.id_width, "bad": 1})

        def bursts(channel):
            """Queue of the bursts of a channel."""
            m.submodules[channel] = queue = Queue(burst, depth=_BURSTS)
            address = getattr(bus, f"{channel}addr")
            m.d.comb += [
                queue.i.valid.eq(getattr(bus, f"{channel}valid")), getattr(bus, f"{channel}ready").eq(queue.i.ready),
                queue.i.payload.row.eq(address[rows.start:rows.stop]),
                queue.i.payload.bad.eq(address[rows.stop:].any()),
                queue.i.payload.beats.eq(getattr(bus, f"{channel}len")),
                queue.i.payload.id.eq(getattr(bus, f"{channel}id")),
            ]
            return queue.o

        def current(waiting, step):
            """The burst in progress, and whether there is one; ``step`` advances it by a beat."""
            now, active, last = Signal(burst), Signal(), Signal()
            m.d.comb += waiting.ready.eq(~active | (step & last))
            with m.If(step):
                m.d.sync += [now.row.eq(now.row + 1), now.beats.eq(now.beats - 1), last.eq(now.beats == 1)]
            with m.If(waiting.ready):
                m.d.sync += [active.eq(waiting.valid), now.eq(waiting.payload), last.eq(waiting.payload.beats == 0)]
            return now, active, last

        # -- The host: its word in one cycle, and what was read in the next.
        row, lane = host.address[rows.start:rows.stop], host.address[2:max(lane_bits, 3)] if lane_bits > 2 else 0
        beyond = host.address[rows.stop:24].any()
        requested, requested_write, held = Signal(), Signal(), Signal()
        started = host.valid & ~requested & ~held & ~host.done
        m.d.sync += [requested.eq(started & ~beyond), requested_write.eq(host.write), held.eq(requested),
                     host.done.eq(held | (started & beyond)),
                     host.error.eq(started & beyond), host.read_data.eq(read.data.word_select(lane, 32))]
        host_reads, host_writes = requested & ~requested_write, requested & requested_write

        # -- Reads.
        beat = data.StructLayout({"data": width, "id": bus.signature.id_width, "last": 1, "bad": 1})
        m.submodules.beats = beats = Queue(beat, depth=_BEATS)
        reads = bursts("ar")
        issue, vacant = Signal(), Signal()
        m.d.sync += vacant.eq(beats.level < _BEATS - 3)
        reading, active, last = current(reads, issue)
        m.d.comb += [
            issue.eq(active & vacant & ~host_reads),
            read.addr.eq(Mux(host_reads, row, reading.row)),
        ]
        m.d.sync += [beats.i.valid.eq(issue), beats.i.payload.id.eq(reading.id), beats.i.payload.last.eq(last),
                     beats.i.payload.bad.eq(reading.bad)]
        m.d.comb += [
            beats.i.payload.data.eq(read.data), beats.o.ready.eq(bus.rready), bus.rvalid.eq(beats.o.valid),
            bus.rdata.eq(beats.o.payload.data), bus.rid.eq(beats.o.payload.id), bus.rlast.eq(beats.o.payload.last),
            bus.rresp.eq(Mux(beats.o.payload.bad, Resp.DECERR, Resp.OKAY)),
        ]

        # -- Writes.
        response_layout = data.StructLayout({"id": bus.signature.id_width, "bad": 1})
        m.submodules.responses = responses = Queue(response_layout, depth=_BURSTS)
        writes = bursts("aw")
        m.submodules.w = w = Skid(data.StructLayout({"data": width, "strb": lanes}))
        taken, free, offered = Signal(), Signal(), w.o.payload
        m.d.comb += [
            w.i.valid.eq(bus.wvalid), bus.wready.eq(w.i.ready),
            w.i.payload.data.eq(bus.wdata), w.i.payload.strb.eq(bus.wstrb),
            free.eq(responses.level < _BURSTS - 2), taken.eq(w.o.valid & w.o.ready),
        ]
        writing, ready, last = current(writes, taken)
        m.d.comb += [
            w.o.ready.eq(ready & free & ~host_writes),
            responses.o.ready.eq(bus.bready), bus.bvalid.eq(responses.o.valid), bus.bid.eq(responses.o.payload.id),
            bus.bresp.eq(Mux(responses.o.payload.bad, Resp.DECERR, Resp.OKAY)),
        ]
        m.d.sync += [
            responses.i.valid.eq(taken & last), responses.i.payload.id.eq(writing.id),
            responses.i.payload.bad.eq(writing.bad),
            write.addr.eq(Mux(host_writes, row, writing.row)),
            write.data.eq(Mux(host_writes, host.write_data.replicate(width // 32), offered.data)),
            write.en.eq(Mux(host_writes, C(0b1111) << Cat(C(0, 2), lane),
                            Mux(taken & ~writing.bad, offered.strb, 0))),
        ]
        return m
