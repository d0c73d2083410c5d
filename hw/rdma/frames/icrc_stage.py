# SPDX-License-Identifier: Apache-2.0
"""The end of frames: invariant CRC, which is computed while the beats pass, and put behind the payload.

::

    cycle  0      1                       2                                 3
           beat   remainder of the beat   remainder of all, less the zeros  beat with its part of the ICRC
                                          behind the payload: the ICRC

Latency: 2 cycles to ``o``.  Throughput: one beat per cycle, without back-pressure.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.crc import CRC_WIDTH, remainder, shifted
from hw.common.delay import delayed
from hw.rdma.config import RdmaConfig

__all__ = ["IcrcStage", "built_layout", "framed_layout"]


def framed_layout(config):
    """A beat of a frame.

    ``last_word``: in the last beat, the last word of 4 bytes, of which two bytes are used.
    """
    return data.StructLayout({"data": config.data_width, "last": 1, "last_word": config.lane_bits - 2})


def built_layout(config):
    """A beat of a frame without its ICRC: bytes behind the payload and its padding are 0.

    ``covered``: the beat as the ICRC covers it. ``first``: of the frame. ``ends``: the ICRC begins in it, in the
    middle of word ``icrc_word``. ``more``: the ICRC began in the beat before.
    """
    return data.StructLayout({**dict(_members(framed_layout(config))), "covered": config.data_width, "first": 1,
                              "ends": 1, "icrc_word": config.lane_bits - 2, "more": 1})


def _members(layout):
    return ((name, field.shape) for name, field in layout)


class IcrcStage(wiring.Component):
    """Complete frames with their ICRC.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    valid : ``In(1)``, i : ``In(built_layout)``
    o_valid : ``Out(1)``, o : ``Out(framed_layout)``
        Two cycles later, through one level of logic from registers.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({"valid": In(1), "i": In(built_layout(config)), "o_valid": Out(1),
                          "o": Out(framed_layout(config))})

    def elaborate(self, platform):
        m = Module()
        words = self.config.beat_bytes // 4
        summand, register = Signal(CRC_WIDTH, reset_less=True), Signal(CRC_WIDTH, reset_less=True)
        total, icrc = Signal(CRC_WIDTH), Signal(CRC_WIDTH, reset_less=True)
        m.d.sync += summand.eq(remainder(m, self.i.covered))
        kept = data.StructLayout({name: shape for name, shape in _members(built_layout(self.config))
                                  if name != "covered"})
        beat = Signal(kept)
        m.d.comb += [beat[name].eq(self.i[name]) for name, _ in kept]
        reduced = delayed(m, beat, 1, name="reduced")
        reduced_valid = delayed(m, self.valid, 1, name="reduced_valid", reset_less=False)

        m.d.comb += total.eq(Mux(reduced.first, 0, shifted(m, register, self.config.data_width)) ^ summand)
        with m.If(reduced_valid):
            m.d.sync += register.eq(total)
        with m.If(reduced_valid & reduced.ends):
            with m.Switch(reduced.icrc_word):
                for word in range(words):
                    with m.Case(word):
                        m.d.sync += icrc.eq(~shifted(m, total, 32 * word + 16 - self.config.data_width))

        # Each half of a word gets the lower half of the ICRC, its upper half or nothing.
        ready, begins = delayed(m, reduced, 1, name="ready"), Signal(words, reset_less=True)
        for word in range(words):
            m.d.sync += begins[word].eq(reduced.ends & (reduced.icrc_word == word))
        low, high = icrc[:16], icrc[16:]
        halves = [Mux(ready.more, high, 0)]
        for word in range(words):
            halves.append(Mux(begins[word], low, 0))
            halves.append(Mux(begins[word], high, 0))
        m.d.comb += [
            self.o.data.eq(ready.data | Cat(halves[:2 * words])), self.o.last.eq(ready.last),
            self.o.last_word.eq(ready.last_word),
            self.o_valid.eq(delayed(m, reduced_valid, 1, name="ready_valid", reset_less=False)),
        ]
        return m
