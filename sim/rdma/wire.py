# SPDX-License-Identifier: Apache-2.0
"""Bytes of RoCEv2 frames, and their time on a line: the bounds of benchmarks."""

from hw.rdma import protocol

__all__ = ["HEADER_BYTES", "LINE_BYTES", "LINE_RATES", "frame_bytes", "network_cycles"]

HEADER_BYTES = (protocol.ETHERNET_BYTES + protocol.IPV4_BYTES + protocol.UDP_BYTES + protocol.BTH_BYTES
                + protocol.ICRC_BYTES)
"""Headers and ICRC of each RoCEv2 frame over IPv4."""

LINE_BYTES = 24
"""Preamble, FCS and interframe gap of a frame."""

_GAP_BYTES = 12

LINE_RATES = {"tiny": 8.0, "base": 25.0, "wide": 50.0}
"""Bytes per cycle of a line for each preset of the unit; 50 is 100 Gbit/s at 250 MHz."""


def frame_bytes(payload: int, *, write: bool) -> int:
    """Bytes of the frame that carries the payload of a WRITE, or of a READ's response, in one packet."""
    return HEADER_BYTES + (protocol.RETH_BYTES if write else protocol.AETH_BYTES) + payload + -payload % 4


def network_cycles(frames: int, last: int, line_rate: float, line_latency: int) -> float:
    """Cycles from the first byte of consecutive frames at a station until another one has the last byte, behind a
    switch that has nothing else to send.

    Parameters
    ----------
    frames : int
        Bytes of all frames on the line, each with its ``LINE_BYTES``.
    last : int
        Bytes of the last frame: the switch has a frame when its FCS has arrived.
    """
    return (frames + last + LINE_BYTES - 2 * _GAP_BYTES) / line_rate + 2 * line_latency + 1
