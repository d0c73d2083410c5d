# SPDX-License-Identifier: Apache-2.0
"""A word's named tuple has the fields of its table, in order."""

import pytest

from hw.ace import words

NAMES = ("Command", "Header", "Role", "Transfer", "Phase", "Send")


@pytest.mark.parametrize("name", NAMES)
def test_names_are_those_of_the_table(name):
    table = getattr(words, f"{name.upper()}_FIELDS")
    assert getattr(words, f"{name}Word")._fields == tuple(field for field, _ in table)


@pytest.mark.parametrize("name", NAMES)
def test_unpack_undoes_pack(name):
    kind, table = getattr(words, f"{name}Word"), getattr(words, f"{name.upper()}_FIELDS")
    word = kind(*((1 << width) - 1 - index % 2 for index, (_, width) in enumerate(table)))
    assert kind.unpack(word.pack()) == word
