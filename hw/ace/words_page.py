# SPDX-License-Identifier: Apache-2.0
"""The page of all words, packets and codes, from the tables that the hardware uses.

The meanings of fields, flags and status codes are here, those of collectives and types in their tables. A field or a
code without a meaning is a KeyError.
"""

from amaranth.hdl import Shape

from hw.common.words import COMPLETION_FIELDS, field_positions

from .collectives import Collective, those
from .config import COLUMN_BYTES, EXTENT_ALIGNMENT
from .layouts import PacketKind, implied_layout, link_header_layout, link_layout, packet_layout
from .numerics.formats import DType, Reduction
from .words import (
    COMMAND_FIELDS,
    HEADER_FIELDS,
    PHASE_FIELDS,
    PROGRAM_WIDTH,
    RECORD_FIELDS,
    ROLE_FIELDS,
    SEND_FIELDS,
    TRANSFER_FIELDS,
    CommandFlag,
    Status,
)

__all__ = ["page"]

_COMMAND = {
    "collective": "the operation; see [collectives](#collectives)",
    "flags": "see [flags](#flags); others zero",
    "communicator": "entry of the communicator table",
    "dtype": "type of the elements, in both buffers",
    "op": "reduction of the ranks' elements, for a collective that reduces; otherwise 0",
    "widen": "floats of 16 and 8 bits are FP32 in the SRAM and on the links; otherwise 0",
    "root": "the root's coordinates, each in ceil(log2(size)) bits, the last dimension's lowest: the root's rank "
            "if all sizes are powers of two. With VARYING: the first row of the extents table, divided by "
            f"{EXTENT_ALIGNMENT}",
    "src_region": "region of the send buffer",
    "src_offset": "start of the buffer, in elements",
    "dst_region": "region of the receive buffer",
    "dst_offset": "start of the buffer, in elements",
    "count": "elements, as NCCL counts them; with 0 the command completes at once. With VARYING: the maximum of all "
             "counts of all ranks, the same on each",
}

_COMPLETION = {
    "count": "commands of the queue that have completed, in order",
    "failed": "failures",
    "status": "the latest failure's, until QUEUE_CLEAR",
}

_HEADER = {
    "phases": "phases, including empty ones",
    "fills": "TRANSFER words of the fills",
    "drains": "TRANSFER words of the drains",
    "split": "1: the count is cut into `shards` shards; 0: each shard has `count` elements",
    "shards": "number of shards in a buffer",
    "src_whole": "1: the send buffer has all shards; 0: one",
    "dst_whole": "1: the receive buffer has all shards; 0: one",
    "piece": f"longest range of columns in a chunk, in units of {COLUMN_BYTES} bytes of the SRAM",
    "early": "1: receives of the first phase store to no position that is filled, and are granted before the fill",
    "parts": "1: the last drain has the positions of the last receive of the last phase, which changes no others; the "
             "other drains begin when all but that receive have arrived",
}

_TRANSFER = {
    "position": "first position in the slot",
    "shard": "first shard in the buffer",
    "count": "number of both, consecutive",
    "mark": "1: the FSM is notified when this fill and those before it have ended. The first mark permits to grant "
            "receive 0 of the first phase; the second one, sends 0 and 1; number m from the third on, sends below "
            "2^(m-1), and to grant receives below 2^(m-1) - 1. The end of the last fill permits all",
}

_PHASE = {
    "port": "port of the sends; receives arrive at `port ^ 1`",
    "span": "positions of each send, and of each receive",
    "both": "1: some sends go back, at `port ^ 1`; all receives of both sides are safe when the phase starts",
    "sends": "SEND words that follow",
    "receives": "number of receives, without those of sends that go back",
    "granted": "number of receives that are safe when the phase starts; with `both`, at least `sends`",
}

