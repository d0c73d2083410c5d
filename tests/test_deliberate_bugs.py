# SPDX-License-Identifier: Apache-2.0
"""The bugs of ``deliberate_bugs.py`` fit the sources, and their tests exist."""

import pytest

from tests.changed_sources import check_fits
from tests.deliberate_bugs import BUGS, main


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_bug_fits(bug):
    check_fits(bug.path, bug.old, *bug.means)


def test_unknown_name(capsys):
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["credit leak", "nothing"])
    assert capsys.readouterr().err.startswith("There is no bug 'nothing'; there are: bounds check off by one, ")
