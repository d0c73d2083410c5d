# SPDX-License-Identifier: Apache-2.0
"""Errors that a user can correct: the command line prints them as a sentence, without a traceback."""

__all__ = ["UserError"]


class UserError(Exception):
    """A user's request cannot be carried out; ``str()`` is one sentence that names the remedy."""

    #: Exit status of the command line.
    status = 2
