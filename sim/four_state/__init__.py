# SPDX-License-Identifier: Apache-2.0
"""Four-state simulation of engines in Icarus Verilog: no X reaches an output that is valid."""

from sim.four_state.bench import Finding, simulate
from sim.four_state.collectives import ROUND, UNEVEN, Call, collectives
from sim.four_state.copies import copies
from sim.four_state.icarus import Icarus, find_icarus
from sim.four_state.start import with_random_values
from sim.four_state.work import Work

__all__ = ["ROUND", "UNEVEN", "Call", "Finding", "Icarus", "Work", "collectives", "copies", "find_icarus", "simulate",
           "with_random_values"]
