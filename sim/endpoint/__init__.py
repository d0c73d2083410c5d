# SPDX-License-Identifier: Apache-2.0
"""Clusters of whole endpoints: DMA engine, collectives accelerator and puts over the same links."""
