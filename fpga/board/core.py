# SPDX-License-Identifier: Apache-2.0
"""The content of an FPGA without its PLL and its pins: engines, their memories, and the host's bridge.

::

    rx -> UartReceiver -> Bridge -> UartTransmitter -> tx
                            |
            words of the host: address bits 31:28 and 27:24
              |             |                |             |
        board registers  s_axil of      s_axi_db of     memory of
                         engine n       engine n        engine n <-> m_axi

Accelerators and endpoints are linked to a ring along the first dimension, on the chip; one alone is its own neighbour.
A probe has no engine.
"""

from dataclasses import dataclass, replace
from typing import Any

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from hw.ace import config as ace
from hw.ace.timing import AceTimingOptions
from hw.axi import AxiSignature
from hw.common.wiring import unused
from hw.dma_engine import config as dma
from hw.endpoint import config as endpoint
from hw.regs import RegisterBank

from .bridge import Bridge
from .bus import DoorbellBridge, LiteBridge, WordSignature
from .memory import AxiMemory
from .protocol import Space
from .registers import ADDR_WIDTH, register_map
from .twin import Twin
from .uart import UartReceiver, UartTransmitter

__all__ = ["DESIGNS", "BoardConfig", "BoardCore"]

DESIGNS = ("dma", "ace", "probe", "endpoint")
_PRESETS = ("tiny", "base", "wide")

_SMALL: dict[str, Any] = {
    "lanes": 1, "prod": False, "fp8": False, "avg": False, "widen": False, "varying": False, "counters": False,
    "dimensions": 1, "fsms": 2, "slots": 4, "queue_depth": 2, "communicators": 2, "regions": 4,
    "timing": AceTimingOptions.all()}
"""Sizes of `tiny` accelerators on a board: two of the unreduced ones would fill 90 % of an ECP5-85F."""


@dataclass(frozen=True, kw_only=True)
class BoardConfig:
    """Design and sizes of a board.

    Parameters
    ----------
    design : str
        ``dma`` for a DMA engine, ``ace`` for a ring of collectives accelerators, ``endpoint`` for a ring of endpoints,
        ``probe`` for memory alone: built in a minute, to try a board, its cable and the tools.
    preset : str
        Preset of the engines.
    endpoints : int
        Number of engines, 1 to 4; of memories in a probe.
    memory : int
        Size of each engine's memory in bytes, a power of two from 4 KiB to 8 MiB.
    clock_hz : int
        Clock frequency of the engines.
    baud : int
        Baud rate of the serial line.
    """

    design: str = "dma"
    preset: str = "tiny"
    endpoints: int = 1
    memory: int = 1 << 16
    clock_hz: int = 50_000_000
    baud: int = 1_000_000

    def __post_init__(self) -> None:
        if self.design not in DESIGNS:
            raise ValueError(f"Design must be one of {', '.join(DESIGNS)}, not {self.design!r}")
        if self.preset not in _PRESETS:
            raise ValueError(f"Preset must be one of {', '.join(_PRESETS)}, not {self.preset!r}")
        if not 1 <= self.endpoints <= 4:
            raise ValueError(f"Endpoints must be from 1 to 4, not {self.endpoints!r}")
        if not 1 << 12 <= self.memory <= 1 << 23 or self.memory & (self.memory - 1):
            raise ValueError(f"Memory must be a power of two from 4 KiB to 8 MiB, not {self.memory!r}")
        if self.clock_hz < 4 * self.baud:
            raise ValueError(f"Clock must have at least 4 cycles for each bit of {self.baud} baud, "
                             f"not {self.clock_hz!r} Hz")

    @property
    def kind_number(self) -> int:
        return DESIGNS.index(self.design)

    @property
    def preset_number(self) -> int:
        return _PRESETS.index(self.preset)

    @property
    def twins(self) -> bool:
        """Whether several engines are one Verilog module, :class:`Twin`."""
        return self.endpoints > 1 and self.design != "probe"

    @property
    def engine_config(self) -> dma.DmaConfig | ace.AceConfig | endpoint.EndpointConfig | None:
        """Sizes of the engine; None of a probe."""
        small = _SMALL if self.preset == "tiny" else {}
        if self.design == "probe":
            return None
        if self.design == "dma":
            return dma.PRESETS[self.preset]
        if self.design == "endpoint":
            whole = endpoint.PRESETS[self.preset]
            return replace(whole, ace=replace(whole.ace, **small), pipelined=True) if small else whole
        accelerator = ace.PRESETS[self.preset]
        return replace(accelerator, **small, address_width=32) if small else accelerator

    def engine(self) -> wiring.Component | None:
        """An engine; None of a probe."""
        if self.design == "dma":
            from hw.dma_engine import DmaEngine
            return DmaEngine(self.engine_config)
        if self.design == "ace":
            from hw.ace.engine import AceEngine
            return AceEngine(self.engine_config)
        if self.design == "endpoint":
            from hw.endpoint.engine import Endpoint
            return Endpoint(self.engine_config)
        return None


