# SPDX-License-Identifier: Apache-2.0
"""The allocator: spans are aligned, disjoint and within the pool, and freed spans are merged."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmace.remote.pool import ALIGNMENT, Pool, PoolExhausted
from dmace.runtime.errors import DmaceError


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 5000), st.integers(0, 300), st.lists(st.tuples(
    st.booleans(), st.integers(1, 900), st.sampled_from([1, 2, 8, 64, 256]), st.integers(0, 1 << 30)), max_size=60))
def test_spans(length, first, actions):
    pool, spans = Pool(length, first), {}
    for allocate, count, alignment, choice in actions:
        if allocate:
            free = sorted((end, begin) for begin, end in _gaps(pool.first, length, spans))
            fits = any(-(-begin // alignment) * alignment + count <= end for end, begin in free)
            try:
                offset = pool.allocate(count, alignment)
            except PoolExhausted:
                assert not fits
                continue
            assert fits and offset % alignment == 0
            assert first <= offset and offset + count <= first + length
            assert all(offset + count <= other or other + size <= offset for other, size in spans.items())
            spans[offset] = count
        elif spans:
            offset = sorted(spans)[choice % len(spans)]
            pool.free(offset)
            del spans[offset]
        gaps = list(_gaps(first, length, spans))
        assert pool.spans == spans
        assert pool.free_bytes == length - sum(spans.values()) == sum(end - begin for begin, end in gaps)
        assert pool.longest == max((end - begin for begin, end in gaps), default=0)
    for offset in list(spans):
        pool.free(offset)
    assert pool.longest == pool.free_bytes == length


def _gaps(first, length, spans):
    """Free spans, from the allocated ones alone."""
    begin = first
    for offset, count in sorted(spans.items()):
        if begin < offset:
            yield begin, offset
        begin = offset + count
    if begin < first + length:
        yield begin, first + length


@pytest.mark.parametrize("call, sentence", [
    (lambda pool: Pool(0), "A pool must have at least one byte, not 0."),
    (lambda pool: Pool(10, -1), "A pool must begin at an offset of 0 or more, not -1."),
    (lambda pool: pool.allocate(0), "An allocation must have at least one byte, not 0."),
    (lambda pool: pool.allocate(1.0), "An allocation must have at least one byte, not 1.0."),
    (lambda pool: pool.allocate(8, 3), "An alignment must be a power of two from 1 to 1073741824, not 3."),
    (lambda pool: pool.free(5), "No allocated span begins at offset 5, so it cannot be freed."),
    (lambda pool: [pool.free(pool.allocate(1) * 0) for _ in range(1)] + [pool.free(0)],
     "No allocated span begins at offset 0, so it cannot be freed."),
    (lambda pool: [pool.allocate(500), pool.allocate(600)],
     f"600 bytes at a multiple of {ALIGNMENT} do not fit into the pool: of its 1,000 bytes 500 are free, 500 of them "
     "contiguous."),
])
def test_errors_are_sentences(call, sentence):
    with pytest.raises(DmaceError, match=f"^{re.escape(sentence)}$"):
        call(Pool(1000))
