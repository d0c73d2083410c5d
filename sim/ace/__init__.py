# SPDX-License-Identifier: Apache-2.0
"""Simulation of the collectives accelerator."""
