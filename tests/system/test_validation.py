# SPDX-License-Identifier: Apache-2.0
"""Closed forms and other simulators' results."""

import pytest

from sim.validation.links import CHECKS, worst


@pytest.mark.parametrize("name", CHECKS)
def test_as_others_have_it(name):
    rows = list(CHECKS[name]())
    assert len(rows) >= 30
    row = worst(rows)
    assert abs(row["difference"]) <= row["allowed"], row
