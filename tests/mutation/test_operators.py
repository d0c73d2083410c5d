# SPDX-License-Identifier: Apache-2.0
"""The operators of mutants on small components: which mutants there are, and what each is."""

from collections import Counter

import pytest
from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw import emit
from tests.mutation.equivalence import is_equivalent
from tests.mutation.explained import Explained, explanation, line_of
from tests.mutation.netlist import bits, constant, modules, observable, width
from tests.mutation.operators import OPERATORS, Mutant
from tests.mutation.schemata import candidates, choose, verilog_with_mutants, with_mutants


class Inner(wiring.Component):
    """Counts up to ``limit`` while ``enable``."""

    enable: In(1)
    limit: In(4)
    o: Out(4)
    at_end: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.at_end.eq(self.o == self.limit)
        with m.If(self.enable & ~self.at_end):
            m.d.sync += self.o.eq(self.o + 1)
        return m


class Outer(wiring.Component):
    """A counter, and logic of which a part does nothing."""

    a: In(4)
    enable: In(1)
    o: Out(4)
    same: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = Inner()
        m.d.comb += [inner.enable.eq(self.enable), inner.limit.eq(self.a), self.same.eq(self.a[0] & self.a[0])]
        m.d.comb += self.o.eq(Mux(inner.at_end, self.a, inner.o))
        return m


@pytest.fixture(scope="module")
def text():
    # The tests' own file is no part of the hardware; here it is.
    return emit.netlist(Outer(), name="top", sources=True).replace('"tests/mutation/', '"hw/mutation/')


@pytest.fixture(scope="module")
def found(text):
    return candidates(text)


def _line(mutant):
    return line_of(Mutant(**{**vars(mutant), "source": mutant.source.replace("hw/mutation", "tests/mutation")}))


def test_each_operator_is_found_with_its_line(found):
    assert {mutant.operator for mutant in found} == set(OPERATORS)
    lines = {(mutant.operator, mutant.change): _line(mutant) for mutant in found}
    assert "self.o == self.limit" in lines["operator", "eq -> ne"]
    assert "Mux(inner.at_end" in lines["branches", "values of a Mux exchanged"]
    assert "self.o + 1" in lines["constant", "add 1 -> 2"]
    assert "m.d.sync += self.o.eq" in lines["negation", "branch of o taken if not a condition"]


def test_mutants_are_other_functions(text, found):
    inner = [mutant for mutant in found if mutant.module == "inner"]
    for operator in set(OPERATORS) - {"branches"}:
        mutant = next(mutant for mutant in inner if mutant.operator == operator)
        assert not is_equivalent(text, mutant), mutant
    carry, = (mutant for mutant in inner if mutant.change == "add bit 4 of 5 stuck at 0")
    assert is_equivalent(text, carry)


def test_equivalent_mutants_are_recognised(text, found):
    both, = (mutant for mutant in found if mutant.module == "" and mutant.operator == "operator")
    assert both.change == "and -> or"
    assert is_equivalent(text, both)


def test_a_comparison_that_another_implies():
    class Hidden(wiring.Component):
        a: In(4)
        o: Out(1)

        def elaborate(self, platform):
            m = Module()
            m.d.comb += self.o.eq((self.a < 4) & (self.a < 8))
            return m

    text = emit.netlist(Hidden(), name="top", sources=True).replace('"tests/mutation/', '"hw/mutation/')
    changes = {mutant.change: mutant for mutant in candidates(text)}
    assert is_equivalent(text, changes["lt 8 -> 9"])
    assert not is_equivalent(text, changes["lt 4 -> 5"])


def test_logic_of_assertions_is_not_observable():
    class Checked(wiring.Component):
        a: In(4)
        o: Out(4)

        def elaborate(self, platform):
            m = Module()
            m.d.sync += Assert(self.a + 1 != 3, "three")
            m.d.comb += self.o.eq(~self.a)
            kept = Signal(4)
            m.d.sync += kept.eq(self.a ^ kept)
            with m.If(kept == 7):
                m.d.comb += self.o.eq(0)
            return m

    top, = modules(emit.netlist(Checked(), name="top", sources=True))
    kinds = {item.number: item.kind for item in top.items()}
    assert Counter(kinds[number] for number in observable(top)) == {"not": 1, "xor": 1, "eq": 1, "dff": 1, "process": 2}
    assert Counter(kinds.values())["add"] == 1


def test_all_mutants_fit_into_one_netlist(text, found):
    chosen = dict(enumerate(choose(found, seed=3), 1))
    assert len({(mutant.source, mutant.operator) for mutant in chosen.values()}) == len(chosen)
    mutated = with_mutants(text, chosen)
    cells = Counter(line.rpartition("_")[2] for line in mutated.splitlines() if line.startswith("  cell "))
    assert cells["choice"] == cells["equal"] == len(chosen)
    verilog = verilog_with_mutants(text, chosen)
    assert 'initial mutant_number = $c32("(std::getenv(\\"DMACE_MUTANT\\")' in verilog


def test_the_choice_depends_on_the_seed_alone(found):
    assert choose(found, seed=1) == choose(found, seed=1) != choose(found, seed=2)


def test_wrong_mutants_are_refused(text, found):
    with pytest.raises(ValueError, match=r"^A mutant's number must be 1 to 65535, not 0\.$"):
        with_mutants(text, {0: found[0]})
    with pytest.raises(ValueError, match=r"^The netlist has no module 'elsewhere'\.$"):
        with_mutants(text, {1: Mutant("elsewhere", 0, 0, "operator", "and -> or", "hw/x.py:1")})
    with pytest.raises(ValueError, match=r"^The text has no RTLIL module\.$"):
        modules("")


@pytest.mark.parametrize(("signal", "value"), [("4'0011", (4, 3)), ("{ }", (0, 0)), ("\\a [3:0]", None), ("1'x", None)])
def test_constants(signal, value):
    assert constant(signal) == value


def test_signals():
    assert bits("{ \\a [3:1] 2'01 $12 [0] }") == ["\\a [3:1]", "2'01", "$12 [0]"]
    assert width("{ \\a [3:1] 2'01 $12 [0] \\b }", {"\\b": 7}) == 13
    with pytest.raises(ValueError, match=r"^This is no RTLIL signal: '\?'$"):
        bits("?")


def test_an_explanation_follows_its_line():
    mutant = Mutant("a", 0, 0, "operator", "and -> or", "tests/mutation/test_operators.py:1")
    entries = [Explained("tests/mutation/test_operators.py", "SPDX-License-Identifier", "and -> or", "unseen", "")]
    assert explanation(mutant, entries) is entries[0]
    assert explanation(Mutant(**{**vars(mutant), "change": "or -> and"}), entries) is None
