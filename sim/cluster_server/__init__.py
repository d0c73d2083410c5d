# SPDX-License-Identifier: Apache-2.0
"""A cluster of accelerators in RTL in a process of its own, for ranks in other processes: ``dmace cluster``.

The ranks' side is :mod:`dmace.cluster_client`, whose ``protocol`` describes the messages. Here, :mod:`~.server` reads
and writes them, :mod:`~.groups` matches the commands of ranks, and :mod:`~.accelerators` runs matched ones in RTL.
"""
