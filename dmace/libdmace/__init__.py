# SPDX-License-Identifier: Apache-2.0
"""The host library in C, ``libdmace``: ``libdmace.h`` is its interface; :mod:`.build` compiles it."""
