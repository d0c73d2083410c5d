# SPDX-License-Identifier: Apache-2.0
"""A collective that ranks join one after the other."""

from collections.abc import Callable, Collection

from hw.errors import UserError

from .handle import Handle

__all__ = ["Pending"]


class Pending:
    """
    Parameters
    ----------
    handle : Handle
    members : collection of int
        Ranks that must join, as :class:`.Ranks` represents them.
    represent : callable
        Rank -> its representative.
    begin : callable
        Called with each member that joins.
    """

    def __init__(self, handle: Handle, members: Collection[int], represent: Callable[[int], int],
                 begin: Callable[[int], object]) -> None:
        self.handle, self.members = handle, members
        self._missing, self._represent, self._begin = set(members), represent, begin

    def join(self, rank: int) -> None:
        """A rank, and those that it represents, takes part from now on.

        Raises
        ------
        UserError
            If it is no member, or has joined before.
        """
        member = self._represent(rank)
        if member not in self._missing:
            raise UserError(f"Rank {rank} cannot join a collective of which it is no member, or twice.")
        self._missing.discard(member)
        self._begin(member)
