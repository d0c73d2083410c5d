# SPDX-License-Identifier: Apache-2.0
"""Execution traces of MLCommons Chakra, read and written as a :class:`~sim.system.graph.Graph`.

A trace of a rank is a file of messages, each after its length: metadata, then nodes. Traces for ASTRA-sim are files
``PREFIX.0.et``, ``PREFIX.1.et``, ..., one for each rank; here all ranks do the same, so each is as the others.

===================  ============================================================================================
node                 what is said
===================  ============================================================================================
compute              COMP; ``duration_micros``, and in attributes ``duration_ns`` (exact), ``num_ops`` and
                     ``tensor_size``; with ``roofline`` these two say how long it takes; with ``is_cpu_op`` it is a
                     delay, which does not take the processor
collective           COMM_COLL; attributes ``comm_type``, ``comm_size``, ``comm_priority``, ``comm_group``;
                     ``involved_dim`` is read too
===================

Sizes are as :class:`~sim.system.workloads.Exchange` has them. ``ctrl_deps`` is the compute before, ``data_deps`` all
else that must have ended.
"""

from .read import read
from .write import write

__all__ = ["read", "write"]
