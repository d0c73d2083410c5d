# SPDX-License-Identifier: Apache-2.0
"""Computation fused with its communication on endpoints in RTL: the last workgroup that finishes a slice sends it."""
