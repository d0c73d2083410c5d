# SPDX-License-Identifier: Apache-2.0
"""Components and definitions of both engines: tables and their sweep after reset, doorbells, regions; words, widths and
C-header lines that software shares."""
