# SPDX-License-Identifier: Apache-2.0
"""Build the Verilated card behind a vfio-user server, or as a library in the same process."""

from pathlib import Path

from hw.card import PRESET_NAMES
from hw.errors import UserError
from sim.verilator.build import Status
from sim.verilator.program import Program, build_program

__all__ = ["LEVELS", "build_server", "build_transport"]

LEVELS = ("card", "endpoint", "dma")
"""``card``: the whole card, by TLPs; ``endpoint``: its endpoint without PCIe, by its AXI ports, which takes less time;
``dma``: its DMA engine and PCIe adapter, by TLPs, built in a third of the time."""

_HERE = Path(__file__).parent
_SHARED = (_HERE.parent / "pcie" / "fast", _HERE.parent / "cpp")
_SOURCES = tuple(
    path for folder, names in (
        (_HERE, ("card_device.h", "client_host.h", "config_space.h", "connection.h", "device.h", "endpoint_device.h",
                 "guarded_copy.h", "host_memory.h", "memory_map.h", "messages.h", "program.h", "server.h")),
        (_SHARED[0], ("bits.h", "completion.h", "hard_block.h", "link.h", "rules.h", "streams.h", "tlp.h")),
        (_SHARED[1], ("axi_memory.h", "memory.h", "ports.h")))
    for path in (folder / name for name in names))
_LIBRARY = _HERE.parents[1] / "dmace" / "libdmace"
_TRANSPORT = (*(_HERE / name for name in ("card_cluster.h", "card_links.h", "options.h", "process_host.h")),
              *(_HERE.parent / "ace" / name for name in ("faults.h", "link.h")), _LIBRARY / "dmace_transport.h")


def build_server(preset: str = "tiny", level: str = "card", status: Status | None = None) -> Program:
    """The server of a card's preset: ``program --socket PATH``.

    Raises
    ------
    UserError
        If there is no such preset or level.
    BuildFailed, ToolMissing
        As :func:`build_program`.
    """
    return _build(preset, level, "server", status)


def build_transport(preset: str = "tiny", level: str = "card", status: Status | None = None) -> Program:
    """The card as a transport of libdmace: a shared library with ``dmace_transport_open``."""
    return _build(preset, level, "transport", status)


def _build(preset: str, level: str, kind: str, status: Status | None) -> Program:
    for what, value, known in (("preset", preset, PRESET_NAMES), ("level", level, LEVELS)):
        if value not in known:
            raise UserError(f"The {what} of a simulated card must be one of {', '.join(known)}, not {value!r}.")
    # Imported here, so that a wrong name is reported without waiting for the hardware description.
    from hw.card.card import Card
    from hw.card.config import PRESETS
    from hw.endpoint.engine import Endpoint
    from sim.ace.beat import beat_header
    from sim.cpp.clocked import ClockedInputs
    from sim.pcie.dma_card import DmaCard, preset_sizes
    from sim.pcie.fast.header import card_header
    from sim.verilator.design import Design

    config = PRESETS[preset]
    engine, pcie = preset_sizes(preset) if level == "dma" else (config.endpoint.dma, config.pcie)
    design = {"card": lambda: Design(Card, config), "endpoint": lambda: Design(Endpoint, config.endpoint),
              "dma": lambda: Design(DmaCard, engine, pcie)}[level]()
    device, header = ("EndpointDevice", "endpoint_device.h") if level == "endpoint" else ("CardDevice", "card_device.h")
    generated = {
        "card.h": card_header(pcie),
        "simulated.h": f'#pragma once\n#include "{header}"\nusing SimulatedDevice = {device};\n',
        "beat.h": "#define ACE_PORTS 0\n" if level == "dma" else beat_header(config.endpoint.ace,
                                                                             config.endpoint.axi_id_width),
    }
    extra = _TRANSPORT if kind == "transport" else ()
    return build_program(
        Design(ClockedInputs, design), name=f"vfio_{level}_{kind}",
        main=_HERE / ("transport.cpp" if kind == "transport" else "main.cpp"), sources=(*_SOURCES, *extra),
        generated=generated, includes=(_HERE, *_SHARED, _LIBRARY), shared=kind == "transport",
        status=status)
