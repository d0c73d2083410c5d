# SPDX-License-Identifier: Apache-2.0
"""Register-level driver of the DMA engine: what a kernel driver does, over any bus.

The names and bits come from the register map. Nothing here knows about simulation: a bus is a
:class:`dmace.drivers.registers.Bus`.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import NamedTuple

from dmace.drivers.registers import Bus, Lock, RegisterDriver
from hw.common.sizes import ADDR_WIDTH, PAGE_BYTES, SMALL_PAGE_BITS
from hw.dma_engine.config import HISTOGRAM_BINS, DmaConfig
from hw.dma_engine.descriptors import RingLocation
from hw.dma_engine.queue_settings import QUEUE_REGISTERS, Setter, check_queue_settings, setting_fields
from hw.dma_engine.registers import register_map
from hw.dma_engine.words import Command, QueueMode, Status
from hw.regs import REGISTER_WIDTH

__all__ = ["DmaDriver", "LogRecord", "QueueCounters", "QueueState"]


class QueueState(NamedTuple):
    """QUEUE_STATE, QUEUE_COUNT and QUEUE_RESULT of a queue."""

    enabled: int
    running: int
    held: int
    refusing: int
    resetting: int
    waiting: int
    in_flight: int
    count: int      # type: ignore[assignment]  # hides tuple.count, which is never used
    failed: int
    status: int


class LogRecord(NamedTuple):
    """An entry of the error log."""

    queue: int
    status: Status
    count: int      # type: ignore[assignment]  # hides tuple.count, which is never used


class QueueCounters(NamedTuple):
    """The SNAPSHOT registers of a queue."""

    requests: int
    failed: int
    bytes: int
    segments: int
    stalls: int


class DmaDriver(RegisterDriver):
    """Drives one engine.

    Parameters
    ----------
    bus : :class:`Bus`
        Access to the registers.
    config : :class:`DmaConfig`
        The engine's sizes.
    lock : callable returning an async context manager, optional
        Held around sequences of accesses that belong together, where several tasks use the driver.
    """

    def __init__(self, bus: Bus, config: DmaConfig, *, lock: Lock = nullcontext) -> None:
        super().__init__(bus, register_map(config), lock=lock)
        self.config = config

    async def check_identity(self) -> None:
        """Raise RuntimeError unless this is an engine that the driver knows, of the expected sizes."""
        await self._check_identity("SIZES", "SIZES_2")

    # Tables

    async def define_region(self, number: int, *, base: int, length: int, domain: int = 0, readable: bool = True,
                            writable: bool = True, valid: bool = True, cache: int = 0, prot: int = 0, qos: int = 0,
                            paged: bool = False, large: bool = False, first_page: int = 0) -> None:
        """Write an entry of the region table; in a paged region, ``base`` does not count."""
        if base % PAGE_BYTES:
            raise ValueError(f"Base of a region must be a multiple of {PAGE_BYTES}, not {base:#x}")
        if not paged and base + length > 1 << ADDR_WIDTH:
            raise ValueError(f"A region must be within {ADDR_WIDTH} bits of address, not end at {base + length:#x}")
        async with self._lock():
            await self._write_pair("REGION_BASE", base)
            await self._write_pair("REGION_LENGTH", length)
            await self.write("REGION_ACCESS", domain=domain, readable=int(readable), writable=int(writable),
                             valid=int(valid))
            await self.write("REGION_ATTRIBUTES", cache=cache, prot=prot, qos=qos)
            await self.write("REGION_PAGES", paged=int(paged), large=int(large), first=first_page)
            await self.write("REGION_COMMIT", region=number)

    async def define_page(self, number: int, frame: int | None) -> None:
        """Write an entry of the page table: the page's address, or None where there is no page."""
        if (frame or 0) % (1 << SMALL_PAGE_BITS):
            raise ValueError(f"Address of a page must be a multiple of {1 << SMALL_PAGE_BITS}, not {frame:#x}")
        async with self._lock():
            await self._write_pair("PAGE_FRAME", frame or 0)
            await self.write("PAGE_COMMIT", page=number, present=int(frame is not None))

    async def quiesce(self) -> None:
        """Wait until everything has ended that was scheduled before now; nothing is kept from being scheduled."""
        await self.write("QUIESCE", start=1)
        while (await self.read("QUIESCE"))["busy"]:
            pass

    async def define_connection(self, number: int, *, base: int, rc: int, domain: int = 0, valid: bool = True) -> None:
        """Write an entry of the connection table: the region of segment 0, and the address of the RC array."""
        async with self._lock():
            await self._write_pair("CONNECTION_RC", rc)
            await self.write("CONNECTION_CONFIG", base=base, domain=domain, valid=int(valid))
            await self.write("CONNECTION_COMMIT", connection=number)

    async def configure_queue(self, queue: int, *, sc: int | None = None, rc: int | None = None, ark: int | None = None,
                              ring: RingLocation | None = None, **settings: int) -> None:
        """Configure a queue.

        Parameters
        ----------
        sc, rc : int or None
            Addresses of its completion words, None for no such word. With ``ark``, ``sc`` is the address of its SC
            array.
        ark : int or None
            The region of its segment 0: the queue is in ARK mode.
        ring : :class:`RingLocation` or None
            The descriptor ring that drives it. The engine refuses one with ``pair`` if the other queue of the pair,
            2n and 2n + 1, has a ring, and one beside such a ring.
        settings
            Those of :data:`~hw.dma_engine.queue_settings.QUEUE_SETTINGS` with a keyword, for instance ``domain``,
            ``skip_errors``, ``target``, ``limit``, ``priority`` and ``weight``. A setting that is not given has its
            reset value.
        """
        mode = QueueMode.RING if ring is not None else QueueMode.ARK if ark is not None else QueueMode.NATIVE
        values = check_queue_settings(self.config, settings) | {
            "sc": sc or 0, "sc_enable": int(sc is not None), "rc": rc or 0, "rc_enable": int(rc is not None),
            "mode": int(mode)}
        async with self._lock():
            if ark is not None:
                await self._stage(Setter.ARK, {"ark_base": ark})
            if ring is not None:
                await self._stage(Setter.RING, {
                    "ring_base": ring.base, "ring_records": ring.records or 0, "ring_size": ring.size,
                    "ring_has_records": int(ring.records is not None), "ring_pair": int(ring.pair)})
            await self._stage(None, values)
            await self.write("QUEUE_COMMIT", queue=queue)

    async def _stage(self, only: Setter | None, values: Mapping[str, int]) -> None:
        """Write the staging registers of the settings with this setter, or of those that every queue has."""
        for register in QUEUE_REGISTERS:
            settings = setting_fields(register)
            if only is not (settings[0].setter if settings[0].setter in (Setter.ARK, Setter.RING) else None):
                continue
            if settings[0].bits(self.config) > REGISTER_WIDTH:
                await self._write_pair(register, values[settings[0].name])
            else:
                await self.write(register, **{setting.field: values[setting.name] for setting in settings})

    async def limit_target(self, target: int, *, beats: int = 0, slow: bool = False) -> None:
        """Limit the beats that a target's queues have in flight (0 for no limit)."""
        await self.write(f"TARGET_LIMIT_{target}", beats=beats, slow=int(slow))

    # Queues

    async def command(self, queue: int, command: int) -> None:
        await self.write("QUEUE_COMMAND", queue=queue, command=Command(command))

    async def start(self, queue: int) -> None:
        await self.command(queue, Command.START)

    async def pause(self, queue: int) -> None:
        await self.command(queue, Command.PAUSE)

    async def clear(self, queue: int) -> None:
        await self.command(queue, Command.CLEAR)

    async def reset(self, queue: int) -> None:
        await self.command(queue, Command.RESET)

    async def state(self, queue: int) -> QueueState:
        """:class:`QueueState` of a queue. Its registers are read one after the other, COUNT last."""
        async with self._lock():
            await self.write("QUEUE_SELECT", queue=queue)
            fields = await self.read("QUEUE_STATE")
            fields |= await self.read("QUEUE_RESULT")
            fields |= await self.read("QUEUE_COUNT")
        return QueueState(**{name: fields[name] for name in QueueState._fields})

    async def queue_counters(self, queue: int) -> QueueCounters:
        """:class:`QueueCounters` of a queue. No value is torn; of a queue at work, they may be some cycles apart."""
        async with self._lock():
            await self.write("QUEUE_SELECT", queue=queue)
            await self.write("QUEUE_SNAPSHOT", take=1)
            while (await self.read("QUEUE_SNAPSHOT"))["busy"]:
                pass
            low, high = [(await self.read(f"SNAPSHOT_BYTES_{half}"))["value"] for half in ("LO", "HI")]
            others = {name: (await self.read(f"SNAPSHOT_{name.upper()}"))["value"]
                      for name in QueueCounters._fields if name != "bytes"}
        return QueueCounters(bytes=high << 32 | low, **others)

    async def histogram(self, queue: int) -> list[int]:
        """Samples of a queue's latency: element ``n`` counts those of ``2 ** n`` to less than ``2 ** (n + 1)`` cycles,
        the last one all longer ones too."""
        counts = []
        async with self._lock():
            await self.write("QUEUE_SELECT", queue=queue)
            for number in range(HISTOGRAM_BINS):
                await self.write("HISTOGRAM_BIN", bin=number)
                counts.append((await self.read("HISTOGRAM_COUNT"))["count"])
        return counts

    # Errors and counters

    async def set_watchdog(self, cycles: int) -> None:
        await self.write("WATCHDOG", cycles=cycles)

    async def set_ablation(self, *, single_read: bool = False, every_word: bool = False) -> None:
        await self.write("ABLATION", single_read=int(single_read), every_word=int(every_word))

    async def pop_log(self) -> LogRecord | None:
        """The oldest entry of the error log as a :class:`LogRecord`, or None where it is empty."""
        async with self._lock():
            fields = await self.read("ERROR_LOG")
            if not fields["valid"]:
                return None
            count = (await self.read("ERROR_LOG_COUNT"))["count"]
            await self.write("ERROR_LOG_POP", pop=1)
        return LogRecord(fields["queue"], Status(fields["status"]), count)

    async def lost(self) -> int:
        """Failures that did not enter the error log, as one of their queue was there."""
        return (await self.read("ERROR_LOG_LOST"))["count"]

    async def moderate_interrupts(self, *, count: int = 0, cycles: int = 0) -> None:
        """Let ``count`` requests, or ``cycles`` after the first of them, share a completion interrupt."""
        await self.write("IRQ_MODERATION", count=count, cycles=cycles)

    async def counters(self) -> dict[str, int]:
        """All free-running counters, name -> value."""
        names = [register.name for register in self.map.registers if register.name.startswith("COUNT_")]
        return {name.removeprefix("COUNT_").lower(): (await self.read(name))["value"] for name in names}
