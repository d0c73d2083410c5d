# SPDX-License-Identifier: Apache-2.0
"""Links between the models: rate and latency.

The library's port paces TLPs by itself, once both the generation and the lanes of a link are known, which
:func:`set_link` sees to. A port sends one packet at a time: its header (12 or 16 bytes) and payload, and 8 bytes for
framing, sequence number and LCRC, at the rate of the lanes less the line code (128/130 from generation 3 on). A write
to a 64-bit address hence costs 24 bytes more than its payload. ACK and flow-control DLLPs take 8 bytes each. The packet
arrives complete, 10 ns after its last byte; a switch stores and forwards. Flow control has credits; there is no replay,
and there are no SKP ordered sets (below 0.4 % of the rate).
"""

from typing import Any

from cocotbext.pcie.core.port import PCIE_GEN_RATE

__all__ = ["OVERHEAD_BYTES", "payload_rate", "set_link"]

OVERHEAD_BYTES = 24
"""Header with a 64-bit address, framing, sequence number and LCRC of a write."""


def set_link(port: Any, generation: int, lanes: int) -> None:
    """Limit the rate of a port; call it before ``connect``. The slower of two connected ports decides."""
    port.max_link_speed, port.max_link_width = generation, lanes


def payload_rate(generation: int, lanes: int, payload: int, *, overhead: int = OVERHEAD_BYTES) -> float:
    """Bytes of payload per nanosecond in one direction, for TLPs of ``payload`` bytes, without DLLPs."""
    rate: float = PCIE_GEN_RATE[generation]
    return rate * lanes / 8e9 * payload / (payload + overhead)
