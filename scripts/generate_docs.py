# SPDX-License-Identifier: Apache-2.0
"""Write the generated pages of docs/; with --check, say which differ and exit 1."""

import json
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent / "docs"
sys.path.insert(0, str(DOCS.parent))

from fpga.report import page  # noqa: E402
from fpga.report_ace import section  # noqa: E402
from hw.ace import config as ace_config  # noqa: E402
from hw.ace import registers as ace_registers  # noqa: E402
from hw.ace import words_page  # noqa: E402
from hw.dma_engine import config as dma_config  # noqa: E402
from hw.dma_engine import queue_settings_page  # noqa: E402
from hw.dma_engine import registers as dma_registers  # noqa: E402
from hw.endpoint import config as endpoint_config  # noqa: E402
from hw.endpoint import registers as endpoint_registers  # noqa: E402
from hw.rdma import config as rdma_config  # noqa: E402
from hw.rdma import registers as rdma_registers  # noqa: E402
from hw.regs import to_markdown  # noqa: E402

HEAD = "<!-- Written by scripts/generate_docs.py for the preset `base`; do not edit. -->\n\n"


def pages() -> dict[str, str]:
    """File name -> text of every generated page."""
    return {
        "dma_engine_registers.md": HEAD + to_markdown(dma_registers.register_map(dma_config.BASE)),
        "dma_engine_queue_settings.md": HEAD + queue_settings_page.page(dma_config.BASE),
        "ace_registers.md": HEAD + to_markdown(ace_registers.register_map(ace_config.BASE)),
        "endpoint_registers.md": HEAD + to_markdown(endpoint_registers.register_map(endpoint_config.BASE)),
        "rdma_registers.md": HEAD + to_markdown(rdma_registers.register_map(rdma_config.BASE)),
        "ace_words.md": HEAD + words_page.page(ace_config.BASE),
        "area.md": page(_figures("area")) + section(_figures("area_ace")),
    }


def _figures(name: str) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads((DOCS / f"{name}.json").read_text(encoding="utf-8"))
    return figures


def stale() -> list[str]:
    """Names of the pages whose files differ from their text."""
    return [name for name, text in pages().items()
            if not (DOCS / name).is_file() or (DOCS / name).read_text(encoding="utf-8") != text]


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        names = stale()
        if names:
            sys.exit(f"generate_docs: out of date: {', '.join(names)}; run scripts/generate_docs.py")
    else:
        for name, text in pages().items():
            (DOCS / name).write_text(text, encoding="utf-8")