_SEND = {
    "source": "first position in the slot here",
    "target": "first position in the receiver's slot of the same chunk",
    "need": "receives of this phase that must precede the send; packet i of the last of them suffices for packet i",
    "grants": "receives that become safe when this send is done",
    "reduce": "1: the receiver combines it with the contents of its positions; 0: it is copied there",
    "back": "1: it leaves at `port ^ 1`; `need` counts receives of sends that go back",
    "local": "1: it leaves and arrives at the loopback, without a GRANT, when all earlier sends have been read, all "
             "`receives` have arrived, and `need` of those that go back",
    "next": "dimension of the next phase, plus 1: grant all its receives when this send is read from the program; 0: "
            "grant them when it starts",
    "next_both": "`both` of the next phase",
}

_PACKET = {
    "kind": "see below",
    "communicator": "communicator of the chunk; the same number on all its ranks",
    "epoch": "of the communicator; 0",
    "sequence": "number of the chunk within the communicator",
    "phase": "phase of the chunk's program",
    "offset": "DATA: first beat in the receiver's slot",
    "beats": "DATA: beats of payload, less one",
    "reduce": "DATA: combine with the contents of the slot",
    "final": "DATA: last packet of its send",
    "state": "CREDIT: state of the sender's port: 0 DOWN, 1 START, 2 INIT, 3 UP",
    "nak": "CREDIT: replay the packets from `ack` on",
    "ask": "CREDIT: the peer must respond with another at once",
    "refuse": "CREDIT: the sender has left the session that the receiver's is bound to",
    "session": "CREDIT: number of the sender's session",
    "peer": "CREDIT: number of the receiver's session that the sender is bound to or refuses; in START and DOWN it "
            "may be an earlier one",
    "ack_high": "CREDIT: high bits of the number that is expected next, above those of `ack`",
    "granted": "GRANT: receives of the phase that are safe, counted from its start; all bits set: all of them",
}

_LINK_HEADER = {
    "packet": "the packet's header, see above",
    "sequence": "low bits of the packet's number; CREDIT packets have none; the first one is 0",
    "ack": "low bits of the number that is expected next, which acknowledges all before",
    "round": "changes with each replay; in a NAK, the round that it applies to",
    "channel": "channel of the receive buffer",
    "credits": "13 bits for each channel: beats removed from its receive buffer since the link came up, "
               "modulo 8,192",
}

_LINK = {
    "data": "payload: words of the SRAM, the beat's first byte lowest; 0 in packets without payload, where it is not "
            "transmitted",
    "header": "transmitted before the payload, in 12 bytes, whose other bits are 0; valid on the first beat",
    "crc": "CRC-32 of IEEE 802.3 (zlib's) of the header's 12 bytes and the payload, in all but CREDIT packets XORed "
           "with [state of both ends](#fields-that-count-in-the-crc); transmitted after the payload; valid on the last "
           "beat",
    "first": "first beat of a packet",
    "last": "last beat of a packet",
}

_IMPLIED = {
    "sequence_high": "high bits of the packet's number, above those of `sequence`",
    "ack_high": "high bits of the number that is expected next, above those of `ack`",
    "session": "number of the receiver's session",
}

def _names(codes):
    *others, last = (code.name for code in codes)
    return f"{', '.join(others)} and {last}"


_FLAGS = {
    CommandFlag.SC: "publish the queue's completion word when the collective has completed on this rank",
    CommandFlag.IRQ: "raise the completion interrupt then",
    CommandFlag.ORDERED: "combine every element strictly in rank order, 0 to n - 1; for "
                         f"{_names(those(lambda info: info.reduces))}, in communicators that are a line: at most one "
                         "dimension of more than one rank",
    CommandFlag.VARYING: "each block of the buffers has a count and a displacement of its own, from the extents table; "
                         f"for {_names(those(lambda info: info.varying))}",
}

_REDUCTIONS = {
    Reduction.SUM: "rounded to nearest, ties to even",
    Reduction.MIN: "IEEE 754-2019 `minimum`: NaN if either is; -0 is less than +0",
    Reduction.MAX: "IEEE 754-2019 `maximum`",
    Reduction.AVG: "the sum, divided once by the number of ranks; integers are truncated towards zero",
    Reduction.PROD: "rounded to nearest, ties to even; optional in an accelerator",
}

