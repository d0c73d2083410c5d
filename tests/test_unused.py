# SPDX-License-Identifier: Apache-2.0
"""Every part that a design makes is a submodule: the outputs of one that is not stay 0."""

import gc
import warnings

from amaranth.hdl import Elaboratable, Fragment, Module, UnusedElaboratable

from hw.card.card import Card
from hw.card.config import TINY


def _unused(make):
    """Names of the parts that ``make()`` creates, and that its elaboration does not reach."""
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Fragment.get(make(), None)
        gc.collect()
    return [str(warning.message) for warning in caught if warning.category is UnusedElaboratable]


def test_every_part_is_a_submodule():
    """The card has both engines, the endpoint and the PCIe adapter."""
    assert _unused(lambda: Card(TINY)) == []


def test_part_without_module_is_found():
    class Whole(Elaboratable):
        def elaborate(self, platform):
            Part()
            return Module()

    class Part(Elaboratable):
        def elaborate(self, platform):
            return Module()

    (found,) = _unused(Whole)
    assert "Part object" in found
