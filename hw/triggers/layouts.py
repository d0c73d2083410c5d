# SPDX-License-Identifier: Apache-2.0
"""Payloads between the stages of the trigger unit, sized by the configuration."""

from amaranth import *
from amaranth.lib import data, enum

from hw.common.posts import WORD_BITS

from .config import GENERATION_WIDTH, INDEX_WIDTH, PAGE_WIDTH, THRESHOLD_WIDTH, VALUE_WIDTH
from .words import ARM_FIELDS, TICK_FIELDS

__all__ = ["CODE_WIDTH", "ArmLayout", "OpKind", "RowLayout", "SettingsLayout", "TickLayout", "decode_tick",
           "due_layout", "firing_layout", "op_layout", "tick_layout"]

CODE_WIDTH = 3
"""Bits of a :class:`~.words.Refusal`."""

TickLayout = data.StructLayout(dict(TICK_FIELDS))
ArmLayout = data.StructLayout(dict(ARM_FIELDS))


class OpKind(enum.Enum, shape=3):
    """Operations on a counter."""

    TICK = 0
    WORD = 1
    """Store one of the words to post."""
    ARM = 2
    CLEAR = 3
    """Part of the reset of a block."""
    READ = 4
    """Read the counter for the registers."""
    NONE = 5
    """No effect: a store without ticks, which gets a response."""


RowLayout = data.StructLayout({
    "remaining": THRESHOLD_WIDTH, "generation": GENERATION_WIDTH, "mode": 2, "due": 2})
"""State of a counter. ``remaining``: the count until it fires; of SUM the negative sum. ``due``: pending firings."""

SettingsLayout = data.StructLayout({"threshold": THRESHOLD_WIDTH, "page": PAGE_WIDTH, "pair": 1, "stamp": 1})
"""The part of a counter that only arming changes."""


def tick_layout(config):
    """A tick; ``malformed``: it is refused whatever the counter's state."""
    return data.StructLayout({
        "counter": config.counter_bits, "any": 1, "generation": GENERATION_WIDTH, "value": VALUE_WIDTH,
        "malformed": 1})


def op_layout(config):
    """An operation on a counter; ``code`` is not 0 if it is refused whatever the counter's state.

    TICK uses ``value``, ``any`` and ``generation``, ARM ``arm``, and WORD ``word`` and ``second``.
    """
    return data.StructLayout({
        "kind": OpKind, "counter": config.counter_bits, "code": CODE_WIDTH, "any": 1, "generation": GENERATION_WIDTH,
        "value": VALUE_WIDTH, "second": 1, "word": WORD_BITS})


def due_layout(config):
    """A counter with a pending firing, and the page that receives it."""
    return data.StructLayout({"index": INDEX_WIDTH, "page": PAGE_WIDTH})


def firing_layout(config):
    """A firing that is being posted. Its number, for the stamp, is ``-base`` of a ``sum``, else the generation
    ``base - behind``."""
    return data.StructLayout({
        "counter": config.counter_bits, "page": PAGE_WIDTH, "pair": 1, "stamp": 1, "sum": 1, "base": THRESHOLD_WIDTH,
        "behind": 2})


def decode_tick(config, tick, *, word, block):
    """Assignments that fill a view of ``tick_layout`` from an 8-byte word for a counter of ``block``, which may be a
    number beyond the blocks.
    """
    fields = data.View(TickLayout, word)
    return [
        tick.counter.eq(Cat(fields.counter, block[:config.block_bits])), tick.any.eq(fields.any),
        tick.generation.eq(fields.generation), tick.value.eq(fields.value),
        tick.malformed.eq(fields.reserved.any() | fields.reserved_high.any() | (block >> config.block_bits).any()),
    ]
