# SPDX-License-Identifier: Apache-2.0
"""Root complex, switch, GPUs and the card: enumerated, with addresses, for a test in cocotb.

::

    system = PcieSystem(dut, SystemSettings())
    await system.start()
    await system.gpus[0].ring(system.bar2, [word])

The host's memory is at address 0. The switch routes between card and GPUs peer to peer, without the root complex.

Known limits of the library: a switch port forwards in order of arrival from each of its inputs, so that a request
without credits blocks completions behind it; that is legal, except for non-posted requests in front of posted ones.
MSI-X messages reach ``interrupts`` as memory writes to a window of the root complex.
"""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cocotb.triggers import FallingEdge, RisingEdge
from cocotbext.pcie.core import RootComplex, Switch
from cocotbext.pcie.core.tlp import Tlp, TlpType
from cocotbext.pcie.core.utils import PcieId

from sim.pcie.assignment import assign
from sim.pcie.completer import Completer, CompleterSettings
from sim.pcie.gpu import Gpu
from sim.pcie.hard_block import LINKS, HardBlock
from sim.pcie.link import set_link

__all__ = ["PcieSystem", "SystemSettings"]

PREFETCHABLE_BASE = 1 << 45
"""Address of the first 64-bit BAR: within the physical addresses of current hosts. Bit 63, which the library would set,
is that of a neighbour's memory in the endpoint."""

_GPU, _HOST = CompleterSettings(), CompleterSettings(rcb=64)


@dataclass(frozen=True)
class SystemSettings:
    """Sizes and behaviour of the system.

    Parameters
    ----------
    max_payload, max_read : int
        MPS and MRRS in bytes, 128 to 1024 and 128 to 4096.
    bar0_bytes, bar2_bytes : int
        Registers, and doorbells.
    vectors, table_offset, pba_offset : int
        MSI-X.
    gpus, gpu_bytes : int
        GPUs, and the memory of each.
    host_bytes : int
        Host memory, up to 2 GiB.
    gpu, host : :class:`CompleterSettings`
        How memories respond.
    generation, lanes : int or None
        Of all links; those that fit the card's data width if None.
    rc_4tlp_straddle : bool
        Up to four completions in a beat of RC.
    seed : int
        Of all random choices.
    """

    max_payload: int = 512
    max_read: int = 512
    bar0_bytes: int = 1 << 16
    bar2_bytes: int = 1 << 20
    vectors: int = 32
    table_offset: int = 0x8000
    pba_offset: int = 0x9000
    gpus: int = 2
    gpu_bytes: int = 1 << 24
    host_bytes: int = 1 << 24
    gpu: CompleterSettings = _GPU
    host: CompleterSettings = _HOST
    generation: int | None = None
    lanes: int | None = None
    rc_4tlp_straddle: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name, low, high in (("max_payload", 128, 1024), ("max_read", 128, 4096), ("bar0_bytes", 128, 1 << 30),
                                ("bar2_bytes", 128, 1 << 40), ("gpu_bytes", 128, 1 << 40),
                                ("host_bytes", 4096, 1 << 31)):
            value = getattr(self, name)
            if not low <= value <= high or value & value - 1:
                raise ValueError(f"{name} must be a power of two from {low} to {high}, not {value!r}")
        if self.gpus < 1:
            raise ValueError(f"gpus must be at least 1, not {self.gpus!r}")


