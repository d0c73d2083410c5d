# SPDX-License-Identifier: Apache-2.0
"""Use of each dimension's links over the time of a collective, from the packets sent."""

from collections.abc import Iterable, Sequence

import numpy as np

from hw.ace.config import WIRE_HEADER_BYTES, AceConfig
from hw.ace.layouts import PacketKind
from sim.ace.log import Packet

__all__ = ["PARTS", "busy"]

PARTS = 60
"""Into how many the time is cut."""


def busy(config: AceConfig, shape: Sequence[int], packets: Iterable[Packet], link_rate: float, begin: int,
         cycles: int, *, parts: int = PARTS) -> list[list[float]]:
    """Share of each part of the time that a dimension's links carry data, as a list for each dimension.

    A packet is carried from when it leaves on; what reaches beyond the end of a part counts in the later ones.
    ``packets`` are those of a :class:`sim.ace.log.Log`, ``begin`` the cycle of the posting.
    """
    rate = link_rate * config.beat_bytes
    sent = [(one.port // 2, one.begin - begin, (one.beats + 1) * config.beat_bytes + WIRE_HEADER_BYTES)
            for one in packets if one.kind == PacketKind.DATA and not one.came]
    dimension, start, size = np.array(sent, np.int64).reshape(-1, 3).T
    edges = np.linspace(0, cycles, parts + 1)
    shares: list[list[float]] = []
    for number, ranks in enumerate(shape):
        mine = dimension == number
        first, takes = start[mine], size[mine] / rate
        # Bytes carried until each edge; a packet in progress counts in proportion to its time.
        until = [np.clip(edge - first, 0, takes).sum() for edge in edges]
        links = (2 if ranks > 1 else 1) * np.prod(shape)
        shares.append([round(float(one), 4) for one in np.diff(until) / (links * cycles / parts)])
    return shares
