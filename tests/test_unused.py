# SPDX-License-Identifier: Apache-2.0
"""Every part that a design makes is a submodule: the outputs of one that is not stay 0."""

import gc
import warnings

import pytest
from amaranth.hdl import Elaboratable, Fragment, Module, UnusedElaboratable

from hw.ace import config as ace_config
from hw.ace.engine import AceEngine
from hw.card import config as card_config
from hw.card.card import Card
from hw.dma_engine import config as dma_config
from hw.dma_engine.engine import DmaEngine
from hw.endpoint import config as endpoint_config
from hw.endpoint.engine import Endpoint


def _unused(make):
    """Names of the parts that ``make()`` creates, and that its elaboration does not reach."""
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Fragment.get(make(), None)
        gc.collect()
    return [str(warning.message) for warning in caught if warning.category is UnusedElaboratable]


@pytest.mark.parametrize(("component", "config"), [
    (DmaEngine, dma_config.TINY), (AceEngine, ace_config.TINY), (Endpoint, endpoint_config.TINY),
    (Card, card_config.TINY)], ids=lambda value: getattr(value, "__name__", ""))
def test_every_part_is_a_submodule(component, config):
    assert _unused(lambda: component(config)) == []


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
