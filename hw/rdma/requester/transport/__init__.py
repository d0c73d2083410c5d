# SPDX-License-Identifier: Apache-2.0
"""Requester without payload: send queues, windows, acknowledgements, timers, retransmission, rates."""

from .transport import RequesterTransport

__all__ = ["RequesterTransport"]
