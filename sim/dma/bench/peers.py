# SPDX-License-Identifier: Apache-2.0
"""Throughput of other open engines, measured with the same memory: 512 bit, aligned, back to back.

None of them has queues, protection or completion words. Commits: pulp-platform/iDMA 2e0b0fe, fpganinja/taxi 2f2fe72;
alexforencich/verilog-axi, ZipCPU/wb2axip and analogdevicesinc/hdl the newest of autumn 2026.
"""

__all__ = ["PEER_ADDED", "PEER_BEHIND", "PEER_LATENCIES", "PEER_SHARES", "PEER_SIZES"]

PEER_SIZES = (64, 256, 1024, 4096, 65536)
PEER_LATENCIES = (100, 500)

#: Engine, and shares of the bus at each size, for each of the latencies.
PEER_SHARES = (
    ("iDMA, raw port, 256 in flight", (1.00, 1.00, 1.00, 1.00, 1.00), (0.29, 1.00, 1.00, 1.00, 1.00)),
    ("iDMA, desc64, one bell each", (0.04, 0.16, 0.62, 1.00, 1.00), (0.01, 0.03, 0.13, 0.51, 1.00)),
    ("taxi dma_if (half a copy)", (0.50, 1.00, 1.00, 1.00, 1.00), (0.50, 1.00, 1.00, 1.00, 1.00)),
    ("verilog-axi axi_cdma", (0.02, 0.07, 0.27, 0.76, 0.77), (0.004, 0.02, 0.06, 0.23, 0.23)),
    ("ADI axi_dmac", (0.02, 0.07, 0.27, 0.76, 1.00), (0.004, 0.02, 0.06, 0.23, 0.81)),
    ("wb2axip axidma", (0.005, 0.02, 0.07, 0.19, 0.37), (0.001, 0.004, 0.02, 0.06, 0.11)),
)

#: Engine, and cycles that one transfer takes beyond memory and beats at L = 100.
PEER_ADDED = (("verilog-axi", 5), ("ADI axi_dmac", 11), ("wb2axip", 12), ("iDMA desc64", 111))

#: Engine, and cycles from post to done of 64 B right behind 64 KiB, by latency.
PEER_BEHIND = (
    ("iDMA", {100: 1226, 250: 1526, 500: 2026}),
    ("axi_dma", {100: 1250, 250: 1550, 500: 2050}),
    ("axi_cdma", {100: 1544, 250: 3044, 500: 5544}),
    ("wb2axip", {100: 2956, 250: 5656, 500: 10_156}),
)
