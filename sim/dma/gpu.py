# SPDX-License-Identifier: Apache-2.0
"""The GPU's side in cocotb: stores to doorbells, and words in memory that threads poll."""

import logging
import random
from typing import Any, cast

from cocotb.triggers import Event, Lock
from cocotbext.axi import AxiBus, AxiMaster, AxiResp
from cocotbext.axi.axi_master import AxiWriteRespCmd

from hw.common.sizes import PAGE_BYTES
from hw.common.words import CompletionWord
from sim.memory import Stalls, Writes

__all__ = ["Doorbells", "Poller", "slots"]

SLOT_BYTES = 16


def slots(address: int, data: bytes, size: int = 4) -> list[tuple[bytes, int]]:
    """Data of a burst of ``2**size``-byte beats: ``(bytes of a 16-byte slot, strobes)`` of each beat."""
    beat = 1 << size
    found, position = [], 0
    while position < len(data):
        start = (address + position) % SLOT_BYTES
        length = min(beat - (address + position) % beat, len(data) - position)
        slot = bytearray(SLOT_BYTES)
        slot[start:start + length] = data[position:position + length]
        found.append((bytes(slot), ((1 << length) - 1) << start))
        position += length
    return found


class Doorbells:
    """Stores of GPU threads to ``s_axi_db``.

    Parameters
    ----------
    dut : handle
        Top with ports ``s_axi_db__*`` and ``clk``.
    stalls : str
        Of the address, data and response channels; see :class:`Stalls`.
    rng : :class:`random.Random`
        For random stalls.
    """

    def __init__(self, dut: Any, *, stalls: str = "none", rng: random.Random | None = None) -> None:
        logging.getLogger(f"cocotb.{dut._name}.s_axi_db").setLevel(logging.ERROR)
        self.master = AxiMaster(AxiBus.from_prefix(dut, "s_axi_db", bus_separator="__"), dut.clk)
        write = self.master.write_if
        self.stalls = Stalls(dut.clk, (write.aw_channel, write.w_channel, write.b_channel), stalls, rng)
        self._alone, self._stores, self._quiet = Lock(), 0, Event()
        self._stale, self._send = 0, write.w_channel.send
        write.w_channel.send = self._send_beat

    async def _send_beat(self, w: Any) -> None:
        """Bytes without a strobe are what the beat before left there."""
        kept = sum(0xFF << 8 * lane for lane in range(SLOT_BYTES) if not w.wstrb >> lane & 1)
        w.wdata = self._stale = w.wdata & ~kept | self._stale & kept
        await self._send(w)

    async def store(self, queue: int, data: bytes, *, offset: int = 0, size: int = 4) -> bool:
        """Store bytes to a queue's page in one burst; returns whether they were accepted."""
        async with self._alone:
            self._stores += 1
        try:
            written = await self.master.write(queue * PAGE_BYTES + offset, data, size=size)
        finally:
            self._stores -= 1
            self._quiet.set()
        return bool(written.resp == AxiResp.OKAY)

    async def store_nothing(self, queue: int) -> bool:
        """A store without any strobe, which a bridge may make of a masked one.

        Its beat goes past the manager's own order of bursts, so no other store is in flight meanwhile.
        """
        async with self._alone:
            while self._stores:
                self._quiet.clear()
                await self._quiet.wait()
            return await self._store_nothing(queue)

    async def _store_nothing(self, queue: int) -> bool:
        write, event = self.master.write_if, cast(Any, Event())
        identifier, address = write.id_count - 1, queue * PAGE_BYTES
        aw, w = write.aw_channel._transaction_obj(), write.w_channel._transaction_obj()
        aw.awid, aw.awaddr, aw.awlen, aw.awsize, aw.awburst, aw.awcache = identifier, address, 0, 4, 1, 0b0011
        w.wdata, w.wstrb, w.wlast = (1 << 128) - 1, 0, 1
        write.active_id[identifier] += 1
        write.in_flight_operations += 1
        await write.aw_channel.send(aw)
        await write.w_channel.send(w)
        write.tag_context_manager.start_cmd(
            identifier, AxiWriteRespCmd(address, 0, 4, 1, 0, [1], event))
        await event.wait()
        return bool(event.data.resp == AxiResp.OKAY)


class Poller:
    """Values of the completion words that threads observe.

    The words are read through the backdoor when they change; this costs no simulated bandwidth and sees every
    value, like a thread that polls continuously.
    """

    def __init__(self) -> None:
        self._positions: dict[int, tuple[int, str]] = {}
        self._seen: dict[tuple[int, str], CompletionWord] = {}
        self._changed: dict[int, Event] = {}

    def watch(self, queue: int, kind: str, address: int | None) -> None:
        """Look at the word ("sc" or "rc") of a queue at an address from now on, not at all if it is None."""
        for place, what in list(self._positions.items()):
            if what == (queue, kind):
                del self._positions[place]
        if address is not None:
            self._positions[address] = queue, kind

    def discard(self, queue: int) -> None:
        """Restart after RESET."""
        for kind in ("sc", "rc"):
            self._seen.pop((queue, kind), None)

    def take(self, writes: Writes) -> list[tuple[int, str, CompletionWord]]:
        """``(queue, kind, CompletionWord)`` of the writes that are to words."""
        found = []
        for address, data in writes:
            # Completion words are aligned and written whole; a part of one is of length 0 to us.
            if (what := self._positions.get(address)) and len(data) >= 8:
                word = CompletionWord.unpack(int.from_bytes(data[:8], "little"))
                self._seen[what] = word
                found.append((*what, word))
                self.changed(what[0]).set()
        return found

    def changed(self, queue: int) -> Event:
        """Event that is set when a word of the queue is written."""
        if queue not in self._changed:
            self._changed[queue] = Event()
        return self._changed[queue]

    def seen(self, queue: int, kind: str) -> CompletionWord:
        """Latest :class:`CompletionWord`, all zero before the first."""
        return self._seen.get((queue, kind), CompletionWord(0, 0, 0))

    def count(self, queue: int) -> int:
        """Requests of the queue that either word says have ended."""
        return max(self.seen(queue, kind).count for kind in ("sc", "rc"))
