# SPDX-License-Identifier: Apache-2.0
"""Packets for the receivers, and their effect on a beat."""

import numpy as np

from hw.ace.layouts import PacketKind, flit_layout, packet_layout
from hw.ace.model.numerics import combine_words
from tests.ace.streams import bits, random_fields

__all__ = ["Packet", "combined", "flit"]


class Packet:
    """A DATA packet for some beats of a chunk."""

    def __init__(self, rng, config, key, destination, *, beats, offset, reduce):
        self.destination, self.reduce = destination, reduce
        self.start = destination["slot"] * config.chunk_beats + offset
        self.port = None        # where it is sent
        self.payload = [rng.getrandbits(config.data_width) for _ in range(beats)]
        self.addresses = range(self.start, self.start + beats)
        header = random_fields(rng, packet_layout(config), kind=PacketKind.DATA, **key, offset=offset, beats=beats - 1,
                               reduce=reduce)
        self.final, self.odd_phase = header["final"], header["phase"] & 1
        self.flits = [flit(rng, config, word, header, number == 0, number == beats - 1)
                      for number, word in enumerate(self.payload)]


def flit(rng, config, word, header, first, last):
    # The header of later beats is noise.
    if not first:
        header = random_fields(rng, packet_layout(config), kind=rng.choice(list(PacketKind)))
    return bits(flit_layout(config), {"data": word, "header": header, "first": first, "last": last})


def combined(config, arithmetic, a, b):
    a, b = (np.frombuffer(word.to_bytes(config.beat_bytes, "little"), "<u4") for word in (a, b))
    made = combine_words(arithmetic["op"], a, b, a_type=arithmetic["dtype"])
    return int.from_bytes(made.astype("<u4").tobytes(), "little")
