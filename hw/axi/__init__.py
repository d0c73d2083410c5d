# SPDX-License-Identifier: Apache-2.0
"""AXI4 and AXI4-Lite: signatures, and monitors of the protocol's rules."""

from hw.axi.checker import AxiChecker, AxiLiteChecker
from hw.axi.outstanding import Outstanding
from hw.axi.signature import AxiLiteSignature, AxiSignature, Burst, Resp

__all__ = ["AxiChecker", "AxiLiteChecker", "AxiLiteSignature", "AxiSignature", "Burst", "Outstanding", "Resp"]
