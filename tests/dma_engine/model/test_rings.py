# SPDX-License-Identifier: Apache-2.0
"""Descriptor rings in the golden model: which configurations of a pair of queues are refused."""

import pytest

from hw.dma_engine.config import BASE
from hw.dma_engine.descriptors import RingLocation
from hw.dma_engine.model.engine import DmaModel
from hw.dma_engine.words import Command

ONE, BOTH = (RingLocation(base=0x1000, size=3, pair=pair) for pair in (False, True))


@pytest.mark.parametrize("queue", [0, 1, 3])
def test_rings_of_a_pair(queue):
    model = DmaModel(BASE)
    beside, far = queue ^ 1, queue ^ 2
    assert model.configure_queue(queue, ring=BOTH)
    assert not model.configure_queue(beside, ring=ONE) and not model.configure_queue(beside, ring=BOTH)
    assert model.queues[beside].ring is None
    assert model.configure_queue(beside, ark=3) and model.configure_queue(far, ring=BOTH)
    assert model.configure_queue(queue, ring=ONE) and model.configure_queue(beside, ring=ONE)
    assert not model.configure_queue(queue, ring=BOTH)
    ring = model.queues[queue].ring
    assert ring is not None and ring.location == ONE


def test_a_ring_ends_with_reset_and_another_mode():
    for order in ((Command.RESET, None), (None, Command.RESET)):
        model = DmaModel(BASE)
        assert model.configure_queue(0, ring=BOTH)
        model.command(0, Command.START)
        assert not model.configure_queue(0, ring=ONE)
        for step in order:
            assert not model.configure_queue(1, ring=ONE)
            if step is None:
                assert model.configure_queue(0)
            else:
                model.command(0, step)
        assert model.configure_queue(1, ring=BOTH)


def test_queues_that_are_not_extended_have_no_ring():
    model = DmaModel(BASE)
    assert model.configure_queue(BASE.extended, ring=BOTH) and model.configure_queue(BASE.extended + 1, ring=BOTH)
    assert model.queues[BASE.extended].ring is None
