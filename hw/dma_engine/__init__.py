"""The DMA engine.

::

    s_axi_db -> doorbell -> queues -> scheduler -> legalizer -> read -> AR
    s_axil -> frontpanel -> control, regions, pages
                                                          R -> buffer -> sequencer -> aligner -> AW, W
                                                          B -> responses -> retire -> completion -^

``config``, ``words`` and ``registers`` are what software sees too; ``model`` is the golden model.
"""

from .config import PRESETS, DmaConfig
from .engine import DmaEngine

__all__ = ["PRESETS", "DmaConfig", "DmaEngine"]
