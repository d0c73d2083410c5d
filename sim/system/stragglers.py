# SPDX-License-Identifier: Apache-2.0
"""Ranks that are slower than others: one by a factor, all by chance."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from hw.errors import UserError

from .parts import check

__all__ = ["Stragglers"]


@dataclass(frozen=True, kw_only=True)
class Stragglers:
    """
    Parameters
    ----------
    rank : int or None
        The slow rank; None for none.
    compute, link : float
        Factor, 1 or more, by which its computations take longer, and by which its links are slower: of a ring those
        on which it sends, of a switch its link in both directions.
    jitter : float
        Each computation of each rank takes ``1 + jitter * x`` times as long, with x from an exponential distribution
        of mean 1. So the slowest of N ranks is expected to need ``1 + jitter * (1 + 1/2 + ... + 1/N)``.
    seed : int
        Random seed of the jitter; equal ones give equal runs.
    """

    rank: int | None = None
    compute: float = 1.0
    link: float = 1.0
    jitter: float = 0.0
    seed: int = 1

    def __post_init__(self) -> None:
        check("stragglers", self, "rank", "compute", "link", "jitter", "seed")
        if self.rank is None and not self.compute == self.link == 1:
            raise UserError("stragglers.compute and stragglers.link are of stragglers.rank, which must not be none "
                            f"where they are {self.compute:g} and {self.link:g}.")

    @property
    def any(self) -> bool:
        """Ranks differ."""
        return self.rank is not None or self.jitter > 0

    def link_factor(self, rank: int) -> float:
        """By which the links of a rank are slower."""
        return self.link if rank == self.rank else 1.0

    def compute_factors(self, rank: int) -> Iterator[float]:
        """By which the computations of a rank take longer, one after the other."""
        random = Random(f"{self.seed}/{rank}")
        fixed = self.compute if rank == self.rank else 1.0
        while True:
            yield fixed * (1 + self.jitter * random.expovariate(1.0)) if self.jitter else fixed
