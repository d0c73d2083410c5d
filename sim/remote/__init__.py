# SPDX-License-Identifier: Apache-2.0
"""Machines for :mod:`dmace.remote`: a test double without clock cycles, and simulated endpoints."""
