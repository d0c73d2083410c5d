# SPDX-License-Identifier: Apache-2.0
"""The decoder: checks a command against the tables and computes the values that its chunks share.

CommandQueues -> Decoder -> Operations.  Latency: 9 to 45 cycles, most of them for a division of the count by the
ranks, unless a column of 64 bytes for each rank is enough; 4 more for each part of a VARYING collective's buffers.
Throughput: one command in that time; a collective of one chunk takes longer.
"""

import itertools

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.regions import RegionEntriesSignature, RegionLookupSignature
from hw.common.sizes import DOMAIN_WIDTH
from hw.common.sweep import SweepSignature
from hw.common.table import Table

from .collectives import DIRECTORY_WIDTH, Collective, OneShot, those
from .command_queues import DecodingQueues, QueueWrite, waiting_layout
from .communicator_status import ActivitySignature, CommunicatorStatusSignature
from .communicators import ShapeRead, shape_layout
from .config import COLUMN_BYTES, COUNT_WIDTH, EXTENT_ALIGNMENT, LENGTH_WIDTH, ROOT_WIDTH, AceConfig
from .extents import ExtentRead
from .layouts import HeaderLayout, widens
from .numerics.formats import BYTE_FLOATS, DType, Op, Reduction, one_of, reductions, types
from .operations import verdict_layout
from .programs.store import ProgramRead
from .words import CommandFlag, Status

__all__ = ["Decoder", "DirectoryWrite", "directory_layout"]

_COLUMN_BITS = (COLUMN_BYTES - 1).bit_length()
_UNITS = COUNT_WIDTH + 2 - _COLUMN_BITS + 1
"""Bits of a buffer's length in columns of 64 bytes."""


def directory_layout(config):
    """Addresses of a collective's programs, or of their tables of roles."""
    return data.StructLayout({"plus": config.program_bits, "minus": config.program_bits, "both": 1, "valid": 1})


