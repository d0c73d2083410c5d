# SPDX-License-Identifier: Apache-2.0
"""The DMA engine's side of the bench for the requester: bursts and their data."""

from dataclasses import dataclass, field

from hw.axi import Resp
from hw.rdma.config import remote_memory
from tests.rdma.remote_memory import PAGE, Remote, pieces

__all__ = ["Burst", "DmaSide"]


@dataclass
class Burst:
    """A burst, the bytes that it must move, and the ones that it did.

    ``data``: bytes of the peer's memory from ``offset``, for a write; ``expects``: beats of a read.
    """

    id: int
    remote: Remote
    offset: int
    resp: Resp
    data: bytes = field(default=b"", repr=False)
    cuts: list = field(default_factory=list)
    done: int = 0
    failed: bool = False
    beats: int = 0


class DmaSide:
    """Bursts of a RequesterBench."""

    def write(self, burst_id, remote, offset, size, *, resp=Resp.OKAY, lead=0, trail=0, gap=None, number=None):
        """A burst of ``size`` bytes from ``offset``, of which ``lead`` beats at the start, ``trail`` at the end, and
        beat ``gap`` have no strobes."""
        beat_bytes = self.config.beat_bytes
        first, beats = offset // beat_bytes, (offset + size - 1) // beat_bytes - offset // beat_bytes + 1
        assert burst_id not in self.writes and beats <= 256 and offset // PAGE == (offset + size - 1) // PAGE
        content, kept, data = self.rng.randbytes(beats * beat_bytes), [], b""
        for index in range(beats):
            low = offset % beat_bytes if index == 0 else 0
            high = (offset + size - 1) % beat_bytes if index == beats - 1 else beat_bytes - 1
            strobes = 0
            if lead <= index < beats - trail and index != gap:
                strobes = (1 << high + 1) - (1 << low)
                kept.append((first + index) * beat_bytes + low)
                data += content[index * beat_bytes + low:index * beat_bytes + high + 1]
            self.sources["writes"].put({
                "id": burst_id, "addr": remote_memory(remote.number if number is None else number, offset),
                "len": beats - 1, "data": int.from_bytes(content[index * beat_bytes:][:beat_bytes], "little"),
                "strb": strobes, "first": index == 0, "last": index == beats - 1}, ("write", burst_id, index))
        burst = Burst(burst_id, remote, kept[0] if kept else offset, resp)
        if resp == Resp.OKAY and kept:
            burst.data = data
            burst.cuts = pieces(burst.offset, len(data), self.mtu[remote.qp],
                                from_start=burst.offset % beat_bytes == 0 and not self.selective[remote.qp])
        self.writes[burst_id] = burst

    def read(self, burst_id, remote, offset, beats, *, resp=Resp.OKAY, number=None):
        """A burst of ``beats`` beats from the byte at ``offset``."""
        assert burst_id not in self.reads
        beat_bytes = self.config.beat_bytes
        self.sources["reads"].put({
            "id": burst_id, "addr": remote_memory(remote.number if number is None else number, offset),
            "len": beats - 1}, ("read", burst_id))
        end = (offset // beat_bytes + beats) * beat_bytes
        burst = Burst(burst_id, remote, offset, resp)
        if resp == Resp.OKAY:
            clipped = min(end, remote.length)
            data = remote.memory.read(offset, clipped - offset)
            burst.data = bytes(offset % beat_bytes) + data + bytes(end - clipped)
            burst.cuts = pieces(offset, len(data), self.mtu[remote.qp], from_start=False)
        burst.beats = beats
        self.reads[burst_id] = burst

    def _respond(self, item):
        fields = self.sinks["responses"].fields
        burst = self.writes.pop(fields.unpack(item, "id"))
        self.times["responses"].append(self.cycle - 1)
        resp = Resp(fields.unpack(item, "resp"))
        if burst.resp == Resp.OKAY and burst.remote.qp in self.failed and resp != Resp.OKAY:
            assert resp == Resp.SLVERR and burst.cuts
            self.seen["failed burst"] += 1
            return
        assert resp == burst.resp, f"burst {burst} has {resp!r}"
        assert burst.done == len(burst.cuts)
        if resp == Resp.OKAY:
            assert burst.remote.memory.read(burst.offset, len(burst.data)) == burst.data
        self.seen[f"write {resp.name}"] += 1

    def _deliver(self, item):
        fields = self.sinks["beats"].fields
        burst = self.reads[fields.unpack(item, "id")]
        resp, beat = Resp(fields.unpack(item, "resp")), self.config.beat_bytes
        if resp == Resp.OKAY:
            assert burst.resp == Resp.OKAY
            assert fields.unpack(item, "data").to_bytes(beat, "little") == burst.data[burst.done * beat:][:beat]
        elif burst.resp == Resp.OKAY:
            assert burst.remote.qp in self.failed and resp == Resp.SLVERR
            burst.failed = True
            self.errors += 1
        else:
            assert resp == burst.resp
        burst.done += 1
        self.times["beats"].append(self.cycle - 1)
        assert fields.unpack(item, "last") == (burst.done == burst.beats)
        if burst.done == burst.beats:
            del self.reads[burst.id]
            self.seen["failed read" if burst.failed else f"read {resp.name}"] += 1
