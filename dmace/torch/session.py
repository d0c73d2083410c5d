# SPDX-License-Identifier: Apache-2.0
"""This process's connection to a cluster, shared by its process groups."""

import atexit
import shutil
import threading
from collections.abc import Sequence
from typing import Any

from dmace.cluster_client.client import ClusterClient
from dmace.cluster_client.launch import start_cluster
from dmace.runtime.errors import DmaceError

from .options import Options

__all__ = ["Session", "join_session"]

_KEY = "dmace/cluster"


class Session:
    """A connection to a cluster.

    Parameters
    ----------
    store : torch.distributed.Store
        Of the first process group, by which rank 0 passes the socket's path to the others.
    rank, size : int
        In the first process group, whose ranks are those of the cluster.
    ranks : sequence of int
        Global ranks of the first process group.
    options : :class:`Options`
    """

    def __init__(self, store: Any, rank: int, size: int, ranks: Sequence[int], options: Options) -> None:
        self.options, self.ranks = options, list(ranks)
        folder = None
        if options.socket:
            path = options.socket
        elif rank == 0:
            process, socket = start_cluster(options.settings(size))
            folder, path = socket.parent, str(socket)
            threading.Thread(target=process.wait, name="dmace cluster", daemon=True).start()
            store.set(_KEY, path)
        else:
            path = store.get(_KEY).decode()
        try:
            self.client = ClusterClient(path, rank, size, timeout=options.start_timeout)
        finally:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        self._groups = 0
        # The interpreter must not end while the client's thread is within PyTorch: the process would be aborted.
        atexit.register(self._stop)

    def _stop(self) -> None:
        self.client.close(leave=False)

    def open_group(self, name: str, ranks: Sequence[int]) -> int:
        """Open a group of global ranks, and return the number of its communicator."""
        unknown = [rank for rank in ranks if rank not in self.ranks]
        if unknown:
            raise DmaceError(f"Rank {unknown[0]} is not connected to the cluster, which has the ranks "
                             f"{', '.join(map(str, self.ranks))} of the first group of the backend dmace.")
        return self.client.open_group(name, [self.ranks.index(rank) for rank in ranks])

    def hold(self) -> None:
        self._groups += 1

    def release(self) -> None:
        """Leave the cluster with the last group."""
        global _session
        self._groups -= 1
        if not self._groups:
            self.client.close()
            atexit.unregister(self._stop)
            if _session is self:
                _session = None


_session: Session | None = None


def join_session(store: Any, rank: int, size: int, ranks: Sequence[int], options: Options | None) -> Session:
    """The session of this process, which the first group begins."""
    global _session
    if _session is None:
        _session = Session(store, rank, size, ranks, options or Options.from_environment())
    elif options is not None and options != _session.options:
        raise DmaceError("All groups of a process have the options of the first one of the backend dmace.")
    return _session
