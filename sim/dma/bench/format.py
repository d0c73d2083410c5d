"""How numbers look in the tables."""

__all__ = ["cycles"]


def cycles(value):
    return "-" if value is None else f"{value:,}"
