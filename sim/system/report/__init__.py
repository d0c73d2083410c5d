# SPDX-License-Identifier: Apache-2.0
"""A training prediction as one HTML file: tables and plots, nothing loaded from elsewhere."""

from .page import write

__all__ = ["write"]
