# SPDX-License-Identifier: Apache-2.0
"""The card: an endpoint behind the PCIe adapter. See :mod:`hw.endpoint` and :mod:`hw.pcie`."""

__all__ = ["PRESET_NAMES"]

PRESET_NAMES = ("tiny", "base", "wide", "card")
"""Keys of ``hw.card.config.PRESETS``, without the time to import it."""
