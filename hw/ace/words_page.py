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
    "collective": "what to do; see [collectives](#collectives)",
    "flags": "see [flags](#flags); others zero",
    "communicator": "entry of the communicator table",
    "dtype": "type of the elements, in both buffers",
    "op": "what is made of the ranks' elements, of a collective that reduces; else 0",
    "widen": "floats of 16 and 8 bits are FP32 in the SRAM and on the links; else 0",
    "root": "the root's coordinates, each in ceil(log2(size)) bits, the last dimension's lowest: the root's rank "
            "where all sizes are powers of two. With VARYING: the first row of the extents table, divided by "
            f"{EXTENT_ALIGNMENT}",
    "src_region": "region of the send buffer",
    "src_offset": "where it begins, in elements",
    "dst_region": "region of the receive buffer",
    "dst_offset": "where it begins, in elements",
    "count": "elements, as NCCL counts them; 0 ends at once. With VARYING: the largest of all counts of all ranks, the "
             "same on each",
}

_COMPLETION = {
    "count": "commands of the queue that have ended, in order",
    "failed": "failures",
    "status": "the latest failure's, until QUEUE_CLEAR",
}

_HEADER = {
    "phases": "phases, with empty ones",
    "fills": "TRANSFER words of the fills",
    "drains": "TRANSFER words of the drains",
    "split": "1: the count is cut into `shards` shards; 0: each shard has `count` elements",
    "shards": "shards that a buffer is seen as",
    "src_whole": "the send buffer has all shards; else one",
    "dst_whole": "the receive buffer has all shards; else one",
    "piece": f"longest range of columns in a chunk, in units of {COLUMN_BYTES} bytes of the SRAM",
}

_TRANSFER = {
    "position": "first place in the slot",
    "shard": "first shard in the buffer",
    "count": "how many of both, one after the other",
}

_PHASE = {
    "port": "where sends leave; receives come in at `port ^ 1`",
    "span": "places of each send, and of each receive",
    "sends": "SEND words that follow",
    "receives": "how many come",
    "granted": "of these, how many are safe when the phase begins",
}

_SEND = {
    "source": "first place in the slot here",
    "target": "first place in the receiver's slot of the same chunk",
    "need": "receives of this phase that must have come first; packet i of the last of them is enough for packet i",
    "grants": "receives that become safe when this send is done",
    "reduce": "1: the receiver combines it with what its places hold; 0: it is copied there",
}

_PACKET = {
    "kind": "see below",
    "communicator": "whose chunk; the same number on all its ranks",
    "epoch": "of the communicator; 0",
    "sequence": "which of its chunks",
    "phase": "which phase of the chunk's program",
    "offset": "DATA: first beat in the receiver's slot",
    "beats": "DATA: beats of payload, less one",
    "reduce": "DATA: combine with what is there",
    "state": "CREDIT: of the sender's port: 0 DOWN, 1 START, 2 INIT, 3 UP",
    "nak": "CREDIT: packets from `ack` on are to be sent again",
    "ask": "CREDIT: to be answered by another at once",
    "refuse": "CREDIT: the sender has left the session that the receiver's is bound to",
    "session": "CREDIT: number of the sender's session",
    "peer": "CREDIT: number of the receiver's session that the sender is bound to, or that it refuses; in START and "
            "DOWN it may be an old one",
    "ack_high": "CREDIT: the number that is expected next, above the bits of `ack`",
    "granted": "GRANT: receives of the phase that are safe, counted from its beginning",
}

_LINK_HEADER = {
    "packet": "the packet's header, see above",
    "sequence": "low bits of the packet's number, of those that are not CREDIT packets; the first one is 0",
    "ack": "low bits of the number of the packet that is expected next: all before have come",
    "round": "changes whenever packets are sent again; of a NAK, the round that it complains of",
    "channel": "whose receive buffer it goes to",
    "credits": "13 bits for each channel: beats that were taken out of its receive buffer since the link came up, "
               "modulo 8,192",
}

_LINK = {
    "data": "payload: words of the SRAM, the beat's first byte lowest; 0 in packets without payload, where it does not "
            "travel",
    "header": "travels in front of the payload, in 12 bytes, the rest of which is 0; counts on the first beat",
    "crc": "CRC-32 of IEEE 802.3 (zlib's) of the header's 12 bytes and the payload, of all but CREDIT packets XORed "
           "with [what both ends know](#what-counts-in-the-crc); travels behind the payload; counts on the last beat",
    "first": "first beat of a packet",
    "last": "last beat of a packet",
}

_IMPLIED = {
    "sequence_high": "number of the packet, above the bits of `sequence`",
    "ack_high": "number of the packet that is expected next, above the bits of `ack`",
    "session": "number of the receiver's session",
}

def _names(codes):
    *others, last = (code.name for code in codes)
    return f"{', '.join(others)} and {last}"


_FLAGS = {
    CommandFlag.SC: "publish the queue's completion word when the collective has ended here",
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
    Reduction.AVG: "the sum, divided once by the number of ranks; integers are cut towards zero",
    Reduction.PROD: "rounded to nearest, ties to even; an accelerator may be made without it",
}

