# SPDX-License-Identifier: Apache-2.0
"""A queue of a typed stream between two clock domains.

Latency: 1 cycle of the writer's clock, then 3 to 4 of the reader's (with ``stages=3``, 4 to 5).  Throughput: 1 transfer
per cycle of the slower clock from a depth of 16.

Between the domains there are gray-coded row counters, each through a :class:`LevelCrossing`, the levels of a
:class:`ResetHandshake`, and one more path: from the LUT RAM's cells, written by the writer's clock, to the output
register. It is loaded ``stages`` cycles of the reader's clock after the counter has arrived, so that this path has
settled; ``set_max_delay -datapath_only`` must bound it to one of these cycles.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream.shapes import ShapeLike

from .level_crossing import LevelCrossing
from .reset_handshake import ResetHandshake
from .storage import make_storage

__all__ = ["AsyncQueue", "AsyncRows"]


class AsyncRows(wiring.Component):
    """The LUT RAM, and the output register with the path from one domain to the other.

    Parameters
    ----------
    width, depth : int
    write_domain, read_domain : str

    Members
    -------
    write : ``In(1)``, write_row : ``In(range(depth))``, item : ``In(width)``
        In ``write_domain``.
    load : ``In(1)``, read_row : ``In(range(depth))``, payload : ``Out(width)``
        In ``read_domain``; ``payload`` is registered.
    """

    def __init__(self, width: int, *, depth: int, write_domain: str, read_domain: str) -> None:
        self.width, self.depth = width, depth
        self.write_domain, self.read_domain = write_domain, read_domain
        super().__init__({
            "write": In(1), "write_row": In(range(depth)), "item": In(width),
            "load": In(1), "read_row": In(range(depth)), "payload": Out(width),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.storage = storage = make_storage(self.width, self.depth, "lut")
        w_port, r_port = storage.write_port(domain=self.write_domain), storage.read_port(domain="comb")
        captured = Signal(self.width, name="payload", reset_less=True)
        m.d.comb += [
            w_port.en.eq(self.write), w_port.addr.eq(self.write_row), w_port.data.eq(self.item),
            r_port.addr.eq(self.read_row), self.payload.eq(captured),
        ]
        with m.If(self.load):
            m.d[self.read_domain] += captured.eq(r_port.data)
        return m


class AsyncQueue(wiring.Component):
    """Pass items from one clock domain to another, first in, first out.

    Resets: each domain may be reset at any time and for any number of cycles. The queue then drops what it holds,
    except an item in the output register of a reader that is not reset: this item stays until it is taken. Items that
    were accepted before the writer has seen a reset of the reader may be dropped. Then ``i.ready`` is 0 and no row is
    read until both sides have met in a handshake, which needs both clocks, and the queue starts again empty. If the
    resets of both domains overlap, no item that was accepted before appears afterwards.

    Parameters
    ----------
    shape : shape-like
        Payload shape, usually a :class:`data.Struct`.
    depth : int
        Rows; power of two from 4 to 64. Full rate takes 16.
    write_domain, read_domain : str
        Clock domains of ``i`` and ``o``.
    stages : int
        Flip-flops of each synchroniser, 2 or 3.

    Members
    -------
    i : ``In(stream.Signature(shape))``
        In ``write_domain``. ``ready`` is registered.
    o : ``Out(stream.Signature(shape))``
        In ``read_domain``. ``valid`` and ``payload`` are registered.

    Raises
    ------
    ValueError
        If ``depth`` or ``stages`` is out of its range, or the payload has no bits.
    """

    def __init__(self, shape: ShapeLike, *, depth: int = 16, write_domain: str = "write", read_domain: str = "read",
                 stages: int = 2) -> None:
        if depth not in (4, 8, 16, 32, 64):
            raise ValueError(f"AsyncQueue depth must be a power of two from 4 to 64, not {depth!r}")
        if not Shape.cast(shape).width:
            raise ValueError("AsyncQueue payload must have at least one bit")
        self.shape, self.depth, self.stages = shape, depth, stages
        self.write_domain, self.read_domain = write_domain, read_domain
        self.width = Shape.cast(shape).width
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        to_reader = {"i_domain": self.write_domain, "o_domain": self.read_domain, "stages": self.stages}
        to_writer = {"i_domain": self.read_domain, "o_domain": self.write_domain, "stages": self.stages}
        # Both counters count modulo twice the depth, so that a full queue differs from an empty one.
        bits = self.depth.bit_length()
        m.submodules.written = written = LevelCrossing(bits, **to_reader)
        m.submodules.read = read = LevelCrossing(bits, **to_writer)
        m.submodules.resets = resets = ResetHandshake((self.write_domain, self.read_domain), stages=self.stages)
        m.submodules.rows = rows = AsyncRows(
            self.width, depth=self.depth, write_domain=self.write_domain, read_domain=self.read_domain)
        self._write(m, written, read, resets, rows)
        self._read(m, written, read, resets, rows)
        return m

    def _write(self, m, written, read, resets, rows):
        ready = Signal()
        next_row = Signal(self.depth.bit_length(), reset_less=True)
        after = Signal.like(next_row)
        m.d.comb += [
            self.i.ready.eq(ready), rows.write.eq(self.i.valid & ready), rows.write_row.eq(next_row),
            rows.item.eq(Value.cast(self.i.payload)), after.eq(next_row + rows.write), written.i.eq(_gray(after)),
        ]
        with m.If(resets.clear[0]):
            m.d.comb += after.eq(0)
        full = _gray(after) == (read.o ^ (0b11 << len(after) - 2))
        m.d[self.write_domain] += [next_row.eq(after), ready.eq(~full & ~resets.stop[0])]

    def _read(self, m, written, read, resets, rows):
        valid, running = Signal(name="valid"), Signal(name="running")
        oldest = Signal(self.depth.bit_length(), reset_less=True)
        after = Signal.like(oldest)
        m.d.comb += [
            rows.load.eq(running & (_gray(oldest) != written.o) & (~valid | self.o.ready)),
            rows.read_row.eq(oldest), after.eq(oldest + rows.load), read.i.eq(_gray(after)),
            self.o.valid.eq(valid), Value.cast(self.o.payload).eq(rows.payload),
        ]
        with m.If(resets.clear[1]):
            m.d.comb += after.eq(0)
        m.d[self.read_domain] += [oldest.eq(after), running.eq(~resets.stop[1])]
        with m.If(rows.load):
            m.d[self.read_domain] += valid.eq(1)
        with m.Elif(self.o.ready):
            m.d[self.read_domain] += valid.eq(0)


def _gray(count):
    return count ^ count[1:]
