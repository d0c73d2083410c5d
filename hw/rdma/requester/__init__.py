# SPDX-License-Identifier: Apache-2.0
"""Requester of RoCEv2: requests of the DMA engine to remote memory."""
