"""Register-level drivers of an endpoint: those of its two engines behind their windows, and its own."""

from contextlib import nullcontext

from dmace.drivers.ace import AceDriver
from dmace.drivers.dma import DmaDriver
from dmace.drivers.registers import RegisterDriver
from hw.common.sizes import PAGE_BYTES
from hw.endpoint.config import MANAGERS
from hw.endpoint.registers import COUNTERS, WINDOWS, register_map

__all__ = ["EndpointDriver", "Window"]


class Window:
    """A part of a bus: registers from ``offset`` on, doorbell pages from number ``page`` on."""

    def __init__(self, bus, offset, page=0):
        self._bus, self._offset, self._page = bus, offset, page * PAGE_BYTES

    async def write(self, offset, value):
        await self._bus.write(self._offset + offset, value)

    async def read(self, offset):
        return await self._bus.read(self._offset + offset)

    async def store(self, address, data, **options):
        await self._bus.store(self._page + address, data, **options)


class EndpointDriver(RegisterDriver):
    """Drives what is the endpoint's own.

    Parameters
    ----------
    bus : :class:`dmace.drivers.ace.AceBus`
        The whole endpoint's.
    config : :class:`EndpointConfig`
    lock : callable returning an async context manager, optional

    Attributes
    ----------
    dma : :class:`DmaDriver`
    ace : :class:`AceDriver`
    """

    def __init__(self, bus, config, *, lock=nullcontext):
        super().__init__(Window(bus, WINDOWS["ENDPOINT"]), register_map(config), lock=lock)
        self.config = config
        self._doorbells = bus
        self.dma = DmaDriver(Window(bus, WINDOWS["DMA"]), config.dma, lock=lock)
        self.ace = AceDriver(Window(bus, WINDOWS["ACE"], config.dma.queues), config.ace, lock=lock)

    async def check_identity(self):
        """Raise RuntimeError unless this is an endpoint of the expected sizes, with such engines."""
        await self._check_identity("SIZES")
        await self.dma.check_identity()
        await self.ace.check_identity()

    async def post(self, queue, word, **options):
        """Store a :class:`NativeWord` to a queue of the DMA engine; options are for the bus."""
        await self._doorbells.store(queue * PAGE_BYTES, word.to_bytes(), **options)

    async def share_memory(self, *, read=None, write=None, window=0):
        """Set weights, manager -> weight (1 where none is given), and the beats that may be in flight of reads."""
        readers = [field.name for field in self.map["READ_WEIGHT"].fields]
        await self.write("READ_WEIGHT", **dict.fromkeys(readers, 1) | (read or {}))
        await self.write("WRITE_WEIGHT", **dict.fromkeys(MANAGERS, 1) | (write or {}))
        await self.write("READ_WINDOW", beats=window)

    async def define_export(self, number, *, base, length, ports, valid=True):
        """Write an entry of the table of exported spans; ``ports``: numbers of those whose neighbours may write it."""
        if base % PAGE_BYTES:
            raise ValueError(f"Base of an exported span must be a multiple of {PAGE_BYTES}, not {base:#x}")
        async with self._lock():
            await self._write_pair("EXPORT_BASE", base)
            await self._write_pair("EXPORT_LENGTH", length)
            await self.write("EXPORT_ACCESS", ports=sum(1 << port for port in ports), valid=int(valid))
            await self.write("EXPORT_COMMIT", export=number)

    async def counters(self):
        """All free-running counters, name -> value."""
        return {name.lower(): (await self.read(f"COUNT_{name}"))["value"] for name, _ in COUNTERS}
