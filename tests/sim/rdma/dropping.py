# SPDX-License-Identifier: Apache-2.0
"""Frames of a guest's segment that are dropped once each."""

from sim.rdma.packets import decode, is_roce

__all__ = ["drop_once"]


def drop_once(segment, *, sent=None, received=None):
    """Drop the RoCEv2 frames for which a function of the packet is true, once each, until the next call.

    Returns the set of those that were dropped, which grows.
    """
    dropped = set()

    def filtered(function, direction):
        def drop(frame):
            if function is None or not is_roce(frame):
                return False
            packet = decode(frame)
            key = direction, packet.opcode, packet.psn
            if key in dropped or not function(packet):
                return False
            dropped.add(key)
            return True

        return drop

    segment.drop_sent, segment.drop_received = filtered(sent, 1), filtered(received, 0)
    return dropped
