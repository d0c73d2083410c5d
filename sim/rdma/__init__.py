# SPDX-License-Identifier: Apache-2.0
"""The network around the RoCEv2 unit: packets, a software peer, Ethernet with faults, clusters, soft-RoCE in Linux."""
