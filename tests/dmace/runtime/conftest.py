# SPDX-License-Identifier: Apache-2.0
"""Devices for the tests: the test double of a card of tests/dmace/libdmace, which needs no simulator."""

import subprocess
from pathlib import Path

import pytest

import dmace
from dmace.libdmace.build import FLAGS, c_compiler, library

FAKE = Path(__file__).parents[1] / "libdmace" / "fake_card.c"


@pytest.fixture(scope="session")
def fake_card(tmp_path_factory):
    """Name of a device that is a test double; options follow behind a comma."""
    made = tmp_path_factory.mktemp("fake") / "fake_card.so"
    subprocess.run([*c_compiler(), *FLAGS, "-I", library().parent, "-fPIC", "-pthread", "-shared", FAKE, "-o", made],
                   check=True)
    return f"sim:{made}"


@pytest.fixture
def device(fake_card):
    with dmace.open(fake_card) as opened:
        yield opened