_KINDS = {
    PacketKind.CREDIT: "one beat, no payload; from port to port, has no number, takes no room in the receive buffer",
    PacketKind.DATA: "a piece of a send",
    PacketKind.GRANT: "one beat, no payload: from the receiver of sends to their sender",
    PacketKind.ABORT: "one beat, whose payload is a [record](#the-record-of-an-error): from a rank to its neighbours",
    PacketKind.PUT: "reserved",
    PacketKind.PUT_DONE: "reserved",
}

_RECORD = {
    "status": "why",
    "rank": "where: rank in the communicator",
    "port": "LINK_DOWN: the rank's port",
    "phase": "phase of the chunk",
    "named": "there is a chunk",
    "step": "sends of the phase that were done; of a memory error, 0",
    "sequence": "of a memory error the chunk, else the oldest one on the links",
}

_STATUS = {
    Status.OK: ("everything went well", ""),
    Status.MALFORMED: ("unknown collective, type, operation or flag; "
                       "PROD, AVG, FP8 or VARYING of an accelerator made without it; "
                       "ORDERED with a collective that combines nothing; "
                       "VARYING with one whose buffers have no parts, with rows beyond the extents table, or with a "
                       "count in them above the command's; "
                       "`widen` with FP32 or an integer; a root outside the communicator; a store of "
                       "fewer than 16 bytes", "mend the command"),
    Status.OVERFLOW: ("a word came to a full queue. It and all later ones are refused until QUEUE_CLEAR",
                      "post no more than `queue_depth` words that have not begun; QUEUE_CLEAR, post again"),
    Status.DISABLED: ("a word came to a queue that is not enabled", "QUEUE_CONFIG, QUEUE_COMMIT, QUEUE_CLEAR"),
    Status.TIMEOUT: ("a rank's watchdog: the communicator had work and made no progress", "see `FAULT`, and what the "
                     "other ranks did; open it again"),
    Status.COMPLETION_ERROR: ("the memory answered a completion word's write with an error; it is told when all before "
                              "has ended", "mend QUEUE_SC; QUEUE_CLEAR"),
    Status.COMMUNICATOR: ("not in the table, without a program for the collective, or for it in rank order, or of "
                          "another domain than the queue",
                          "set it up; what `assemble` left out, and why, is in its `left_out`"),
    Status.SRC_REGION: ("the send buffer's region is not in the table", "set it up"),
    Status.SRC_DOMAIN: ("it belongs to another domain than the queue", "take one of the queue's own"),
    Status.SRC_RIGHTS: ("it may not be read", "set `readable`"),
    Status.SRC_BOUNDS: ("the send buffer ends beyond it", "mend offset or count: both are in elements"),
    Status.READ_ERROR: ("a rank's memory answered a read with an error", "see `FAULT`; open the communicator again"),
    Status.DST_REGION: ("as for the send buffer", ""),
    Status.DST_DOMAIN: ("as for the send buffer", ""),
    Status.DST_RIGHTS: ("it may not be written", "set `writable`"),
    Status.DST_BOUNDS: ("as for the send buffer", ""),
    Status.WRITE_ERROR: ("a rank's memory answered a write with an error", "see `FAULT`; open the communicator again"),
    Status.LINK_DOWN: ("a link of a rank is down", "see `FAULT`; bring the link up, open the communicator again"),
    Status.REVOKED: ("a rank's software wrote COMMUNICATOR_REVOKE", "open the communicator again"),
}


def page(config):
    """Markdown; what depends on the sizes is that of ``config``."""
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
              "SENDs behind it. Of collectives with a root, the directory names a table of ROLE words, one for each "
              "role in each dimension: number role[0] + 3 role[1] + 9 role[2]: "
              "0 at the root's coordinate, 2 at the other end of the chain, 1 between; of a REDUCE in rank order 0 "
              "there, 1 above, 2 below.", ""]
    for name, fields, meanings in (
            ("HEADER", HEADER_FIELDS, _HEADER), ("TRANSFER: a fill or a drain", TRANSFER_FIELDS, _TRANSFER),
            ("PHASE", PHASE_FIELDS, _PHASE), ("SEND", SEND_FIELDS, _SEND),
            ("ROLE", ROLE_FIELDS, {"program": "address of the role's HEADER"})):
        lines += [f"### {name}", "", *_fields(field_positions(fields), meanings)]
    lines += ["## The packet header", "",
              "Beside the first beat of a packet. What one kind has shares its bits with what others have.", "",
              *_fields(_placed(packet_layout(config)), _PACKET), "### Kinds", "", *_codes(_KINDS, "`kind`"),
              "## The record of an error", "", "Payload of an ABORT packet; registers `FAULT` and `FAULT_CHUNK`.", "",
              *_fields(field_positions(RECORD_FIELDS), _RECORD), "## The beat on a link", ""]
    lines += [*_fields(_placed(link_layout(config)), _LINK), "### Its header", "",
              *_fields(_placed(link_header_layout(config)), _LINK_HEADER), "### What counts in the CRC", "",
              "It does not travel: the sender XORs the CRC of a packet with it, and so does the receiver.", "",
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
