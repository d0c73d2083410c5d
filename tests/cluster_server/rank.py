# SPDX-License-Identifier: Apache-2.0
"""The process of one rank, without PyTorch: ``python -m tests.cluster_server.rank SOCKET RANK SIZE SCENARIO``.

It prints a JSON object, or an error's sentence and exits with 3.
"""

import json
import os
import signal
import sys
import threading
import time

import numpy as np

from dmace.cluster_client.client import ClusterClient
from dmace.cluster_client.protocol import Extents
from dmace.runtime.errors import DmaceError

START = 300.0


class Rank:
    """Blocking collectives on a client."""

    def __init__(self, path, rank, size, group=None, timeout=60.0):
        self.client = ClusterClient(path, rank, size, timeout=START)
        self.rank, self.size, self.timeout = rank, size, timeout
        self.group = list(range(size)) if group is None else group
        self.client.open_group(self.name, self.group)

    @property
    def name(self):
        return "-".join(map(str, self.group))

    def run(self, collective, data, received, **options):
        """The receive buffer of a collective, and its :class:`Result`."""
        send = self.client.memory.allocate(data.nbytes, self.timeout)
        receive = self.client.memory.allocate(received * data.itemsize, self.timeout)
        np.frombuffer(self.client.memory.bytes, data.dtype, len(data), send)[:] = data
        found, done = [], threading.Event()

        def completed(result):
            found.append(result)
            done.set()

        options = {"dtype": "FP32", "count": len(data), "group": self.name, "timeout": self.timeout, "send": send,
                   "receive": receive} | options
        self.client.post(completed, collective=collective, **options)
        done.wait()
        if isinstance(found[0], DmaceError):
            raise found[0]
        output = np.frombuffer(self.client.memory.bytes, data.dtype, received, receive).copy()
        self.client.memory.release(send)
        self.client.memory.release(receive)
        return output, found[0]


def values(rank, count):
    return np.random.default_rng(rank).standard_normal(count).astype(np.float32)


def all_reduce(path, rank, size):
    """Also the cycles."""
    one = Rank(path, rank, size)
    output, result = one.run("ALL_REDUCE", values(rank, 1000), 1000, ordered=True)
    again, _ = one.run("ALL_REDUCE", values(rank, 1000), 1000, ordered=True)
    free, _ = one.run("ALL_REDUCE", values(rank, 1000), 1000)
    one.client.close()
    return {"output": output.tobytes().hex(), "same": bool((again == output).all()), "cycles": result.cycles,
            "free": free.tolist(), "payload": result.payload_bytes, "lost": result.lost_packets}


def uneven(path, rank, size):
    """Rank i sends i + j elements to rank j."""
    one = Rank(path, rank, size)
    counts = [rank + other for other in range(size)]
    places = [sum(counts[:other]) for other in range(size)]
    parts = list(zip(counts, places, strict=True))
    data = np.concatenate([np.full(counts[other], 10 * rank + other, np.float32) for other in range(size)])
    output, _ = one.run("ALL_TO_ALL", data, sum(counts), extents=Extents(parts, parts))
    one.client.close()
    return {"output": output.tolist()}


def rows(path, rank, size):
    """Sums in the rows of a 2x2 torus."""
    one = Rank(path, rank, size, [0, 1] if rank < 2 else [2, 3])
    output, _ = one.run("ALL_REDUCE", np.full(10, 1.0 + rank, np.float32), 10)
    one.client.close()
    return {"output": output.tolist()}


def diagonal(path, rank, size):
    Rank(path, rank, size, [0, 3])


def disagree(path, rank, size):
    Rank(path, rank, size).run("ALL_REDUCE", values(rank, 100 + rank % 2), 101)


def outside(path, rank, size):
    """A buffer beyond the rank's memory."""
    one = Rank(path, rank, size)
    one.run("ALL_REDUCE", values(rank, 1000), 1000, send=one.client.memory.size - 4)


def late(path, rank, size):
    """Rank 0 posts nothing."""
    one = Rank(path, rank, size, timeout=2.0)
    if rank == 0:
        time.sleep(4)
    one.run("ALL_REDUCE", values(rank, 1000), 1000)


def killed(path, rank, size):
    """Rank 1 is killed at some time; the others report the seconds from then to their errors."""
    one = Rank(path, rank, size, timeout=30.0)
    if rank == 1:
        threading.Timer(float(os.environ["KILL_AFTER"]), os.kill, (os.getpid(), signal.SIGKILL)).start()
    begin = time.monotonic()
    try:
        while True:
            one.run("ALL_REDUCE", values(rank, 3000), 3000)
    except DmaceError as error:
        return {"error": str(error), "seconds": time.monotonic() - begin}


def again(path, rank, size):
    """Three sessions; ranks begin the next one while others have not left the last one."""
    for _ in range(3):
        one = Rank(path, rank, size)
        output, _ = one.run("ALL_REDUCE", np.full(10, 1.0 + rank, np.float32), 10)
        time.sleep(0.1 * rank)
        one.client.close()
    return output.tolist()


def leaves(path, rank, size):
    """Rank 2 leaves while ranks 0 and 1 wait for it; rank 3 posts later, when rank 0 may have ended."""
    one = Rank(path, rank, size, timeout=10.0)
    one.run("BARRIER", np.zeros(0, np.float32), 0, count=0, dtype="INT8")
    time.sleep({2: 0.5, 3: 1.5}.get(rank, 0))
    if rank == 2:
        one.client.close()
        return {"error": None}
    try:
        one.run("ALL_REDUCE", values(rank, 100), 100)
    except DmaceError as error:
        return {"error": str(error)}


def main(path, rank, size, scenario):
    try:
        print(json.dumps(globals()[scenario](path, int(rank), int(size))))
    except DmaceError as error:
        print(json.dumps(str(error)))
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
