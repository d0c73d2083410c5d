# SPDX-License-Identifier: Apache-2.0
"""Interrupts as MSI-X messages.

::

    software -> MsixTable <-> MessageSender -> write path
    requests ---------------->    ^-> Moderation
"""

from .msix import Msix

__all__ = ["Msix"]
