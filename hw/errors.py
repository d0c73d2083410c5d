# SPDX-License-Identifier: Apache-2.0
"""Errors that a user can mend: the command line prints them as a sentence, without a traceback."""

__all__ = ["UserError"]


class UserError(Exception):
    """Something the user asked for cannot be done; ``str()`` is one sentence that says what to do instead."""

    #: Exit status of the command line.
    status = 2
