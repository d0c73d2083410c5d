# SPDX-License-Identifier: Apache-2.0
"""The requester: the DMA engine's bursts as packets of queue pairs, until they are acknowledged."""
