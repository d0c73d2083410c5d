# SPDX-License-Identifier: Apache-2.0
"""The bugs of ``deliberate_bugs.py`` fit the sources, and their tests exist."""

import pytest

from tests.deliberate_bugs import BUGS, ROOT


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_bug_fits(bug):
    assert (ROOT / bug.path).read_text().count(bug.old) == 1
    for means in bug.means:
        path, test = means.split("::")
        assert f"def {test.split('[')[0]}(" in (ROOT / path).read_text()
