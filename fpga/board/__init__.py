# SPDX-License-Identifier: Apache-2.0
"""Boards that are useful by themselves: engines, memory on the chip, and a host on a serial line."""
