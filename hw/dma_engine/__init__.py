# SPDX-License-Identifier: Apache-2.0
"""The DMA engine.

::

    s_axi_db -> doorbell -> queues -> scheduler -> legalizer -> read -> AR
    s_axil -> frontpanel -> control, regions, pages
                                                          R -> buffer -> sequencer -> aligner -> AW, W
                                                          B -> responses -> retire -> completion -^

``config``, ``words`` and ``registers`` are what software sees too; ``model`` is the golden model.
"""

from typing import TYPE_CHECKING, Any

from .config import PRESETS, DmaConfig

if TYPE_CHECKING:
    from .engine import DmaEngine

__all__ = ["PRESETS", "DmaConfig", "DmaEngine"]


def __getattr__(name: str) -> Any:
    # Late, so that words and model do without Amaranth.
    if name == "DmaEngine":
        from .engine import DmaEngine

        return DmaEngine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
