# SPDX-License-Identifier: Apache-2.0
"""The PCIe system around the card under cocotb: root complex, switch, GPUs and hard block, with a monitor."""
