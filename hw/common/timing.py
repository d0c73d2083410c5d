# SPDX-License-Identifier: Apache-2.0
"""The base of both engines' timing options."""

from dataclasses import dataclass, fields
from typing import Self

__all__ = ["TimingOptions"]


@dataclass(frozen=True, kw_only=True)
class TimingOptions:
    """Cuts of critical paths, each a field of a subclass.

    An option that is on cuts the path that its field names, for the cycles and cells given there. Results do not depend
    on it. By default all are off: fewest cycles and cells, for FPGAs with fast LUTs and block RAM.
    """

    def __post_init__(self) -> None:
        for name in self.names():
            if not isinstance(value := getattr(self, name), bool):
                raise ValueError(f"Timing option {name} must be True or False, not {value!r}")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Names of the options, in the order of their declaration."""
        return tuple(option.name for option in fields(cls))

    @classmethod
    def all(cls) -> Self:
        """All cuts: for an ECP5 (4-input LUTs, and 5.6 ns from the clock to what block RAM has read), and for an
        UltraScale+ at 250 MHz."""
        return cls(**dict.fromkeys(cls.names(), True))
