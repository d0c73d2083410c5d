# SPDX-License-Identifier: Apache-2.0
"""Streams of a component under cocotb, driven and recorded in each cycle."""

import os
import random
import warnings
from collections import deque

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from hw.pcie.config import PcieConfig

__all__ = ["Bench", "config_of", "deprecated", "generator"]


def deprecated():
    """cocotbext uses deprecated parts of cocotb, whose version is pinned."""
    warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"cocotbext\.")


def config_of(width):
    return PcieConfig(data_width=width, axi_id_width=4, doorbell_addr_width=16)


def generator():
    return random.Random(os.environ["COCOTB_RANDOM_SEED"])


class Bench:
    """Calls ``sample``, and then ``drive``, in each cycle; ``cycle`` is its number.

    ``offers`` has the payloads to send on each input stream, each of which is offered with the probability ``eager``
    per cycle. Idle payloads are random. ``began`` is the last cycle in which a stream was first driven with its value.
    """

    def __init__(self, dut, rng, streams):
        self.dut, self.rng, self.cycle = dut, rng, 0
        self.offers = {name: deque() for name in streams}
        self.eager = dict.fromkeys(streams, 1.0)
        self.began = dict.fromkeys(streams, 0)
        self._valid = dict.fromkeys(streams, False)

    def pin(self, name):
        return getattr(self.dut, name)

    async def start(self):
        for name in self.offers:
            self.pin(f"{name}__valid").value = 0
        self.dut.rst.value = 1
        cocotb.start_soon(Clock(self.dut.clk, 4, unit="ns").start())
        for _ in range(3):
            await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        self.running = cocotb.start_soon(self._run())

    async def _run(self):
        while True:
            await RisingEdge(self.dut.clk)
            self.cycle += 1
            self.sample()
            for name, waiting in self.offers.items():
                self._offer(name, waiting)
            self.drive()

    def _offer(self, name, waiting):
        valid, payload = self.pin(f"{name}__valid"), self.pin(f"{name}__payload")
        if self._valid[name]:
            if not int(self.pin(f"{name}__ready").value):
                return
            waiting.popleft()
            self.taken(name)
        self._valid[name] = bool(waiting) and self.may_offer(name) and self.rng.random() < self.eager[name]
        self.began[name] = self.cycle
        valid.value = self._valid[name]
        payload.value = waiting[0] if self._valid[name] else self.rng.getrandbits(len(payload))

    def may_offer(self, name):
        return True

    def taken(self, name):
        """A payload was accepted."""

    def sample(self):
        """Before the inputs of a cycle are driven: all values are of the cycle before."""

    def drive(self):
        """After the streams of a cycle are driven."""

    async def until(self, condition, limit=20_000):
        for _ in range(limit):
            if condition():
                return
            await RisingEdge(self.dut.clk)
        raise AssertionError(f"The bench waited for {limit} cycles.")
