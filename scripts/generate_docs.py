"""Write the generated pages of docs/; with --check, say which differ and exit 1."""

import json
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
sys.path.insert(0, str(DOCS.parent))

from fpga.report import page  # noqa: E402
from hw.dma_engine.config import BASE  # noqa: E402
from hw.dma_engine.registers import register_map  # noqa: E402
from hw.regs import to_markdown  # noqa: E402


def pages():
    """File name -> text of every generated page."""
    return {
        "dma_engine_registers.md":
            "<!-- Written by scripts/generate_docs.py for the preset `base`; do not edit. -->\n\n"
            + to_markdown(register_map(BASE)),
        "area.md": page(json.loads((DOCS / "area.json").read_text(encoding="utf-8"))),
    }


def stale():
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
