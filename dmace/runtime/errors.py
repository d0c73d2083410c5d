# SPDX-License-Identifier: Apache-2.0
"""Exceptions of the runtime; each message is a sentence that names the value and the rule."""

from dmace.drivers.ace_states import Fault
from hw.ace.words import Status as AceStatus
from hw.dma_engine.words import Status
from hw.errors import UserError

__all__ = ["CollectiveFailed", "DmaceError", "RequestFailed", "RequestTimeout"]


class DmaceError(UserError):
    """A call has failed.

    Attributes
    ----------
    code : int
        The system's number of the error (errno), or 0.
    """

    status = 1

    def __init__(self, sentence: str, code: int = 0) -> None:
        super().__init__(sentence)
        self.code = code


class RequestFailed(DmaceError):
    """The device has completed a request with a failure.

    Attributes
    ----------
    result : :class:`hw.dma_engine.words.Status`
    number : int
        The request's number in its queue, from 1 on.
    """

    def __init__(self, sentence: str, result: Status, number: int) -> None:
        super().__init__(sentence)
        self.result, self.number = result, number


class CollectiveFailed(DmaceError):
    """A rank's accelerator has completed a collective with a failure.

    Attributes
    ----------
    result : :class:`hw.ace.words.Status`
    number : int
        Among the rank's collectives, from 1 on.
    fault : :class:`dmace.drivers.ace_states.Fault` or None
        What has ended the communicator, if it has ended.
    """

    def __init__(self, sentence: str, result: AceStatus, number: int, fault: Fault | None) -> None:
        super().__init__(sentence)
        self.result, self.number, self.fault = result, number, fault


class RequestTimeout(DmaceError, TimeoutError):
    """A request has not completed in time; it is still in progress."""
