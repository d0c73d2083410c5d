# SPDX-License-Identifier: Apache-2.0
"""Payloads that both engines share."""

from amaranth.lib import data

from .words import COMPLETION_FIELDS

__all__ = ["Attributes", "CompletionLayout"]

CompletionLayout = data.StructLayout(dict(COMPLETION_FIELDS))
"""An SC or RC word."""


class Attributes(data.Struct):
    """Attributes of a burst: AxCACHE, AxPROT, AxQOS."""

    cache: 4
    prot: 3
    qos: 4
