# SPDX-License-Identifier: Apache-2.0
"""Start the process of a cluster, for ranks that find none."""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .protocol import listen

__all__ = ["Settings", "start_cluster"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A cluster, with the options of ``dmace cluster``, whose help describes them."""

    nodes: tuple[int, ...]
    config: str = "tiny"
    link_latency: int = 20
    link_rate: float = 0
    latency: int = 100
    faults: str | None = None
    seed: int = 1
    memory: int = 256
    puts: bool = False

    def arguments(self) -> list[str]:
        """The command's arguments."""
        given = {"nodes": "x".join(map(str, self.nodes)), "config": self.config, "link-latency": self.link_latency,
                 "link-rate": self.link_rate, "latency": self.latency, "faults": self.faults, "seed": self.seed,
                 "memory": self.memory}
        return [*(f"--{name}={value}" for name, value in given.items() if value is not None),
                *(["--puts"] if self.puts else [])]


def start_cluster(settings: Settings) -> tuple[subprocess.Popen[bytes], Path]:
    """Start a cluster for one session; its process and the path of its socket.

    It listens already. It ends when all ranks have left, or been killed; until then it is independent of this process.
    The caller removes the socket's folder when all ranks have connected.
    """
    folder = Path(tempfile.mkdtemp(prefix="dmace-"))
    path = folder / "cluster"
    with listen(str(path)) as listener:
        descriptor = listener.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", "dmace", "cluster", f"--descriptor={descriptor}", *settings.arguments()],
            pass_fds=[descriptor], stdin=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    return process, path
