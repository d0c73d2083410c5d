# SPDX-License-Identifier: Apache-2.0
"""The simulated card in a virtual machine: an unmodified QEMU, a stock Linux kernel, and programs that use libdmace.

``python -m sim.linux`` runs all of it; see docs/linux.md.
"""
