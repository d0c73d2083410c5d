# SPDX-License-Identifier: Apache-2.0
"""An endpoint: DMA engine and collectives accelerator on one memory port, with puts to neighbours."""
