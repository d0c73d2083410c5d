# SPDX-License-Identifier: Apache-2.0
"""Trigger counters: prepared work that starts when a number of events has occurred."""
