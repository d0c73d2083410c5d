# SPDX-License-Identifier: Apache-2.0
"""RoCEv2: the DMA engine's requests to remote machines over Ethernet, and remote machines' requests to local memory."""
