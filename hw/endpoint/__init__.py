"""An endpoint: DMA engine and collectives accelerator on one memory port, with puts to neighbours."""
