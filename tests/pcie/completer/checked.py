# SPDX-License-Identifier: Apache-2.0
"""The completer with a monitor on each AXI bus."""

from hw.axi import AxiChecker, AxiLiteChecker
from hw.pcie.completer import Completer

__all__ = ["CheckedCompleter"]


class CheckedCompleter(Completer):
    """Asserts the rules of AXI4 and AXI4-Lite."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.submodules.check_doorbells = doorbells = AxiChecker(
            self.doorbells.signature, max_outstanding=64, max_per_id=64, name="doorbells")
        m.submodules.check_registers = registers = AxiLiteChecker(self.registers.signature, max_outstanding=4)
        m.d.comb += [*doorbells.observe(self.doorbells), *registers.observe(self.registers)]
        return m
