# SPDX-License-Identifier: Apache-2.0
"""The part of the requester that moves bytes.

::

    writes -> WriteCutter -> WriteMessages -+                        +-> posted (transport)
                   |                        +-> PacketTable ---------+
    reads --> ReadCutter -------------------+       |                +-> Retirement, if refused
                   |                                | descriptors
                   v                                v
              PayloadStore ------------------> PacketSender -> packets (frame builder)
                   ^                                ^ send (transport)
                   +---- Retirement <- retire (transport); Retirement -> responses
                             |
                             v
                          Delivery <- returned (transport); Delivery -> beats
"""

from .unit import RequesterBuffers

__all__ = ["RequesterBuffers"]
