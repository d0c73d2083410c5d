# SPDX-License-Identifier: Apache-2.0
"""Ethernet frames of RoCEv2: headers, checksums, ICRC."""
