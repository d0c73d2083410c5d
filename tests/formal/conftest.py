# SPDX-License-Identifier: Apache-2.0
"""A table of the proofs at the end of the session: method, depth and processor time."""

import pytest

from tests.harness.formal import RECORDS


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call":
        report.user_properties += [
            ("proof", (record.name, record.method, record.depth, record.seconds, record.passed)) for record in RECORDS]
        RECORDS.clear()
    return report


def pytest_terminal_summary(terminalreporter):
    proofs = [value for reports in terminalreporter.stats.values() for report in reports
              for key, value in getattr(report, "user_properties", ()) if key == "proof"]
    if not proofs:
        return
    terminalreporter.section("proofs")
    terminalreporter.line(f"{'proof':44}{'method':12}{'cycles':>7}{'CPU s':>8}")
    for name, method, depth, seconds, passed in sorted(proofs):
        result = "" if passed else "  violated"
        terminalreporter.line(f"{name:44}{method:12}{depth:7}{seconds:8.1f}{result}")
    terminalreporter.line(f"{len(proofs)} runs, {sum(proof[3] for proof in proofs):.0f} s of processor time")
