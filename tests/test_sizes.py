# SPDX-License-Identifier: Apache-2.0
"""Every size of a configuration is an integer: no float that equals one, and no bool, which is an int to Python."""

from dataclasses import fields, replace

import pytest

from hw.ace import config as ace
from hw.dma_engine import config as dma
from hw.endpoint import config as endpoint
from hw.rdma import config as rdma

CONFIGS = {"dma": dma.BASE, "ace": ace.BASE, "endpoint": endpoint.BASE, "rdma": rdma.BASE}

SIZES = [(name, field.name) for name, config in CONFIGS.items() for field in fields(config) if field.type is int]


def test_there_are_sizes():
    assert len(SIZES) == 15 + 19 + 3 + 15


@pytest.mark.parametrize("name, size", SIZES)
def test_a_size_is_an_integer(name, size):
    config = CONFIGS[name]
    good = getattr(config, size)
    for wrong in (float(good), good == good, False, str(good), None):
        with pytest.raises(ValueError, match=rf"must .*, not {wrong!r}$"):
            replace(config, **{size: wrong})
    assert getattr(replace(config, **{size: good}), size) == good


@pytest.mark.parametrize("name", ["dma", "ace", "rdma"])
def test_a_choice_is_a_bool(name):
    config = CONFIGS[name]
    for choice in [field.name for field in fields(config) if field.type is bool]:
        for wrong in (0, 1, 1.0, None):
            with pytest.raises(ValueError, match=rf"must be True or False, not {wrong!r}$"):
                replace(config, **{choice: wrong})