class DirectoryWrite(wiring.Signature):
    """Write of one entry of the directory, from the registers: in the cycle of ``valid``, without back-pressure.

    ``number``: collective from bit 0, rank order at bit 3, communicator from bit 4.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"valid": Out(1), "number": Out(DIRECTORY_WIDTH + config.communicator_bits),
                          "entry": Out(directory_layout(config))})


class Decoder(wiring.Component):
    """Decode one command at a time.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    init : ``In(SweepSignature)``
    i : ``In(stream.Signature(waiting_layout))``
    directory : ``In(DirectoryWrite)``, configure : ``In(QueueWrite)``
    shape : ``Out(ShapeRead)``, program : ``Out(ProgramRead)``
    regions : ``Out(RegionLookupSignature)``, entries : ``In(RegionEntriesSignature)``
    send_extents, receive_extents : ``Out(ExtentRead)``
        Only if the accelerator is ``varying``.
    o : ``Out(stream.Signature(verdict_layout))``
    communicator_status : ``In(CommunicatorStatusSignature)``
        A command for a stopped communicator completes with the communicator's status.
    pending : ``Out(DecodingQueues)``, looking : ``Out(ActivitySignature)``
        The queue whose command is being decoded, and the communicator that it names.
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "i": In(stream.Signature(waiting_layout(config))),
            "directory": In(DirectoryWrite(config)), "configure": In(QueueWrite(config)),
            "shape": Out(ShapeRead(config)), "program": Out(ProgramRead(config)),
            "regions": Out(RegionLookupSignature(config)), "entries": In(RegionEntriesSignature()),
            **({"send_extents": Out(ExtentRead(config)), "receive_extents": Out(ExtentRead(config))}
               if config.varying else {}),
            "o": Out(stream.Signature(verdict_layout(config))),
            "communicator_status": In(CommunicatorStatusSignature(config)),
            "pending": Out(DecodingQueues(config)), "looking": Out(ActivitySignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, init = self.config, SweepSignature(self.config)
        m.submodules.directory = directory = Table(
            directory_layout(config), depth=config.communicators << DIRECTORY_WIDTH, reads=1, init=init)
        m.submodules.domains = domains = Table(DOMAIN_WIDTH, depth=config.queues, reads=1, init=init)
        for table in (directory, domains):
            wiring.connect(m, wiring.flipped(self.init), table.init)
        command = Signal(waiting_layout(config), reset_less=True)
        word = command.word
        entry = Signal(directory_layout(config), reset_less=True)
        shape = Signal(shape_layout(config), reset_less=True)
        header = Signal(HeaderLayout, reset_less=True)
        status = Signal(8)
        short = Signal()                                            # looks up the one-shot programs
        number = command.word.communicator[:config.communicator_bits]
        verdict, operation = self.o.payload, self.o.payload.operation
        ordered, requests_varying = ((word.flags & flag).any() for flag in (CommandFlag.ORDERED, CommandFlag.VARYING))
        varying = requests_varying if config.varying else C(0, 1)
        m.d.comb += [
            directory.write.en.eq(self.directory.valid), directory.write.addr.eq(self.directory.number),
            directory.write.data.eq(self.directory.entry),
            domains.write.en.eq(self.configure.valid), domains.write.addr.eq(self.configure.queue),
            domains.write.data.eq(self.configure.domain),
            directory.read[0].addr.eq(Cat(
                Mux(short, int(OneShot.ALL_REDUCE), Cat(word.collective[:DIRECTORY_WIDTH - 1], ordered)), number)),
            domains.read[0].addr.eq(command.queue),
            self.shape.number.eq(word.communicator),
            self.regions.src.eq(word.src_region), self.regions.dst.eq(word.dst_region),
        ]
        reducing, rooted, barrier = (Signal(name=name) for name in ("reducing", "rooted", "barrier"))
        m.d.comb += [
            reducing.eq(_any(word.collective, those(lambda info: info.reduces))),
            rooted.eq(_any(word.collective, those(lambda info: info.rooted))),
            barrier.eq(_any(word.collective, those(lambda info: not info.moves_data))),
        ]
        size = Signal(2)                                            # log2 of bytes per element
        bytes_ = _any(word.dtype, BYTE_FLOATS) if config.fp8 else C(0, 1)
        # Valid from state FORM on.
        single, double = ([dtype for dtype in DType if dtype.info.bytes == length and dtype not in BYTE_FLOATS]
                          for length in (1, 2))
        m.d.sync += size.eq(Mux(_any(word.dtype, single) | bytes_, 0, Mux(
            one_of(word.dtype, double), 1, 2)))
        to_root = _any(word.collective, those(lambda info: info.to_root))
        roles, outside = self._roles(m, word, shape, mirrored=to_root, ordered=ordered)

        length = Signal(LENGTH_WIDTH, reset_less=True)              # bytes of ``count`` elements
        quotient, remainder = Signal(_UNITS, reset_less=True), Signal(9, reset_less=True)
        steps = Signal(range(max(_UNITS, 9) + 1))
        shard = Signal(LENGTH_WIDTH, reset_less=True)
        whole, addend, factor = (Signal(LENGTH_WIDTH, reset_less=True), Signal(LENGTH_WIDTH, reset_less=True),
                                 Signal(8, reset_less=True))        # all shards
        limits = {side: Signal(LENGTH_WIDTH, name=f"{side}_limit") for side in ("src", "dst")}
        # These lag their operands by one or two cycles; they are used later.
        halfway, half = Signal(LENGTH_WIDTH, reset_less=True), Signal(LENGTH_WIDTH, reset_less=True)
        bases, available = {}, {}                                   # start of a buffer; bytes to its region's end
        for side in ("src", "dst"):
            region, offset = getattr(self.entries, side), word[f"{side}_offset"] << size
            bases[side] = Signal(config.address_width, name=f"{side}_base", reset_less=True)
            available[side] = Signal(signed(max(len(region.length), len(offset)) + 1), name=f"{side}_available",
                                     reset_less=True)
            m.d.sync += [bases[side].eq(Cat(Const(0, 12), region.base_page) + offset),
                         available[side].eq(region.length - offset)]
        m.d.sync += [halfway.eq((shard + (2 * COLUMN_BYTES - 1))[_COLUMN_BITS + 1:] << _COLUMN_BITS),
                     half.eq(Mux(entry.both & ~barrier & (halfway < shard), halfway, shard))]
        uses = {"src": (header.fills != 0) | varying, "dst": (header.drains != 0) | varying}
        some = Signal()
        checked = {side: Signal(name=f"{side}_checked", init=1) for side in limits}
        extents = {"src": self.send_extents, "dst": self.receive_extents} if config.varying else {}
        first_row = word.root << (EXTENT_ALIGNMENT - 1).bit_length()
        row, rows_left = Signal(config.extent_bits), Signal(8)
        beyond, empty = Signal(), Signal()
        totals = {side: Signal(COUNT_WIDTH + 1, name=f"{side}_total") for side in extents}
        m.d.sync += [totals[side].eq(port.extent.displacement + port.extent.count) for side, port in extents.items()]
        m.d.comb += [
            beyond.eq(first_row + shape.ranks > config.extent_rows if config.varying else 1),
            *(port.row.eq(row) for port in extents.values()),
        ]

        compare, over = "COMPARE" if config.timing.registered_compare else "BOUNDS", {}
        for side in limits:
            over[side] = Signal(name=f"{side}_over", reset_less=True)
            m.d["sync" if config.timing.registered_compare else "comb"] += over[side].eq(limits[side] > available[side])
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(~self.init.active)
                m.d.sync += [command.eq(self.i.payload), status.eq(Status.OK)]
                with m.If(self.i.valid & ~self.init.active):
                    m.next = "TABLES"
            with m.State("TABLES"):
                m.d.sync += [entry.eq(directory.read[0].data), shape.eq(self.shape.shape)]
                m.next = "ROOT" if config.timing.registered_root else "FORM"
            if config.timing.registered_root:
                with m.State("ROOT"):
                    m.next = "FORM"
            with m.State("FORM"):
                operations = reductions(config)
                varies = _any(word.collective, those(lambda info: info.varying))
                never_widened = (size != 1) & ~bytes_ if config.widen else 1
                m.d.sync += length.eq(word.count << size)
                with m.If(~command.whole | (word.collective == 0) | (word.collective > max(Collective))
                          | (word.flags & ~(sum(CommandFlag)) & 0xF).any() | (ordered & ~reducing)
                          | (requests_varying & (beyond | ~varies))
                          | (~barrier & (~_any(word.dtype, types(config)) | ~_any(word.op, operations)
                                         | (word.widen & never_widened) | (rooted & outside)))):
                    m.d.sync += status.eq(Status.MALFORMED)
                    m.next = "SAY"
                # A foreign command was not promised a free row, even if the communicator's domain has changed since.
                with m.Elif(command.foreign | ~entry.valid | ~shape.valid | (shape.domain != domains.read[0].data)):
                    m.d.sync += status.eq(Status.COMMUNICATOR)
                    m.next = "SAY"
                with m.Elif(self.communicator_status.stopped.bit_select(number, 1)):
                    m.d.sync += status.eq(self.communicator_status.statuses[number])
                    m.next = "SAY"
                with m.Elif(rooted):
                    m.next = "ROLE_UP"
                with m.Elif((word.collective == Collective.ALL_REDUCE) & ~ordered):
                    m.next = "SHORT"
                with m.Else():
                    m.next = "HEADER"
            with m.State("SHORT"):
                m.d.comb += short.eq(1)
                with m.If(directory.read[0].data.valid & (length <= shape.one_shot)):
                    m.d.sync += entry.eq(directory.read[0].data)
                m.next = "HEADER"
            for name, field, after in (("UP", "plus", "ROLE_DOWN"), ("DOWN", "minus", "HEADER")):
                with m.State(f"ROLE_{name}"):
                    m.d.comb += [self.program.valid.eq(1), self.program.address.eq(entry[field] + roles[field])]
                    with m.If(self.program.ready):
                        m.next = f"ROLE_{name}_WORD"
                with m.State(f"ROLE_{name}_WORD"):
                    m.d.sync += entry[field].eq(self.program.word)
                    m.next = after
            with m.State("HEADER"):
                m.d.comb += [self.program.valid.eq(1), self.program.address.eq(entry.plus)]
                with m.If(self.program.ready):
                    m.next = "HEADER_WORD"
            with m.State("HEADER_WORD"):
                m.d.sync += [header.eq(self.program.word), remainder.eq(0), steps.eq(_UNITS),
                             quotient.eq((length + (COLUMN_BYTES - 1))[_COLUMN_BITS:])]
                m.next = "SHARD"
            with m.State("SHARD"):
                with m.If(barrier):
                    m.d.sync += shard.eq(config.beat_bytes)
                    m.next = "MULTIPLY"
                with m.Elif(~header.split):
                    m.d.sync += shard.eq(length)
                    m.next = "MULTIPLY"
                with m.Elif(header.shards == 1):
                    m.d.sync += shard.eq(quotient << _COLUMN_BITS)
                    m.next = "LIMITS"
                with m.Elif(quotient <= header.shards):
                    # A column for each shard, or for the first ones.
                    m.d.sync += shard.eq(quotient.any() << _COLUMN_BITS)
                    m.next = "LIMITS"
                with m.Else():
                    m.next = "DIVIDE"
            with m.State("DIVIDE"):
                # A restoring division, one bit per cycle; a remainder makes the shards one column longer.
                with m.If(steps == 0):
                    m.d.sync += shard.eq((quotient + (remainder != 0)) << _COLUMN_BITS)
                    m.next = "LIMITS"
                with m.Else():
                    more = Signal(10)
                    m.d.comb += more.eq(Cat(quotient[-1], remainder))
                    m.d.sync += [
                        steps.eq(steps - 1), quotient.eq(Cat(more >= header.shards, quotient[:-1])),
                        remainder.eq(Mux(more >= header.shards, more - header.shards, more)),
                    ]
            with m.State("MULTIPLY"):
                m.d.sync += [whole.eq(0), addend.eq(shard), factor.eq(header.shards)]
                m.next = "MULTIPLYING"
            with m.State("MULTIPLYING"):
                with m.If(factor[0]):
                    m.d.sync += whole.eq(whole + addend)
                m.d.sync += [addend.eq(addend << 1), factor.eq(factor >> 1)]
                with m.If(factor[1:] == 0):
                    m.next = "LIMITS"
            with m.State("LIMITS"):
                # A buffer that is not checked has no bytes: whatever its programs are, nothing is moved there.
                for side, limit in limits.items():
                    held = Mux(header.split, length, Mux(header[f"{side}_whole"], whole, shard))
                    m.d.sync += [limit.eq(Mux(uses[side] & ~barrier, held, 0)), checked[side].eq(~varying)]
                m.next = compare
                if config.varying:
                    with m.If(varying & some):
                        m.next = "SRC_ROWS"
            for side, port in extents.items():
                with m.State(f"{side.upper()}_ROWS"):
                    m.d.sync += [row.eq(first_row), rows_left.eq(Mux(header[f"{side}_whole"], shape.ranks, 1)),
                                 checked["src"].eq(side == "src"), checked["dst"].eq(side == "dst")]
                    m.next = f"{side.upper()}_ROW"
                with m.State(f"{side.upper()}_ROW"):
                    m.d.comb += port.valid.eq(1)
                    with m.If(port.ready):
                        m.d.sync += [row.eq(row + 1), rows_left.eq(rows_left - 1)]
                        m.next = f"{side.upper()}_EXTENT"
                with m.State(f"{side.upper()}_EXTENT"):
                    extent = port.extent
                    m.d.sync += empty.eq(extent.count == 0)
                    with m.If((extent.count > word.count) & (status == Status.OK)):
                        m.d.sync += status.eq(Status.MALFORMED)
                    m.next = f"{side.upper()}_BYTES"
                with m.State(f"{side.upper()}_BYTES"):
                    m.d.sync += limits[side].eq(Mux(empty, 0, totals[side] << size))
                    m.next = compare
            if config.timing.registered_compare:
                with m.State(compare):
                    m.next = "BOUNDS"
            with m.State("BOUNDS"):
                with m.If(~barrier & some & (status == Status.OK)):
                    for side in ("dst", "src"):  # the later assignment wins: errors of the source take precedence
                        region = getattr(self.entries, side)
                        right = region.readable if side == "src" else region.writable
                        named = word[f"{side}_region"][config.region_bits:].any()
                        bad = {name: Status[f"{side.upper()}_{name}"] for name in (
                            "REGION", "DOMAIN", "RIGHTS", "BOUNDS")}
                        found = Mux(~region.valid | named, bad["REGION"],
                                    Mux(region.domain != domains.read[0].data, bad["DOMAIN"],
                                        Mux(~right, bad["RIGHTS"],
                                            Mux(over[side], bad["BOUNDS"], Status.OK))))
                        with m.If(uses[side] & checked[side] & (found != Status.OK)):
                            m.d.sync += status.eq(found)
                m.next = "SAY"
                if config.varying:
                    with m.If(varying & some & (rows_left != 0)):
                        m.next = "DST_ROW"
                        with m.If(checked["src"]):
                            m.next = "SRC_ROW"
                    with m.Elif(varying & some & checked["src"]):
                        m.next = "DST_ROWS"
            with m.State("SAY"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "IDLE"

        m.d.comb += [
            self.pending.queues.eq(Mux(fsm.ongoing("IDLE"), 0, 1 << command.queue)),
            self.looking.communicators.eq(Mux(fsm.ongoing("IDLE"), 0, 1 << number)),
            some.eq(word.count != 0),
            verdict.queue.eq(command.queue), verdict.flags.eq(word.flags),
            verdict.communicator.eq(word.communicator), verdict.status.eq(status),
            verdict.chunks.eq(barrier | some),
            operation.src_base.eq(bases["src"]), operation.dst_base.eq(bases["dst"]),
            operation.src_limit.eq(limits["src"]), operation.dst_limit.eq(limits["dst"]),
            operation.shard_bytes.eq(shard),
            operation.half.eq(half),
            operation.piece.eq(Mux(widens(config, word) & ~barrier, header.piece << size, header.piece << 2)),
            operation.plus.eq(entry.plus), operation.minus.eq(entry.minus),
            operation.varying.eq(varying), operation.row.eq(first_row), operation.size.eq(size),
            operation.dtype.eq(word.dtype), operation.widen.eq(widens(config, word) & ~barrier),
            operation.divide.eq(Mux(reducing & (word.op == Reduction.AVG), shape.ranks, 0) if config.avg else 0),
            operation.arithmetic.dtype.eq(Mux(widens(config, word), DType.FP32, word.dtype)),
            operation.arithmetic.op.eq(Mux(word.op == Reduction.AVG, Op.SUM, word.op)),
        ]
        return m

    def _roles(self, m, word, shape, *, mirrored, ordered):
        """Offsets in the two tables of roles, a cycle later, and whether the root is no rank of the communicator."""
        at, root, beyond, dimensions = 0, [], [], self.config.dimensions
        # The root's coordinates, whether they exist, and the neighbours.
        domain = "sync" if self.config.timing.registered_root else "comb"
        shifts = [Signal(range(2 * ROOT_WIDTH), name=f"shift_{number}") for number in range(dimensions)]
        for number in reversed(range(dimensions)):
            m.d.comb += shifts[number].eq(at)
            width = shape.root_widths[number]
            where = (word.root >> shifts[number]) & Cat(width > bit for bit in range(len(word.root)))
            root.insert(0, Signal(len(shape.coordinates[number]), name=f"root_{number}", reset_less=True))
            beyond.insert(0, where > shape.sizes[number])
            m.d[domain] += root[0].eq(where)
            at = shifts[number] + width
        # Bits above those of the coordinates, by the table's row, a cycle before ``shape`` has it.
        above, coded = Signal(), sum(self.shape.shape.root_widths)
        m.d.sync += above.eq(Cat(bit & (coded <= index) for index, bit in enumerate(word.root)).any())
        outside = Signal()
        m.d[domain] += outside.eq(Cat(*beyond, above).any())
        same, behind, ahead = (Signal(dimensions, name=name) for name in ("same", "behind", "ahead"))
        for number, where in enumerate(root):
            # Compared without a difference, which would add an adder in series. Neighbours wrap around as well.
            coordinate, last = shape.coordinates[number], shape.sizes[number]
            before, after = (Signal(len(coordinate), name=f"{name}_{number}", reset_less=True)
                             for name in ("before", "after"))
            m.d[domain] += [before.eq(coordinate - 1), after.eq(coordinate + 1)]
            m.d.comb += [
                same[number].eq(coordinate == where),
                behind[number].eq((where == before) | ((coordinate == 0) & (where == last))),
                ahead[number].eq((where == after) | ((coordinate == last) & (where == 0))),
            ]
            with m.If(ordered):
                m.d.comb += [behind[number].eq(coordinate < where), ahead[number].eq(coordinate < where)]
        found = {}
        for field in ("plus", "minus"):
            # Downward, the last rank of the chain is the one behind the root.
            far = Mux(mirrored if field == "plus" else ~mirrored, behind, ahead)
            found[field] = Signal(5, name=f"{field}_role")
            with m.Switch(Cat(same, far)):
                for digits in itertools.product(range(3), repeat=dimensions):
                    pattern = "".join({0: "-", 1: "0", 2: "1"}[digit] for digit in reversed(digits)) + "".join(
                        "1" if digit == 0 else "0" for digit in reversed(digits))
                    with m.Case(pattern):
                        m.d.sync += found[field].eq(sum(3 ** number * digit for number, digit in enumerate(digits)))
        return found, outside


def _any(value, among):
    """Whether ``value`` is one of ``among``."""
    equal = [value == int(one) for one in among]
    return equal[0] if len(equal) == 1 else Cat(equal).any()
