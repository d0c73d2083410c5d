# SPDX-License-Identifier: Apache-2.0
"""Generated pages are what their generator writes."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_docs_are_up_to_date():
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "scripts" / "generate_docs.py")
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert generator.pages()
    assert generator.stale() == []
