# SPDX-License-Identifier: Apache-2.0
"""PyTorch's collectives on the collectives accelerator: the backend ``dmace`` of ``torch.distributed``.

::

    import dmace.torch
    torch.distributed.init_process_group("dmace", pg_options=dmace.torch.Options(rank_order=True))

Importing this module registers the backend for CPU tensors. :mod:`~.process_group` has the collectives,
:mod:`~.buffers` brings tensors into the rank's simulated memory and back, :mod:`~.session` connects the process to the
cluster, which is the process of :mod:`dmace.cluster_client`'s other side. See docs/torch.md.
"""

from torch.distributed import Backend

from dmace.runtime.errors import DmaceError

from .options import Options
from .process_group import ProcessGroup, create
from .stats import Record, Stats, reset_stats, stats
from .trace import write_trace

__all__ = ["DmaceError", "Options", "ProcessGroup", "Record", "Stats", "reset_stats", "stats", "write_trace"]

Backend.register_backend("dmace", create, extended_api=True, devices=["cpu"])
