# SPDX-License-Identifier: Apache-2.0
"""Four-state simulation of a DMA engine in Icarus Verilog: no X reaches an output that is valid."""

from sim.four_state.bench import Finding, Result, Script, simulate
from sim.four_state.icarus import Icarus, find_icarus

__all__ = ["Finding", "Icarus", "Result", "Script", "find_icarus", "simulate"]
