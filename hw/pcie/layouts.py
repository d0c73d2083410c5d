# SPDX-License-Identifier: Apache-2.0
"""Payloads and interfaces between the stages of the PCIe adapter, sized by the configuration."""

from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import streams

from .config import ADDR_WIDTH, ATTRIBUTE_WIDTH, LENGTH_WIDTH, TAG_WIDTH, PcieConfig
from .tlp import ErrorCode

__all__ = [
    "FlushSignature", "MessageLayout", "ReadTlp", "RequesterEvents", "RequesterSettings", "completion_layout",
    "flush_layout", "read_beat_layout", "read_burst_layout", "write_beat_layout", "write_response_layout",
    "write_tlp_layout",
]


def read_burst_layout(config: PcieConfig) -> data.StructLayout:
    """AR of ``s_axi``."""
    return streams.read_burst_layout(addr_width=ADDR_WIDTH, id_width=config.axi_id_width)


def read_beat_layout(config: PcieConfig) -> data.StructLayout:
    """A beat of R."""
    return streams.read_beat_layout(data_width=config.data_width, id_width=config.axi_id_width)


def write_beat_layout(config: PcieConfig) -> data.StructLayout:
    """A beat of W; the first of a burst carries AW as well."""
    return streams.write_beat_layout(
        addr_width=ADDR_WIDTH, data_width=config.data_width, id_width=config.axi_id_width)


def write_response_layout(config: PcieConfig) -> data.StructLayout:
    """B."""
    return streams.write_response_layout(id_width=config.axi_id_width)


ReadTlp = data.StructLayout({
    "address": ADDR_WIDTH - 2, "dwords": LENGTH_WIDTH, "first_be": 4, "last_be": 4, "tag": TAG_WIDTH,
    "attributes": ATTRIBUTE_WIDTH,
})
"""A memory read request. ``address`` is in double words. A read of no byte (a flush) has one DW and no byte enable."""


def write_tlp_layout(config: PcieConfig) -> data.StructLayout:
    """A memory write request whose payload is complete, ``address`` in double words.

    ``lane``: position of the first payload DW in the first of its beats of data, which are aligned as on ``s_axi``. The
    only DW of a message has position 0 at any address.
    """
    return data.StructLayout({
        "address": ADDR_WIDTH - 2, "dwords": LENGTH_WIDTH, "first_be": 4, "last_be": 4, "attributes": ATTRIBUTE_WIDTH,
        "lane": config.dword_lane_bits,
    })


MessageLayout = data.StructLayout({"address": ADDR_WIDTH, "data": 32})
"""An MSI-X message: a posted write of one DW. ``address`` is in bytes, a multiple of 4."""


def completion_layout(config: PcieConfig) -> data.StructLayout:
    """One beat of a completion, its data aligned as on ``s_axi``.

    ``first``, ``last``: of this completion; the other fields are equal on all of its beats. ``address``: of the
    completion's first byte, modulo 4 KiB; its bytes before that address have no meaning, nor has data beyond the end.
    ``dwords``: payload; 0 for a completion without data, which is one beat. ``byte_count``: bytes of the request that
    remain, this completion included. ``completed``: the request's last completion. ``error``: may appear as late as in
    the last beat, if the hard block withdraws the packet (``discontinue``, reported as INVALID_LENGTH).
    """
    return data.StructLayout({
        "tag": TAG_WIDTH, "data": config.data_width, "first": 1, "last": 1, "address": 12, "dwords": LENGTH_WIDTH,
        "byte_count": 13, "completed": 1, "error": ErrorCode, "status": 3,
    })


def flush_layout(config: PcieConfig) -> data.StructLayout:
    """A read of no byte behind a write, for the response to AXI ID ``id``; ``address`` in double words."""
    return data.StructLayout({"id": config.axi_id_width, "address": ADDR_WIDTH - 2, "attributes": ATTRIBUTE_WIDTH})


class FlushSignature(wiring.Signature):
    """Flushes, seen from the write path.

    Members
    -------
    requests : ``Out(stream.Signature(flush_layout))``
    done : ``In(stream.Signature(write_response_layout))``
        In any order; the write path accepts every one at once, ``ready`` is 1.
    """

    def __init__(self, config: PcieConfig) -> None:
        super().__init__({
            "requests": Out(stream.Signature(flush_layout(config))),
            "done": In(stream.Signature(write_response_layout(config))),
        })


class RequesterSettings(wiring.Signature):
    """Levels that the requester obeys, seen from their source; they change at any time.

    Members
    -------
    max_payload : ``Out(2)``, max_read : ``Out(3)``
        MPS and MRRS: 128 bytes shifted left by this number. A request that started with an earlier value keeps it.
    bus_master : ``Out(1)``
        While 0, no request is sent: bursts complete with DECERR, and their data is dropped.
    extended_tags : ``Out(1)``
        While 0, only tags 0 to 31 are used.
    timeout : ``Out(32)``
        Cycles until a read request without its last completion times out, to two times as many; 0 for never.
    halt : ``Out(1)``
        No further request is sent, bursts stall, and a TLP that has started is finished.
    """

    def __init__(self) -> None:
        super().__init__({
            "max_payload": Out(2), "max_read": Out(3), "bus_master": Out(1), "extended_tags": Out(1),
            "timeout": Out(32), "halt": Out(1),
        })


class RequesterEvents(wiring.Signature):
    """Strobes of the read path, one cycle per event, seen from the requester.

    Members
    -------
    unsupported, aborted, poisoned, malformed : ``Out(1)``
        A completion with the status unsupported request or completer abort; a poisoned one; one whose length, address
        or byte count is not what its request allows.
    unexpected : ``Out(1)``
        A completion whose tag has no request in flight, or one that timed out; it is dropped.
    timed_out : ``Out(1)``
        A read request timed out.
    """

    def __init__(self) -> None:
        super().__init__({name: Out(1) for name in (
            "unsupported", "aborted", "poisoned", "malformed", "unexpected", "timed_out")})
