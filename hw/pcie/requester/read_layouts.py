# SPDX-License-Identifier: Apache-2.0
"""Payloads and interfaces between the stages of the read path, sized by the configuration."""

from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import Resp

from ..config import ADDR_WIDTH, ATTRIBUTE_WIDTH, LENGTH_WIDTH, PcieConfig
from ..layouts import completion_layout, read_beat_layout

__all__ = [
    "IssuedSignature", "PreviousSignature", "RowSignature", "StateUpdate", "StoreSignature", "TagEvent", "TagQuery",
    "Termination", "beat_bits", "checked_layout", "chunk_bits", "found_layout", "left_bits", "ordered_layout",
    "read_piece_layout", "tag_record_layout", "tag_state_layout", "termination_layout",
]


def beat_bits(config: PcieConfig) -> int:
    """Bits of a beat's number within its page of 4 KiB."""
    return 12 - config.lane_bits


def chunk_bits(config: PcieConfig) -> int:
    """Bits of a beat's number within the longest read request; a request never crosses a multiple of that length."""
    return (config.read_bytes // config.beat_bytes - 1).bit_length()


def left_bits(config: PcieConfig) -> int:
    """Bits of the number of beats of a read request that are not yet received."""
    return chunk_bits(config) + 1


def read_piece_layout(config: PcieConfig) -> data.StructLayout:
    """The part of a burst that becomes one read request.

    ``address``: in double words. ``offset``: bytes of the first DW that precede the burst. ``left``: beats.
    """
    return data.StructLayout({
        "id": config.axi_id_width, "row": config.order_bits, "address": ADDR_WIDTH - 2, "offset": 2,
        "dwords": left_bits(config) + config.dword_lane_bits, "first_be": 4, "last_be": 4,
        "attributes": ATTRIBUTE_WIDTH, "left": left_bits(config), "ends_burst": 1,
    })


def tag_record_layout(config: PcieConfig) -> data.StructLayout:
    """The constant part of a request under its tag.

    ``stored``: an older request of its row is in flight, so its beats are stored in ``slot``. ``beat``: number of the
    first beat in its page, ``offset``: bytes of that beat which precede the request. ``left``: beats of the request.
    """
    return data.StructLayout({
        "id": config.axi_id_width, "flush": 1, "stored": 1, "slot": config.slot_bits, "ends_burst": 1,
        "beat": beat_bits(config), "offset": config.lane_bits, "left": left_bits(config),
    })


def tag_state_layout(config: PcieConfig) -> data.StructLayout:
    """The varying part of a request: whether completions are expected, the next beat, and the remaining beats.

    ``left`` of 0: all beats are delivered or ended by an error; further completions are dropped.
    """
    return data.StructLayout({
        "waiting": 1, "beat": beat_bits(config), "offset": config.lane_bits, "left": left_bits(config)})


class Termination(enum.Enum, shape=2):
    """The end of a request without a completion from RC."""

    NONE = 0
    TIMED_OUT = 1
    """End the request with an error; its completions may still arrive."""
    EXPIRED = 2
    """Its completions do not arrive any more."""
    REFUSED = 3
    """It was never sent."""


def termination_layout(config: PcieConfig) -> data.StructLayout:
    return data.StructLayout({"tag": config.tag_bits, "kind": Termination})


def found_layout(config: PcieConfig) -> data.StructLayout:
    """A beat of a completion, or a termination, with the record and state of its tag.

    ``beats``: of the completion, if ``whole``: it ends with a beat. ``count``: end of the request from the start of the
    completion's first beat, by its byte count. ``count_dwords``: double words in its byte count. ``zero_length``: it
    fits a read of no byte.
    """
    return data.StructLayout({
        "completion": completion_layout(config), "kind": Termination,
        "record": tag_record_layout(config), "state": tag_state_layout(config),
        "beats": LENGTH_WIDTH + 1 - config.dword_lane_bits, "whole": 1, "count": 14, "count_dwords": 12,
        "zero_length": 1,
    })


def checked_layout(config: PcieConfig) -> data.StructLayout:
    """A beat to deliver. If ``resp`` is an error, it stands for all ``left`` remaining beats of the request."""
    return data.StructLayout({
        "tag": config.tag_bits, "id": config.axi_id_width, "flush": 1, "stored": 1, "slot": config.slot_bits,
        "ends_burst": 1, "beat": chunk_bits(config), "left": left_bits(config), "data": config.data_width,
        "resp": Resp,
    })


def ordered_layout(config: PcieConfig) -> data.StructLayout:
    """A beat from a reorder slot. ``final``: of its request."""
    return data.StructLayout({"tag": config.tag_bits, "final": 1, "beat": read_beat_layout(config)})


class TagEvent(wiring.Signature):
    """Something happened to the request with this tag, a strobe."""

    def __init__(self, config: PcieConfig) -> None:
        super().__init__({"valid": Out(1), "tag": Out(config.tag_bits)})


class TagQuery(wiring.Signature):
    """Look up a flag of a tag, seen from the user; combinational."""

    def __init__(self, config: PcieConfig) -> None:
        super().__init__({"tag": Out(config.tag_bits), "value": In(1)})


class IssuedSignature(wiring.Signature):
    """A request gets its tag, a strobe.

    Members
    -------
    valid : ``Out(1)``, tag : ``Out``, record : ``Out(tag_record_layout)``
    sent : ``Out(1)``
        As a TLP, so that completions are expected.
    ordered : ``Out(1)``, row : ``Out``
        It has an order row; a flush has none.
    linked : ``Out(1)``, previous : ``Out``
        The request of this tag precedes it in its row and is in flight.
    """

    def __init__(self, config: PcieConfig) -> None:
        super().__init__({
            "valid": Out(1), "tag": Out(config.tag_bits), "record": Out(tag_record_layout(config)), "sent": Out(1),
            "ordered": Out(1), "row": Out(config.order_bits), "linked": Out(1), "previous": Out(config.tag_bits),
        })


class RowSignature(wiring.Signature):
    """From the next cycle on, pieces of this row are offered; a strobe."""

    def __init__(self, config: PcieConfig) -> None:
        super().__init__({"valid": Out(1), "row": Out(config.order_bits)})


class PreviousSignature(wiring.Signature):
    """The request that precedes the next one of the current row, and whether it is in flight."""

    def __init__(self, config: PcieConfig) -> None:
        super().__init__({"in_flight": Out(1), "tag": Out(config.tag_bits)})


class StateUpdate(wiring.Signature):
    """The new state of a tag, a strobe."""

    def __init__(self, config: PcieConfig) -> None:
        super().__init__({"valid": Out(1), "tag": Out(config.tag_bits), "state": Out(tag_state_layout(config))})


class StoreSignature(wiring.Signature):
    """Write a beat to a reorder slot, a strobe; ``final``: the last one of its request."""

    def __init__(self, config: PcieConfig) -> None:
        super().__init__({
            "valid": Out(1), "tag": Out(config.tag_bits), "slot": Out(config.slot_bits),
            "beat": Out(chunk_bits(config)), "data": Out(config.data_width), "resp": Out(Resp), "final": Out(1),
        })
