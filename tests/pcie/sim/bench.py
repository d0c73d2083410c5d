# SPDX-License-Identifier: Apache-2.0
"""The system around :class:`Wires` with a monitor, started: what every test in cocotb begins with."""

import os
import random
import warnings

from sim.pcie.monitor import Monitor
from sim.pcie.system import PcieSystem, SystemSettings
from tests.pcie.sim.application import Application

__all__ = ["rng", "stalls", "start"]

# cocotbext-pcie uses deprecated parts of cocotb, whose version is pinned.
warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"cocotbext\.")


def rng():
    return random.Random(os.environ["COCOTB_RANDOM_SEED"])


async def start(dut, *, enumerate_bus=True, **settings):
    """System, application and monitor, ready for traffic."""
    app = Application(dut)
    system = PcieSystem(dut, SystemSettings(**settings))
    monitor = Monitor(system.card)
    await system.start(enumerate_bus=enumerate_bus)
    return system, app, monitor


def stalls(source, share):
    """A pattern of pauses."""
    own = random.Random(source.random())
    while True:
        yield own.random() < share
