# SPDX-License-Identifier: Apache-2.0
"""The responder of reliable connections: requests of remote machines to local memory."""

from .responder import Responder

__all__ = ["Responder"]
