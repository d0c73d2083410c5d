# SPDX-License-Identifier: Apache-2.0
"""The card: an endpoint behind the PCIe adapter. See :mod:`hw.endpoint` and :mod:`hw.pcie`."""
