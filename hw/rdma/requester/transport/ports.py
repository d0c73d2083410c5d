# SPDX-License-Identifier: Apache-2.0
"""Interfaces between the stages of the requester transport that are not streams."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.stream.shapes import ShapeLike

from ...config import RdmaConfig
from ...protocol import PSN_WIDTH
from .layouts import pending_read_layout, record_layout

__all__ = ["IndexLookup", "LinkWrite", "Opening", "PaceRequest", "PendingReadWrite", "RecordLookup",
           "RecordWrite", "RequesterCounts", "RowLookup", "SelectiveLookup", "WindowStrobe"]


class RowLookup(wiring.Signature):
    """The row of queue pair ``qp`` in a table, combinational."""

    def __init__(self, config: RdmaConfig, shape: ShapeLike) -> None:
        super().__init__({"qp": Out(config.qp_bits), "row": In(shape)})


class Opening(wiring.Signature):
    """Queue pair ``qp`` starts with PSN ``psn``: a strobe while no stage works."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"valid": Out(1), "qp": Out(config.qp_bits), "psn": Out(PSN_WIDTH)})


class RecordWrite(wiring.Signature):
    """A packet is posted: a strobe."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"valid": Out(1), "index": Out(config.packet_bits), "record": Out(record_layout(config))})


class LinkWrite(wiring.Signature):
    """Packet ``next`` follows packet ``index`` in the same queue pair: a strobe."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"valid": Out(1), "index": Out(config.packet_bits), "next": Out(config.packet_bits)})


class RecordLookup(wiring.Signature):
    """Record and follower of packet ``index``, a cycle later."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"index": Out(config.packet_bits), "record": In(record_layout(config)),
                          "next": In(config.packet_bits)})


class IndexLookup(wiring.Signature):
    """Whether packet ``index`` waits to be sent; combinational."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"index": Out(config.packet_bits), "found": In(1)})


class PaceRequest(wiring.Signature):
    """A packet of ``cost`` beats of a queue pair with less than the line rate is sent: a strobe."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"valid": Out(1), "qp": Out(config.qp_bits), "cost": Out(range(config.mtu_beats + 3))})


class SelectiveLookup(wiring.Signature):
    """Whether the peer has received the packet of this entry of the window beyond a gap; a cycle later."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"qp": Out(config.qp_bits), "psn": Out(range(config.window)), "found": In(1)})


class PendingReadWrite(wiring.Signature):
    """READ number ``number`` of queue pair ``qp``, modulo 16, is sent for the first time: a strobe."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"valid": Out(1), "qp": Out(config.qp_bits), "number": Out(4),
                          "read": Out(pending_read_layout(config))})


class WindowStrobe(wiring.Signature):
    """An entry of the window of queue pair ``qp``: that of PSN ``psn`` modulo the window."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"valid": Out(1), "qp": Out(config.qp_bits), "psn": Out(range(config.window))})


class RequesterCounts(wiring.Signature):
    """Event strobes: packets sent, those of them that are retransmitted, packets retired; timeouts, NAKs of sequence
    error that are in the window, RNR NAKs; READ responses that are dropped."""

    def __init__(self) -> None:
        super().__init__({name: Out(1) for name in (
            "sent", "retransmitted", "retired", "timeouts", "naks", "rnrs", "dropped")})
