# SPDX-License-Identifier: Apache-2.0
"""The runtime: a device, memory, queues and requests, over libdmace and so over every transport.

:mod:`.device` opens devices, :mod:`.memory` is what they reach, :mod:`.queue` moves data. :mod:`.binding` is libdmace
through ctypes, :mod:`.names` what can be opened, :mod:`.transport` how Python reaches a card, :mod:`.errors` the
exceptions.
"""
