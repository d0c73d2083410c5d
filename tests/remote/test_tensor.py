# SPDX-License-Identifier: Apache-2.0
"""Tensors in memory: order of dimensions, and the header that describes a tensor to another machine."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmace.remote.header import HEADER_BYTES, Header
from dmace.remote.tensor import DTYPES, Tensor
from dmace.runtime.errors import DmaceError


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 5), max_size=5), st.randoms(use_true_random=False))
def test_order(shape, random):
    order = list(range(len(shape)))
    random.shuffle(order)
    tensor = Tensor("x", shape, np.int32, tuple(order))
    value = np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    memory = np.zeros(value.nbytes, np.uint8)
    view = tensor.view(memory, shape)
    view[...] = value
    assert view.shape == tuple(shape) and np.shares_memory(view, memory)
    assert memory.tobytes() == value.transpose(order).tobytes()     # outermost dimension first
    assert tensor.arrange(view) is view
    arranged = tensor.arrange(value)
    assert np.array_equal(arranged, value) and arranged.transpose(order).flags.c_contiguous


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(DTYPES), st.lists(st.integers(0, (1 << 63) - 1), max_size=8), st.integers(0, (1 << 64) - 1),
       st.integers(1, (1 << 44) - 1))
def test_header(dtype, shape, offset, number):
    tensor = Tensor("x", (None,) * len(shape), dtype)
    header = Header.of(tensor, tuple(shape), offset=offset, length=7, number=number)
    data = np.frombuffer(header.pack(), np.uint8)
    assert len(data) == HEADER_BYTES == 96 and Header.unpack(data) == header
    header.check(tensor, number)


@pytest.mark.parametrize("change, sentence", [
    (lambda data: data.__setitem__(24, 99),
     "A tensor's header must have one of 15 types and at most 8 dimensions, not type 99 and 2 dimensions."),
    (lambda data: data.__setitem__(25, 9),
     "A tensor's header must have one of 15 types and at most 8 dimensions, not type 9 and 9 dimensions."),
    (lambda data: data.__setitem__(25, 1), "Tensor 'x' must have the shape (any, 3), not (2,)."),
    (lambda data: data.__setitem__(40, 4), "Tensor 'x' must have the shape (any, 3), not (2, 4)."),
    (lambda data: data.__setitem__(24, 8), "Tensor 'x' must have elements of type float32, not float16."),
    (lambda data: data.__setitem__(16, 8), "The header of tensor 'x' must have the number 1, not 8."),
])
def test_headers_are_checked(change, sentence):
    tensor = Tensor("x", (None, 3), np.float32)
    data = np.frombuffer(Header.of(tensor, (2, 3), offset=0, length=24, number=1).pack(), np.uint8).copy()
    change(data)
    with pytest.raises(DmaceError, match=f"^{re.escape(sentence)}$"):
        Header.unpack(data).check(tensor, 1)
