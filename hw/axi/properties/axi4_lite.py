# SPDX-License-Identifier: Apache-2.0
"""Rules of AXI4-Lite ports (Arm IHI 0022E)."""

from amaranth import *
from amaranth.lib.wiring import Out

from hw.axi.signature import AxiLiteSignature, Resp

from .rules import BusRules

__all__ = ["AxiLiteChecker"]


class AxiLiteChecker(BusRules):
    """Check all five channels of an AXI4-Lite bus.

    The manager's rules: VALID and payload hold until the transfer (A3.2.1) and VALID is low out of
    reset (A3.1.2). The subordinate's rules: the same, and a response follows its address and, for a
    write, its data (A3.3.1), and is not EXOKAY (B1.1.1).

    Parameters
    ----------
    signature : :class:`AxiLiteSignature`
        The bus.
    max_outstanding : int
        Transactions that can be counted on each channel, at least 1.
    manager, subordinate : ``"assert"``, ``"assume"`` or ``None``
        Treatment of the rules of each side.
    name : str
        Name of the bus in messages.

    Members
    -------
    awaddr, awprot, ... : ``In``
        Every signal of ``signature``; :meth:`observe` connects them.
    reads : ``Out(range(max_outstanding + 1))``
        Read addresses whose data has not been transferred.
    write_addresses, write_data : ``Out(range(max_outstanding + 1))``
        Write addresses, and write data, whose response has not been transferred.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    """

    def __init__(self, signature: AxiLiteSignature, *, max_outstanding: int = 1024,
                 manager: str | None = "assert", subordinate: str | None = "assert", name: str = "AXI4-Lite") -> None:
        if not isinstance(signature, AxiLiteSignature):
            raise ValueError(f"AxiLiteChecker signature must be an AxiLiteSignature, not {signature!r}")
        if not isinstance(max_outstanding, int) or max_outstanding < 1:
            raise ValueError(
                f"AxiLiteChecker max_outstanding must be a positive integer, not {max_outstanding!r}")
        self.max_outstanding = max_outstanding
        super().__init__(signature, {
            "reads": Out(range(max_outstanding + 1)),
            "write_addresses": Out(range(max_outstanding + 1)),
            "write_data": Out(range(max_outstanding + 1)),
        }, name=name, manager=manager, subordinate=subordinate)

    def elaborate(self, platform):
        m = Module()

        self.check_handshakes(m)
        responses = {"b": self.transfers(m, "b"), "r": self.transfers(m, "r")}
        for channel, count, response in (
            ("ar", self.reads, "r"), ("aw", self.write_addresses, "b"), ("w", self.write_data, "b"),
        ):
            request = self.transfers(m, channel)
            with m.If(request & ~responses[response]):
                m.d.sync += count.eq(count + 1)
            with m.If(responses[response] & ~request & (count != 0)):
                m.d.sync += count.eq(count - 1)
            with m.If(request & ~self.reset):
                self.capacity(m, count < self.max_outstanding,
                              f"{self.max_outstanding + 1} transfers outstanding on {channel.upper()}: "
                              "max_outstanding")
            with m.If(getattr(self, f"{response}valid") & ~self.reset):
                self.rule(m, "subordinate", "A3.3.1", count != 0,
                          f"{response.upper()}VALID without an outstanding transfer on {channel.upper()}")
        for channel, resp in (("b", self.bresp), ("r", self.rresp)):
            with m.If(getattr(self, f"{channel}valid") & ~self.reset):
                self.rule(m, "subordinate", "B1.1.1", resp != Resp.EXOKAY,
                          f"{channel.upper()}RESP is EXOKAY, which AXI4-Lite does not have")
        return m