_KINDS = {
    PacketKind.CREDIT: "one beat, no payload; from port to port, has no number, uses no receive buffer",
    PacketKind.DATA: "a part of a send",
    PacketKind.GRANT: "one beat, no payload: from the receiver of sends to their sender",
    PacketKind.ABORT: "one beat, whose payload is a [record](#the-record-of-an-error): from a rank to its neighbours",
    PacketKind.PUT: "reserved",
    PacketKind.PUT_DONE: "reserved",
}

_RECORD = {
    "status": "cause",
    "rank": "rank in the communicator where the error occurred",
    "port": "LINK_DOWN: the rank's port",
    "phase": "phase of the chunk",
    "named": "1: a chunk is named",
    "step": "completed sends of the phase; 0 for a memory error",
    "sequence": "number of the failed chunk for a memory error, otherwise of the oldest one on the links",
}

_STATUS = {
    Status.OK: ("success", ""),
    Status.MALFORMED: ("unknown collective or flag; unknown type or operation, also if the collective does not reduce "
                       "(only BARRIER ignores both); "
                       "PROD, AVG, FP8 or VARYING in an accelerator without it; "
                       "ORDERED with a collective that combines nothing; "
                       "VARYING with a collective without parts, with rows beyond the extents table, or with a "
                       "count above the command's; "
                       "`widen` with FP32 or an integer; a root outside the communicator; a store of "
                       "fewer than 16 bytes", "correct the command"),
    Status.OVERFLOW: ("a word arrived at a full queue. It and all later ones are refused until QUEUE_CLEAR",
                      "post at most `queue_depth` words that have not started; QUEUE_CLEAR, post again"),
    Status.DISABLED: ("a word arrived at a queue that is not enabled", "QUEUE_CONFIG, QUEUE_COMMIT, QUEUE_CLEAR"),
    Status.TIMEOUT: ("a rank's watchdog: the communicator had work and made no progress", "see `FAULT`, and the "
                     "state of the other ranks; reopen it"),
    Status.COMPLETION_ERROR: ("memory responded to a completion word's write with an error; reported after all earlier "
                              "commands have completed", "correct QUEUE_SC; QUEUE_CLEAR"),
    Status.COMMUNICATOR: ("not in the table, without a program for the collective (or for its rank order), or in "
                          "another domain than the queue",
                          "configure it; `left_out` of `assemble` lists the omitted programs and the reasons"),
    Status.SRC_REGION: ("the send buffer's region is not in the table", "define it"),
    Status.SRC_DOMAIN: ("it belongs to another domain than the queue", "use a region of the queue's domain"),
    Status.SRC_RIGHTS: ("it is not readable", "set `readable`"),
    Status.SRC_BOUNDS: ("the send buffer ends beyond it", "correct offset or count: both are in elements"),
    Status.READ_ERROR: ("a rank's memory responded to a read with an error", "see `FAULT`; reopen the communicator"),
    Status.DST_REGION: ("as for the send buffer", ""),
    Status.DST_DOMAIN: ("as for the send buffer", ""),
    Status.DST_RIGHTS: ("it is not writable", "set `writable`"),
    Status.DST_BOUNDS: ("as for the send buffer", ""),
    Status.WRITE_ERROR: ("a rank's memory responded to a write with an error", "see `FAULT`; reopen the communicator"),
    Status.LINK_DOWN: ("a link of a rank is down", "see `FAULT`; bring the link up, reopen the communicator"),
    Status.REVOKED: ("a rank's software wrote COMMUNICATOR_REVOKE", "reopen the communicator"),
}


