# SPDX-License-Identifier: Apache-2.0
"""A rank's side of a cluster of accelerators in another process: :mod:`dmace.torch` uses it.

The other side is ``sim.cluster_server``, started with ``dmace cluster`` or by :mod:`~.launch`. Control messages travel
over a Unix socket (:mod:`~.protocol`); data is in the rank's simulated memory, which both processes map
(:mod:`~.memory`).
"""
