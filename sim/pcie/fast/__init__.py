# SPDX-License-Identifier: Apache-2.0
"""The fast path for PCIe: a Verilated card between links, GPUs and host in C++, at the level of TLPs.

``main.cpp`` is the program. ``bench.h`` measures copies, ``soak.h`` is the long random run, with ``tenants.h`` for the
queues and ``judge.h`` for the checks. ``system.h`` has switch, host and GPUs, ``link.h`` the links, ``completer.h`` the
memories, ``hard_block.h`` the card and its hard block, ``streams.h`` the four packet interfaces, ``rules.h`` the rules
of requests. Fields and sizes come from the generated ``card.h``, registers and words from ``dmace.h``.
"""

from .harness import CardHarness, Plant, build_card

__all__ = ["CardHarness", "Plant", "build_card"]
