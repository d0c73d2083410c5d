# SPDX-License-Identifier: Apache-2.0
"""The Verilated card as a PCI function of a host: behind a vfio-user server for QEMU, or as a transport of libdmace in
the same process.

``server.h`` turns messages into accesses of a ``Device`` (``device.h``); ``card_device.h`` is the card at the level of
TLPs. ``config_space.h`` is its configuration space, ``memory_map.h`` the memory that it may reach. ``transport.cpp`` is
the library.
"""
