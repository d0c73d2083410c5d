# SPDX-License-Identifier: Apache-2.0
"""The trigger unit under Verilator, compared with the golden model."""