def page(config):
    """Markdown for the sizes of ``config``."""
    lines = ["# Words, packets and codes: ace", "", "All words are little endian.", ""]
    lines += ["## The command word", "", "128 bits, one aligned 16-byte store anywhere in a queue's doorbell page.", ""]
    lines += _fields(field_positions(COMMAND_FIELDS), _COMMAND)
    lines += ["### Collectives", "",
              "Lengths of the buffers are in elements; `count x ranks` is a block of `count` for each rank, in rank "
              "order. In place: the buffers may overlap, as in NCCL.", "", *_collectives()]
    lines += ["### Flags", "", *_codes(_FLAGS, "`flags`"), "### Types", "",
              "With `widen`, a type that can be widened is FP32 in the SRAM, on the links and in additions.", "",
              *_types(), "### Operations", "", *_codes(_REDUCTIONS, "`op`")]
    lines += ["## The completion word", "", "64 bits in memory at the queue's QUEUE_SC.", ""]
    lines += _fields(field_positions(COMPLETION_FIELDS), _COMPLETION)
    lines += ["## Status codes", "", "| code | status | when | what to do |", "|---|---|---|---|"]
    lines += [f"| {status:02x} | {status.name} | {' | '.join(_STATUS[status])} |" for status in Status]
    lines += ["", "## Words of a program", "",
              f"{PROGRAM_WIDTH} bits each. A program is a HEADER, its fills, its drains, and its phases, each with its "
              "SENDs. For collectives with a root, the directory names a table of ROLE words, one for each "
              "role in each dimension, at number role[0] + 3 role[1] + 9 role[2]. A role is "
              "0 at the root's coordinate, 2 at the other end of the chain, 1 between; for a REDUCE in rank order 0 "
              "at the root, 1 above it, 2 below it.", ""]
    for name, fields, meanings in (
            ("HEADER", HEADER_FIELDS, _HEADER), ("TRANSFER: a fill or a drain", TRANSFER_FIELDS, _TRANSFER),
            ("PHASE", PHASE_FIELDS, _PHASE), ("SEND", SEND_FIELDS, _SEND),
            ("ROLE", ROLE_FIELDS, {"program": "address of the role's HEADER"})):
        lines += [f"### {name}", "", *_fields(field_positions(fields), meanings)]
    lines += ["## The packet header", "",
              "Beside the first beat of a packet. Fields of different kinds share bits.", "",
              *_fields(_placed(packet_layout(config)), _PACKET), "### Kinds", "", *_codes(_KINDS, "`kind`"),
              "## The record of an error", "", "Payload of an ABORT packet; registers `FAULT` and `FAULT_CHUNK`.", "",
              *_fields(field_positions(RECORD_FIELDS), _RECORD), "## The beat on a link", ""]
    lines += [*_fields(_placed(link_layout(config)), _LINK), "### Its header", "",
              *_fields(_placed(link_header_layout(config)), _LINK_HEADER), "### Fields that count in the CRC", "",
              "These fields are not transmitted: sender and receiver XOR the CRC of a packet with them.", "",
              *_fields(_placed(implied_layout()), _IMPLIED)]
    return "\n".join(lines)


def _fields(positions, meanings):
    lines = ["| bits | field | meaning |", "|---|---|---|"]
    for name, (lsb, width) in positions.items():
        bits = f"{lsb}" if width == 1 else f"{lsb + width - 1}:{lsb}"
        lines.append(f"| {bits} | {name} | {meanings[name]} |")
    return [*lines, ""]


def _placed(layout):
    """Name -> lowest bit and width."""
    return {name: (field.offset, Shape.cast(field.shape).width) for name, field in layout}


def _collectives():
    lines = ["| `collective` | name | NCCL | send buffer | receive buffer | in place | meaning |", "|---|" + 6 * "---|"]
    for code in Collective:
        info = code.info
        lines.append(f"| {code.value} | {code.name} | {_nccl(info)} | {info.send or ''} | {info.receive or ''} | "
                     f"{'yes' if info.moves_data and info.in_place else ''} | {info.doc} |")
    return [*lines, ""]


def _types():
    lines = ["| `dtype` | name | NCCL | bits | can be widened | option | meaning |", "|---|" + 6 * "---|"]
    for code in DType:
        info = code.info
        lines.append(f"| {code.value} | {code.name} | {_nccl(info)} | {info.bits} | {'yes' if info.widens else ''} | "
                     f"{info.option or ''} | {info.doc} |")
    return [*lines, ""]


def _nccl(info):
    return f"`{info.nccl}`" if info.nccl else ""


def _codes(meanings, doc):
    codes = type(next(iter(meanings)))
    lines = [f"| {doc} | name | meaning |", "|---|---|---|"]
    return [*lines, *(f"| {code.value} | {code.name} | {meanings[code]} |" for code in codes), ""]
