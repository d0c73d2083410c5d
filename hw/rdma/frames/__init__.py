# SPDX-License-Identifier: Apache-2.0
"""Ethernet frames of RoCEv2: built, checked and taken apart, and dispatched by queue pair."""
