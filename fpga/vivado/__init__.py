# SPDX-License-Identifier: Apache-2.0
"""Projects for Vivado: a card with the PCIe hard block, and single cores behind a PCIe bridge of the vendor."""
