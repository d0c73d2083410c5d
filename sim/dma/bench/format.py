# SPDX-License-Identifier: Apache-2.0
"""How numbers look in the tables."""

__all__ = ["cycles"]


def cycles(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
