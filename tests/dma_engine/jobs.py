# SPDX-License-Identifier: Apache-2.0
"""Named suites of copies: typical uses, corner cases and regressions.

A suite is a function of the engine's sizes and a random generator, registered in :data:`SUITES` under its
name; its docstring states its purpose. Offsets of a job are relative to a 4 KiB boundary, which the caller
chooses, and may be negative.
"""

from itertools import product
from typing import NamedTuple

from hw.common.sizes import PAGE_BYTES

__all__ = ["SUITES", "Job", "pairs", "suite"]

SUITES = {}
"""Name -> function ``(config, rng) -> list of Job``."""


class Job(NamedTuple):
    """A copy of ``length`` bytes, with source and destination at these distances from a 4 KiB boundary.

    Without a destination, it is placed close behind the previous one.
    """

    length: int
    source: int
    destination: int | None


def suite(name, config, rng):
    """The jobs of a suite in random order."""
    jobs = SUITES[name](config, rng)
    rng.shuffle(jobs)
    return jobs


def _suite(function):
    SUITES[function.__name__] = function
    return function


def _alignments(config):
    """Every pair of source and destination position in a beat."""
    return list(product(range(config.beat_bytes), repeat=2))


def _covering(config, rng, extra=0):
    """Pairs of positions that cover each source position, each destination position and each difference."""
    beat = config.beat_bytes
    pairs = [(position, (position * 3 + 1) % beat) for position in range(beat)]
    pairs += [(position, (position + distance) % beat)
              for distance, position in enumerate(rng.sample(range(beat), beat))]
    return pairs + [(rng.randrange(beat), rng.randrange(beat)) for _ in range(extra)]


def _side(position, config, rng):
    """A position in a beat that ends or starts at the boundary."""
    return position - rng.choice((0, 1)) * config.beat_bytes


def _near(config, rng, lengths, pairs):
    """Each length at each pair of positions, on both sides of a boundary."""
    return [Job(length, _side(source, config, rng), _side(destination, config, rng))
            for length in lengths for source, destination in pairs]


@_suite
def edges(config, rng):
    """Up to two beats and a byte: every combination of first, last and only beat on both sides."""
    beat = config.beat_bytes
    jobs = []
    for length in range(1, 2 * beat + 2):
        pairs = _alignments(config) if beat <= 8 else rng.sample(_alignments(config), 12)
        jobs += _near(config, rng, (length,), pairs)
    return jobs


@_suite
def tiny(config, rng):
    """Consecutive gradients of a few bytes: one beat per segment, the maximum overhead."""
    return [Job(rng.choice((1, 2, 4, 8, 16)), 8 * rng.randrange(64), 8 * rng.randrange(64)) for _ in range(200)]


@_suite
def small(config, rng):
    """Around 64 and 256 bytes: a few beats, and on ``tiny`` the first border between segments."""
    if config.beat_bytes <= 8:
        return _near(config, rng, (63, 64, 65, 255, 256, 257), _alignments(config))
    return [job for pair in _covering(config, rng) for lengths in ((63, 64, 65), (255, 256, 257))
            for job in _near(config, rng, (rng.choice(lengths),), [pair])]


@_suite
def medium(config, rng):
    """Around 4 KiB: many segments each, and at every alignment a source that crosses a page."""
    return [job for pair in _covering(config, rng)
            for job in _near(config, rng, (rng.choice((4095, 4096, 4097)),), [pair])]


@_suite
def large(config, rng):
    """64 KiB: more segments than a window has entries."""
    beat = config.beat_bytes
    return [Job(65536 + delta, rng.randint(-beat, beat), rng.randint(-beat, beat)) for delta in (0, -1, 1, 0)]


@_suite
def huge(config, rng):
    """1 MiB: large values of the counters within a request."""
    beat = config.beat_bytes
    return [Job(1 << 20, rng.randint(-beat, beat), rng.randint(-beat, beat))]


@_suite
def straddle_4k(config, rng):
    """One byte before and one after a boundary, on both sides, and other positions near it."""
    lengths = (2, 3, config.beat_bytes + 1, config.segment_bytes)
    return [Job(length, -before, -behind) for length in lengths
            for before, behind in product((0, 1, length // 2, length - 1, length), repeat=2)]


@_suite
def misaligned(config, rng):
    """Whole segments in which each destination beat combines two source beats."""
    beat, segment = config.beat_bytes, config.segment_bytes
    return [Job(segment + delta, source, destination) for source, destination in _covering(config, rng)
            for delta in (rng.randint(-beat, beat),)]


@_suite
def segment_borders(config, rng):
    """Destinations that start or end at a segment's border, or a byte from it."""
    segment = config.segment_bytes
    return [Job(count * segment + delta, rng.randint(-9, 9), start)
            for count in (1, 2) for delta in (-1, 0, 1) for start in (-segment - 1, -1, 0, 1, segment - 1)]


@_suite
def whole_buffer(config, rng):
    """Twice the bytes of the buffer, in requests of the longest segments."""
    segment = config.segment_bytes
    return [Job(segment, 1 + index % 3, 0) for index in range(2 * config.buffer_beats // config.segment_beats)]


@_suite
def all_tags(config, rng):
    """More single beats than there are tags."""
    return [Job(rng.randint(1, 4), rng.randrange(-2, 2), rng.randrange(-2, 2)) for _ in range(2 * config.tags)]


@_suite
def one_page(config, rng):
    """Sources that end with the last byte of a page: the next page must not be read."""
    return [Job(length, -length, position) for length in (1, 7, 64, 65, PAGE_BYTES)
            for position in (0, 1, config.beat_bytes - 1)]


def pairs(config, rng, number):
    """Any two consecutive requests: state of the first must not affect the second."""
    beat, segment = config.beat_bytes, config.segment_bytes

    def length():
        kind = rng.random()
        if kind < 0.5:
            return rng.randint(1, 2 * beat + 1)
        if kind < 0.9:
            return int(2 ** rng.uniform(0, 8.5))
        return rng.randint(1, segment + beat)

    return [Job(length(), rng.randrange(PAGE_BYTES), None) for _ in range(2 * number)]