class PcieSystem:
    """The system around the card.

    Parameters
    ----------
    dut : handle
        Top with the card's pins, see :class:`HardBlock`, which also drives its clock and reset.
    settings : :class:`SystemSettings`
        Sizes and behaviour.

    Attributes
    ----------
    card : :class:`HardBlock`
        The card's hard block.
    gpus : list of :class:`Gpu`
        The GPUs.
    host : :class:`Completer`
        Host memory, at address 0.
    root : :class:`cocotbext.pcie.core.RootComplex`
        For accesses of the CPU: ``root.mem_read(address, length)``, ``root.mem_write(address, data)``.
    identity : :class:`cocotbext.pcie.core.utils.PcieId`
        Bus, device and function number of the card as software knows it, after :meth:`start`.
    function : object or None
        The library's driver for the card (class of ``cocotbext.pcie.core.pci``), after enumeration.
    interrupts : callable or None
        Called with address and data of each MSI-X message.
    """

    interrupt_address = 0xB000_0000
    """Messages go here and to the 4 KiB above; none of the library's own vectors is used."""

    def __init__(self, dut: Any, settings: SystemSettings | None = None) -> None:
        self.settings = settings = SystemSettings() if settings is None else settings
        self.dut = dut
        for name in ("pcie", *(f"{dut._name}.{bus}" for bus in ("cq", "cc", "rq", "rc"))):
            logging.getLogger(f"cocotb.{name}").setLevel(logging.ERROR)
        self.interrupts: Callable[[int, int], None] | None = None
        speed, width = LINKS[len(dut.rq__tdata)]
        link = (settings.generation or speed, settings.lanes or width)
        self.card = HardBlock(
            dut, bars={0: (settings.bar0_bytes, False), 2: (settings.bar2_bytes, True)}, vectors=settings.vectors,
            table_offset=settings.table_offset, pba_offset=settings.pba_offset,
            rc_4tlp_straddle=settings.rc_4tlp_straddle)
        set_link(self.card.upstream_port, *link)
        self.gpus = [Gpu(settings.gpu_bytes, settings=settings.gpu, generation=link[0], lanes=link[1],
                         seed=settings.seed + 1 + number) for number in range(settings.gpus)]
        self.root: Any = RootComplex()
        self.root.prefetchable_mem_base = self.root.prefetchable_mem_limit = PREFETCHABLE_BASE
        self.root.mem_address_space.register_region(self.root.mem_region, PREFETCHABLE_BASE, PREFETCHABLE_BASE,
                                                    offset=None)
        self.root.max_payload_size = int(math.log2(settings.max_payload)) - 7
        self.host = Completer(
            self.root.send, locate=lambda address: address, identity=lambda: PcieId(0, 0, 0),
            max_payload=lambda: int(128 << self.root.max_payload_size), size=settings.host_bytes,
            settings=settings.host, seed=settings.seed)
        for kind, handler in ((TlpType.MEM_READ, self._host_read), (TlpType.MEM_READ_64, self._host_read),
                              (TlpType.MEM_WRITE, self._host_write), (TlpType.MEM_WRITE_64, self._host_write)):
            self.root.register_rx_tlp_handler(kind, handler)
        self.switch: Any = Switch()
        set_link(self.switch.upstream_bridge.upstream_port, *link)
        self.root.make_port().connect(self.switch)
        self._devices = [self.card, *(gpu.device for gpu in self.gpus)]
        self._ports = [self.switch.make_port() for _ in self._devices]
        for port, device in zip(self._ports, self._devices, strict=True):
            port.connect(device)
        self.card_port = self._ports[0]
        self.identity = PcieId()
        self.function: Any = None

    async def _host_read(self, tlp: Tlp) -> None:
        if tlp.address + 4 * tlp.length <= self.settings.host_bytes:
            await self.host.handle_read(tlp)
        else:
            await self.root.send(Tlp.create_ur_completion_for_tlp(tlp, PcieId(0, 0, 0)))

    async def _host_write(self, tlp: Tlp) -> None:
        if tlp.address + 4 * tlp.length <= self.settings.host_bytes:
            await self.host.handle_write(tlp)
        elif 0 <= tlp.address - self.interrupt_address < 4096 and self.interrupts is not None:
            self.interrupts(int(tlp.address), int.from_bytes(tlp.get_data(), "little"))

    async def start(self, *, enumerate_bus: bool = True) -> None:
        """Wait for the end of reset, enumerate, set MPS and MRRS, and enable all functions.

        Parameters
        ----------
        enumerate_bus : bool
            By configuration requests, as software does it. Otherwise the same is set by the backdoor, which is quicker,
            and there is no :attr:`function`.
        """
        # The hard block asserts its reset in the second cycle.
        for _ in range(3):
            await RisingEdge(self.dut.clk)
        if int(self.dut.rst.value):
            await FallingEdge(self.dut.rst)
        read = int(math.log2(self.settings.max_read)) - 7
        if enumerate_bus:
            await self.root.enumerate()
            self.function = self.root.find_device(self.card.function.pcie_id)
            for device in self._devices:
                found = self.root.find_device(device.functions[0].pcie_id)
                await found.enable_device()
                await found.set_readrq(read)
                await found.set_master()
        else:
            assign(self.root, self.switch, self._ports, self._devices, max_read=read)
            self.card.refresh()
        self.identity = self.card.function.pcie_id
        for _ in range(4):
            await RisingEdge(self.dut.clk)

    def configure(self, *, max_payload: int, max_read: int, extended_tags: bool = True) -> None:
        """Change MPS, MRRS and extended tags by the backdoor, while nothing is in flight."""
        self.root.max_payload_size = int(math.log2(max_payload)) - 7
        bridges = (self.root.endpoints[0], self.switch.upstream_bridge, *self._ports)
        for function in (*bridges, *(device.functions[0] for device in self._devices)):
            function.pcie_cap.max_payload_size = self.root.max_payload_size
        capability = self.card.function.pcie_cap
        capability.max_read_request_size = int(math.log2(max_read)) - 7
        capability.extended_tag_field_enable = extended_tags
        self.card.refresh()

    @property
    def bar0(self) -> int:
        """Address of the registers."""
        return int(self.card.function.bar[0] & ~0xF)

    @property
    def bar2(self) -> int:
        """Address of the doorbells."""
        return int(self.card.function.bar[2] & ~0xF | self.card.function.bar[3] << 32)
