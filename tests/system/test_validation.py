# SPDX-License-Identifier: Apache-2.0
"""Closed forms and other simulators' results."""

import csv
from dataclasses import replace

import pytest

from sim.system import ENDPOINTS
from sim.validation import links
from sim.validation.links import CHECKS, REFERENCE, distinct, worst

FILES = {"astra-rings": "ring1d_v1.csv", "astra-tori": "torus3d_v1.csv", "simgrid": "simgrid_torus.csv",
         "astra-training": "training_v1.csv"}


@pytest.fixture(scope="module")
def found():
    """Rows of each check, made once."""
    made = {}
    return lambda name: made.setdefault(name, list(CHECKS[name]()))


@pytest.mark.parametrize("name", CHECKS)
def test_as_others_have_it(name, found):
    rows = found(name)
    assert len(rows) >= 30
    row = worst(rows)
    assert abs(row["difference"]) <= row["allowed"], row


@pytest.mark.parametrize("name", FILES)
def test_every_row_of_the_reference_is_compared(name, found):
    with open(REFERENCE / FILES[name], encoding="utf-8", newline="") as file:
        times = [float(row.get("time_ns") or row["total_ns"]) for row in csv.DictReader(file)]
    compared = [row["theirs_ns"] for row in found(name) if not row["what"].endswith("compute")]
    assert compared == pytest.approx(times)


def test_distinct_cases(found):
    """SimGrid's chunks in flight stay together, so three rows each are one case; all others differ."""
    assert len(found("simgrid")) == 3 * distinct(found("simgrid")) == 54
    for name in ("closed", "astra-rings", "astra-tori", "astra-training"):
        assert distinct(found(name)) == len(found(name))


def test_the_order_of_arrival_makes_the_difference(monkeypatch):
    """Many chunks on a torus: with the oldest first in each dimension, some rows are not ASTRA-sim's."""
    rule = links.astra
    monkeypatch.setattr(links, "astra", lambda *shape, **rules: rule(*shape, **rules).with_(turns="age"))
    assert sum(abs(row["difference"]) > row["allowed"] for row in links.astra_tori()) >= 5


def test_a_dimension_that_serves_several_is_another_model(monkeypatch):
    several = replace(ENDPOINTS["ideal"], per_dimension=4)
    rule = links.astra
    monkeypatch.setattr(links, "astra", lambda *shape, **rules: rule(*shape, **rules).with_(endpoint=several))
    assert sum(abs(row["difference"]) > row["allowed"] for row in links.astra_tori()) > 50
