# SPDX-License-Identifier: Apache-2.0
"""The PCIe adapter: the endpoint's AXI ports behind the PCIe hard block of UltraScale+.

::

    endpoint.m_axi -> requester -> RQ, RC -> reads and writes of GPU and host memory
    CQ, CC -> completer -> endpoint.s_axil (BAR 0), endpoint.s_axi_db (BAR 2), MSI-X table
"""
