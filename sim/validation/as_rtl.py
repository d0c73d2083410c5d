# SPDX-License-Identifier: Apache-2.0
"""The machine that the RTL's simulation is: the accelerator at a nominal clock, links and memory in cycles."""

from hw.ace.config import AceConfig
from hw.ace.words import Collective
from sim.system.calibration import Calibration
from sim.system.configuration import LinkConfig, MachineConfig, Npu
from sim.system.endpoint_kinds import kind_of, rules_of
from sim.system.machine import Machine

__all__ = ["CLOCK_HZ", "as_rtl", "cycles"]

CLOCK_HZ = 1e9


def as_rtl(accelerator: AceConfig, shape: tuple[int, ...], *, link_rate: float, link_latency: int,
           memory_latency: int, both: bool = True, fold: bool = False,
           calibration: Calibration | None = None) -> MachineConfig:
    """A :class:`MachineConfig` for an ``AceConfig`` before links of ``link_rate`` beats per cycle.

    Latencies are in cycles. All ranks are simulated, with the stalls of their SRAM, unless ``fold``.
    """
    link = LinkConfig(bytes_per_s=link_rate * accelerator.beat_bytes * CLOCK_HZ, latency_s=link_latency / CLOCK_HZ)
    calibration = calibration or Calibration.load()
    return MachineConfig(
        shape=shape, endpoint=kind_of(accelerator, "rtl"), links=link, order="fifo", both=both, turns="message",
        whole_packets=True, bank_stalls=not fold, memory_pool="separate",
        receive_buffer_bytes=accelerator.link_beats * accelerator.beat_bytes,
        replay_bytes=accelerator.replay_beats * accelerator.beat_bytes,
        clock_hz=CLOCK_HZ, calibration=calibration, fold=fold,
        npu=Npu(memory_latency_s=memory_latency / CLOCK_HZ, bus_bytes_per_s=accelerator.beat_bytes * CLOCK_HZ),
        **rules_of(accelerator))


def cycles(config: MachineConfig, collective: Collective, size: int) -> float:
    """Cycles from the doorbells until the last rank can see the end."""
    machine = Machine(config)
    machine.issue(collective, size)
    machine.run()
    return machine.now * CLOCK_HZ
