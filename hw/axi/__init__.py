# SPDX-License-Identifier: Apache-2.0
"""AXI4, AXI4-Lite and AXI4-Stream: signatures, and monitors of the protocol's rules."""

from hw.axi.outstanding import Outstanding
from hw.axi.properties import AxiChecker, AxiLiteChecker
from hw.axi.signature import AxiLiteSignature, AxiSignature, AxiStreamSignature, Burst, Resp

__all__ = ["AxiChecker", "AxiLiteChecker", "AxiLiteSignature", "AxiSignature", "AxiStreamSignature", "Burst",
           "Outstanding", "Resp"]
