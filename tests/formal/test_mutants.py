# SPDX-License-Identifier: Apache-2.0
"""The deliberate bugs of ``mutants.py`` fit the sources; two of them, chosen by the seed, make their proof fail."""

import random
import re

import pytest

from tests.changed_sources import ROOT, check_fits
from tests.formal.mutants import MUTANTS, is_found


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_fits(mutant):
    check_fits(mutant.path, mutant.old, mutant.proof)


def test_every_proof_has_a_mutant():
    """Each file of proofs has one at least."""
    files = {path.name for path in (ROOT / "tests/formal").glob("test_*.py") if "prove(" in path.read_text()}
    own = {"test_harness.py", "test_mutants.py", "test_axi_rules.py", "test_triggers.py", "test_trigger_queues.py",
           "test_forwarding_table.py", "test_async_queue.py"}      # these have flaws instead
    assert files - own == {re.search(r"(\w+\.py)::", mutant.proof)[1] for mutant in MUTANTS}


@pytest.mark.long
@pytest.mark.formal
def test_mutants_are_found(seed):
    for mutant in random.Random(seed).sample(MUTANTS, 2):
        assert is_found(mutant), mutant.name
