# SPDX-License-Identifier: Apache-2.0
"""The system simulator: clusters of endpoints at the level of chunks and messages, in plain Python.

Machine -> Endpoint -> Port: ``machine`` takes collectives, computations and puts; each rank's ``endpoint`` leads chunks
through the step tables of :mod:`hw.ace.programs.schedule`; a ``port`` is one direction of a link.
"""

from .calibration import Calibration
from .configuration import ENDPOINTS, EndpointKind, LinkConfig, MachineConfig, Npu
from .machine import Handle, Machine

__all__ = ["ENDPOINTS", "Calibration", "EndpointKind", "Handle", "LinkConfig", "Machine", "MachineConfig", "Npu"]
