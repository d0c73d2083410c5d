# SPDX-License-Identifier: Apache-2.0
"""A small torus of accelerators as one design, for cocotb: what the C++ cluster is for more of them."""

from itertools import product

import numpy as np
from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import connect, flipped

from hw.ace.config import DIMENSIONS, AceConfig
from hw.ace.engine import AceEngine
from hw.ace.layouts import link_layout
from hw.axi import AxiChecker, AxiLiteChecker
from hw.stream import Skid

__all__ = ["CheckedTorus"]


class CheckedTorus(wiring.Component):
    """``prod(shape)`` endpoints, their links, and a protocol monitor on each bus.

    Parameters
    ----------
    config : AceConfig
    shape : tuple of int
        Endpoints along each dimension, 1 to 3 of them; endpoints are numbered row by row.

    Members
    -------
    s_axil, s_axi_db, m_axi, irq : arrays, one of each endpoint's
    """

    def __init__(self, config: AceConfig, shape: tuple[int, ...]) -> None:
        self.config = config
        self.shape = (*shape, *(1,) * (DIMENSIONS - len(shape)))
        self._engines = [AceEngine(config) for _ in product(*map(range, self.shape))]
        members = self._engines[0].signature.members
        super().__init__({
            name: members[name].array(len(self._engines)) for name in ("s_axil", "s_axi_db", "m_axi", "irq")})

    def elaborate(self, platform):
        m = Module()
        for number, engine in enumerate(self._engines):
            m.submodules[f"engine_{number}"] = engine
            for name in ("s_axil", "s_axi_db", "m_axi"):
                connect(m, flipped(getattr(self, name)[number]), getattr(engine, name))
            m.d.comb += self.irq[number].eq(engine.irq)
            m.submodules[f"m_axi_checker_{number}"] = memory = AxiChecker(
                engine.m_axi.signature, max_per_id=512, name=f"m_axi_{number}")
            m.submodules[f"s_axil_checker_{number}"] = registers = AxiLiteChecker(
                engine.s_axil.signature, name=f"s_axil_{number}")
            m.d.comb += [*memory.observe(engine.m_axi), *registers.observe(engine.s_axil)]
        for number, position in enumerate(product(*map(range, self.shape))):
            for dimension in range(DIMENSIONS):
                for side in range(2):
                    other = list(position)
                    other[dimension] = (position[dimension] + (-1 if side else 1)) % self.shape[dimension]
                    to = int(np.ravel_multi_index(other, self.shape))
                    port = 2 * dimension + side
                    if to == number:
                        tx, rx = self._engines[number].tx[port], self._engines[number].rx[port]
                        m.d.comb += [tx.ready.eq(1), rx.valid.eq(0), rx.payload.eq(0)]
                        continue
                    m.submodules[f"link_{number}_{port}"] = link = Skid(link_layout(self.config))
                    connect(m, self._engines[number].tx[port], link.i)
                    connect(m, link.o, self._engines[to].rx[port ^ 1])
        return m
