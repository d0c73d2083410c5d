"""AXI4 and AXI4-Lite: the pins and the rules of the bus."""

from hw.axi.checker import AxiChecker, AxiLiteChecker
from hw.axi.outstanding import Outstanding
from hw.axi.signature import AxiLiteSignature, AxiSignature, Burst, Resp

__all__ = ["AxiChecker", "AxiLiteChecker", "AxiLiteSignature", "AxiSignature", "Burst", "Outstanding", "Resp"]
