# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""A table that the sweep after reset does not cover is refused."""

import re
from dataclasses import replace

import pytest

from hw.ace.config import TINY
from hw.common.sweep import SweepSignature
from hw.common.table import Table


def test_sweep_reaches_every_row():
    init = SweepSignature(TINY)
    rows = 1 << len(init.create().address)
    assert Table(8, depth=rows, reads=1, init=init).depth == rows
    with pytest.raises(ValueError, match=f"^{re.escape(f'A table of {2 * rows} rows is longer than the sweep')}"):
        Table(8, depth=2 * rows, reads=1, init=init)
    assert Table(8, depth=2 * rows, reads=1, init=None).depth == 2 * rows


def test_more_communicators_have_a_longer_sweep():
    many = replace(TINY, communicators=16)
    assert len(SweepSignature(many).create().address) > len(SweepSignature(TINY).create().address)