class BoardCore(wiring.Component):
    """Engines, memories and the host's bridge.

    Parameters
    ----------
    config : BoardConfig

    Attributes
    ----------
    twin : component or None
        What stands behind each :class:`Twin`, where there are several engines.

    Members
    -------
    rx : ``In(1)``, tx : ``Out(1)``
        Serial line from and to the host.
    idle, busy, error : ``Out(1)``
        For LEDs: nothing to do (blinks about once a second), at work (stretched so that it is seen), an engine's
        interrupt or a dropped frame. Registered.
    """

    def __init__(self, config: BoardConfig) -> None:
        self.config = config
        self.twin = config.engine() if config.twins else None
        super().__init__({"rx": In(1), "tx": Out(1), "idle": Out(1), "busy": Out(1), "error": Out(1)})

    def elaborate(self, platform):
        m = Module()
        config = self.config
        divisor = round(config.clock_hz / config.baud)
        m.submodules.receiver = receiver = UartReceiver(divisor)
        m.submodules.transmitter = transmitter = UartTransmitter(divisor)
        m.submodules.bridge = bridge = Bridge(timeout=100 * divisor)
        connect(m, bridge.o, transmitter.i)
        m.d.comb += [
            receiver.rx.eq(self.rx), self.tx.eq(transmitter.tx), bridge.data.eq(receiver.data),
            bridge.valid.eq(receiver.valid), bridge.broken.eq(receiver.broken),
        ]

        # -- The board's registers.
        m.submodules.bank = bank = RegisterBank(register_map(config))
        m.submodules.panel = panel = LiteBridge(ADDR_WIDTH)
        connect(m, panel.o, bank.bus)
        targets = {(Space.BOARD, 0): panel.i}

        # -- Engines, and a memory for each.
        rung, responded, interrupts, engines = [], [], [], []
        for number in range(config.endpoints):
            engine = Twin(self.twin.signature) if self.twin else config.engine()
            port = engine.m_axi.signature if engine else AxiSignature(addr_width=32, data_width=64, id_width=1)
            m.submodules[f"memory{number}"] = store = AxiMemory(port, size=config.memory)
            targets[Space.MEMORY, number] = store.host
            if engine is None:
                # Only the host uses the memory of a probe.
                inputs = [Value.cast(value) for _, member, value in store.bus.signature.flatten(store.bus)
                          if member.flow is In]
                m.d.comb += [value.eq(value.init) for value in inputs]
                continue
            engines.append(engine)
            m.submodules[f"engine{number}"] = engine
            m.submodules[f"registers{number}"] = lite = LiteBridge(engine.s_axil.signature.addr_width)
            m.submodules[f"doorbells{number}"] = doorbells = DoorbellBridge(engine.s_axi_db.signature.flip())
            connect(m, engine.m_axi, store.bus)
            connect(m, lite.o, engine.s_axil)
            connect(m, doorbells.o, engine.s_axi_db)
            targets |= {(Space.REGISTERS, number): lite.i, (Space.DOORBELLS, number): doorbells.i}
            rung.append(doorbells.o.awvalid & doorbells.o.awready)
            responded.append(engine.m_axi.bvalid & engine.m_axi.bready)
            interrupts.append(engine.irq)
            if config.design in ("dma", "endpoint"):
                unused(m, engine.interrupts)
                unused(m, engine.events)
        if config.design in ("ace", "endpoint"):
            for engine, following in zip(engines, engines[1:] + engines[:1], strict=True):
                connect(m, engine.tx[0], following.rx[1])
                connect(m, following.tx[1], engine.rx[0])

        self._route(m, bridge.bus, targets)

        # -- What is shown.
        cycles, work = Signal(32), Signal(range(config.clock_hz // 16 + 1))
        blink = Signal(range(config.clock_hz))
        m.d.sync += [cycles.eq(cycles + 1), blink.eq(Mux(blink == config.clock_hz - 1, 0, blink + 1))]
        ring, response = Signal(), Signal()
        m.d.sync += [ring.eq(Cat(rung).any()), response.eq(Cat(responded).any())]
        with m.If(ring):
            m.d.sync += bank.began.value.eq(cycles)
        with m.If(response):
            m.d.sync += bank.ended.value.eq(cycles)
        with m.If(ring | response | bridge.busy):
            m.d.sync += work.eq(config.clock_hz // 16)
        with m.Elif(work != 0):
            m.d.sync += work.eq(work - 1)
        unused(m, bank.scratch)
        m.d.comb += [bank.cycles.value.eq(cycles), bank.status.dropped_set.eq(bridge.dropped)]
        m.d.sync += [
            bank.status.interrupt.eq(Cat(interrupts)),
            self.busy.eq(work != 0), self.idle.eq((work == 0) & (blink < config.clock_hz // 2)),
            self.error.eq(bank.status.dropped | bank.status.interrupt.any()),
        ]
        return m

    @staticmethod
    def _route(m, bus, targets):
        """Words to the target that bits 31:24 of the address name; an error where there is none."""
        taken = WordSignature().create()
        m.d.sync += [taken.valid.eq(bus.valid & ~bus.done & ~taken.done)]
        hit = Signal()
        with m.Switch(bus.address[24:]):
            for (space, number), target in targets.items():
                with m.Case(int(space) << 4 | number):
                    m.d.comb += [target.valid.eq(taken.valid & bus.valid), hit.eq(1)]
                    m.d.comb += [taken.done.eq(target.done), taken.read_data.eq(target.read_data),
                                 taken.error.eq(target.error)]
        for target in targets.values():
            m.d.comb += [target.write.eq(bus.write), target.last.eq(bus.last), target.address.eq(bus.address),
                         target.write_data.eq(bus.write_data)]
        m.d.sync += [
            bus.done.eq((taken.done | ~hit) & bus.valid & ~bus.done),
            bus.read_data.eq(taken.read_data), bus.error.eq(taken.error | ~hit),
        ]
