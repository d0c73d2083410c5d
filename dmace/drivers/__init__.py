# SPDX-License-Identifier: Apache-2.0
"""Register-level drivers over any bus: :mod:`.dma` for the DMA engine, :mod:`.ace` for the collectives accelerator,
:mod:`.endpoint` for both on one memory port; :mod:`.registers` is what they share."""
