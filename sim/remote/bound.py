# SPDX-License-Identifier: Apache-2.0
"""Least cycles of a tensor by each mechanism: its frames on the line, round trips, and latencies of memories.

The endpoints themselves take no time, and software polls at every moment. READs and WRITEs are cut into packets of the
DMA engine's segments, or of the path MTU if it is shorter.
"""

from collections.abc import Sequence
from typing import NamedTuple

from dmace.remote.header import HEADER_BYTES
from dmace.remote.local import FLAG_BYTES
from dmace.remote.rpc import FRAGMENT_BYTES, PAYLOAD_OFFSET, SLOTS
from hw.rdma import protocol
from sim.rdma.wire import HEADER_BYTES as FRAME_HEADER_BYTES
from sim.rdma.wire import LINE_BYTES, frame_bytes, network_cycles

from .ethernet import Ethernet

__all__ = ["Bound", "latency_bound", "rate_bound"]


class Bound(NamedTuple):
    """Least cycles, and what ``binds``: the line, the receiver's memory bus, or round trips."""

    cycles: float
    binds: str


class _Path:
    """Times between two machines of a setting."""

    def __init__(self, setting: Ethernet) -> None:
        unit = setting.endpoint.rdma
        assert unit is not None
        self.setting, self.memory, self.beat = setting, setting.memory_latency, unit.beat_bytes
        self._packet = min(setting.endpoint.dma.segment_bytes, unit.max_mtu)

    def frames(self, size: int, *, write: bool = True) -> list[int]:
        """Bytes of the frames of a transfer whose ends are aligned."""
        whole, rest = divmod(size, self._packet)
        return [frame_bytes(payload, write=write) for payload in [self._packet] * whole + [rest] * (rest > 0)]

    def line_bytes(self, frames: Sequence[int]) -> int:
        return sum(frames) + LINE_BYTES * len(frames)

    def network(self, frames: Sequence[int]) -> float:
        """From the first byte at one end to the last at the other one."""
        return network_cycles(self.line_bytes(frames), frames[-1], self.setting.rate, self.setting.line_latency)

    def flag(self) -> float:
        """A signal, until it is in the other machine's memory."""
        return self.network(self.frames(FLAG_BYTES)) + self.memory

    def written(self, size: int) -> float:
        """WRITEs and a flag behind them: memory is read, memory is written, an acknowledgement returns, the flag."""
        if not size:
            return self.flag()
        acknowledged = self.network([FRAME_HEADER_BYTES + protocol.AETH_BYTES])
        return self.memory + self.network(self.frames(size)) + self.memory + acknowledged + self.flag()

    def read(self, size: int) -> float:
        """READs, until the data is in local memory."""
        if not size:
            return 0.0
        requested = self.network([FRAME_HEADER_BYTES + protocol.RETH_BYTES])
        return requested + self.memory + self.network(self.frames(size, write=False)) + self.memory

    def copied(self, size: int) -> float:
        """A copy within a memory."""
        return 2 * self.memory + size / self.beat


def _fragments(size: int) -> list[int]:
    """Bytes of the messages of a tensor, each behind its header."""
    parts = [min(FRAGMENT_BYTES, size - begin) for begin in range(0, size, FRAGMENT_BYTES)] or [0]
    return [PAYLOAD_OFFSET + part for part in parts]


def latency_bound(setting: Ethernet, mechanism: str, size: int) -> Bound:
    """From the start of a send until the receiver may use the tensor."""
    path = _Path(setting)
    if mechanism == "static":
        return Bound(path.written(size), "round trips")
    if mechanism == "dynamic":
        return Bound(path.written(HEADER_BYTES) + path.read(size), "round trips")
    messages = _fragments(size)
    ends = path.copied(messages[0] - PAYLOAD_OFFSET), path.copied(messages[-1] - PAYLOAD_OFFSET)
    # Behind the first message the line has all others and their flags, and memory is written twice for each.
    frames = path.line_bytes([frame for message in messages[1:] for part in (message, FLAG_BYTES)
                              for frame in path.frames(part)]) / setting.rate
    written = (sum(messages[1:]) + sum(messages[1:-1]) - PAYLOAD_OFFSET * len(messages[1:-1])) / path.beat
    once = ends[0] + path.written(messages[0]) + ends[1]
    # Message n + SLOTS waits until message n has been copied out, and that has been signalled.
    round_trip = path.copied(FRAGMENT_BYTES) * 2 + path.written(PAYLOAD_OFFSET + FRAGMENT_BYTES) + path.flag()
    windows = (len(messages) - 1) // SLOTS * round_trip + ends[1] + path.written(messages[-1]) + ends[1]
    return max(Bound(once + frames, "line"), Bound(once + written, "bus"), Bound(windows, "round trips"))


def rate_bound(setting: Ethernet, mechanism: str, size: int, depth: int) -> Bound:
    """Between two of many tensors, of which ``depth`` are in flight."""
    path = _Path(setting)
    flag, bus = path.frames(FLAG_BYTES), 0.0
    # The next tensor of a connection waits until the receiver has released this one, and has signalled that.
    chain = latency_bound(setting, mechanism, size).cycles + path.flag()
    if mechanism == "static":
        frames = path.frames(size) + flag
    elif mechanism == "dynamic":
        frames = path.frames(HEADER_BYTES) + flag + path.frames(size, write=False)
    else:
        messages = _fragments(size)
        frames = [frame for message in messages for frame in path.frames(message) + flag]
        # The receiver's memory is written by the network, and by the copy out of the message buffer.
        bus = (sum(messages) + size) / path.beat
        # The next tensor waits until this one is in the ring.
        chain -= path.flag() + path.copied(messages[-1] - PAYLOAD_OFFSET)
    return max(Bound(path.line_bytes(frames) / setting.rate, "line"), Bound(bus, "bus"),
               Bound(chain / depth, "round trips"))
