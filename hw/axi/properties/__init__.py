# SPDX-License-Identifier: Apache-2.0
"""Rules of the AMBA AXI protocol for any AXI4 or AXI4-Lite port, in simulations and in formal proofs.

:class:`AxiChecker` and :class:`AxiLiteChecker` observe a bus and drive nothing. Each side's rules are asserted or
assumed. ``python -m hw.axi_verilog`` writes them as Verilog for designs in other languages.
"""

from .axi4 import AxiChecker
from .axi4_lite import AxiLiteChecker

__all__ = ["AxiChecker", "AxiLiteChecker"]
