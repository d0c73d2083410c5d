# SPDX-License-Identifier: Apache-2.0
"""The completer: requests of other PCIe functions to the endpoint's registers and doorbells.

::

    cq -> RequestFilter -> RequestSplit -+-> DoorbellWriter -> doorbells (BAR 2)
                                         +-> RegisterAccess <-> registers (BAR 0)
                                                   +-> CompletionPacker -> cc
"""

from .completer import Completer

__all__ = ["Completer"]
