# SPDX-License-Identifier: Apache-2.0
"""The list of mutants that are examined: each row names one, also where others are added or removed."""

from dataclasses import replace

from tests.mutation import pool
from tests.mutation.operators import Mutant


def _mutant(item, *, line=1, operator="operator", change="and -> or", module="a"):
    return Mutant(module, item, 0, operator, change, f"tests/mutation/test_pool.py:{line}")


CODE = "# SPDX-License-Identifier: Apache-2.0"
ROWS = [pool.Row(2, "tests/mutation/test_pool.py", "a", "operator", "and -> or", 1, CODE),
        pool.Row(5, "tests/mutation/test_pool.py", "a", "stuck", "and -> or", 0, CODE)]


def test_rows_name_mutants():
    """The second of equal mutants; none of another module, operator, change or line."""
    ours, theirs = _mutant(4), _mutant(9, operator="stuck")
    others = [_mutant(1, module="b"), _mutant(2, change="or -> and"), _mutant(5, line=4)]
    assert pool.found_rows(ROWS, [*others, _mutant(3), ours, theirs]) == {2: ours, 5: theirs}
    assert pool.found_rows(ROWS, [*others, _mutant(3)]) == {}


def test_a_row_without_a_mutant_is_replaced():
    """By one of another line or operator, with a new number."""
    there = [_mutant(3), _mutant(4), _mutant(6, line=4, operator="negation"), _mutant(7, change="or -> and")]
    kept, added = pool.renewed(ROWS, there, seed=1)
    assert kept == ROWS[0]
    assert added == replace(ROWS[0], number=6, operator="negation", ordinal=0, code=added.code)
    assert pool.found_rows([kept, added], there) == {2: there[1], 6: there[2]}


def test_lists_are_whole(tmp_path, monkeypatch):
    """Numbers are ascending, no mutant is listed twice, and a list that is written is read again."""
    for engine in ("dma", "ace"):
        rows = pool.read(engine)
        assert [row.number for row in rows] == sorted({row.number for row in rows})
        assert len({replace(row, number=0) for row in rows}) == len(rows) > 150
        monkeypatch.setattr(pool, "FOLDER", tmp_path)
        pool.write(engine, rows)
        assert pool.read(engine) == rows
        monkeypatch.undo()
