# SPDX-License-Identifier: Apache-2.0
"""Names of devices, and what each opens.

::

    vfio:0000:01:00.0       a PCI function that is bound to vfio-pci
    sim:tiny                a card of this preset, simulated in this process
    sim:tiny,latency=500    with 500 cycles of memory latency
    sim:/path/library.so,x  a simulator that is built already, with an option of its own
    uart:/dev/ttyUSB0       a board with a DMA engine at a serial port; the option is baud=RATE
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hw.card import PRESET_NAMES
from hw.errors import UserError

from .errors import DmaceError

if TYPE_CHECKING:
    from .transport import HostTransport

__all__ = ["Found", "board", "find", "resolve"]

CARD_IDS = ("0x1234", "0xd3ac")
"""Vendor and device, as sysfs has them."""

_PCI = Path("/sys/bus/pci/devices")
_SIMULATOR = "sim.vfio.harness"
_BOARD = "fpga.board.transport"
_PORTS = Path("/dev")
_KINDS = "vfio:DDDD:BB:DD.F, sim:PRESET or uart:PORT"

Status = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Found:
    """A device that could be opened."""

    name: str
    state: str
    remedy: str = ""


def resolve(name: str, status: Status | None = None) -> str:
    """The name for libdmace alone. A simulator is built if that was not done before; ``status`` receives its progress.

    Raises
    ------
    DmaceError
        If no device can have this name, or if it is a board, see :func:`board`.
    """
    kind, colon, rest = name.partition(":")
    if not colon or not rest or kind not in ("vfio", "sim", "uart"):
        raise DmaceError(f"A device is named like {_KINDS}, not {name!r}.")
    if kind == "uart":
        raise DmaceError(f"Programs in C cannot open {name}, only Python can; `dmace board` measures boards.")
    if kind == "vfio":
        return name
    preset, comma, option = rest.partition(",")
    if "/" in preset:
        return name
    if preset not in PRESET_NAMES:
        raise DmaceError(f"A simulated device is one of {', '.join(PRESET_NAMES)}, or the path of a library, not "
                         f"{preset!r}.")
    key, _, latency = option.partition("=")
    if comma and (key != "latency" or not latency.isdecimal()):
        raise DmaceError(f"A simulated device has the option latency=CYCLES, not {option!r}.")
    try:
        simulator: Any = import_module(_SIMULATOR)
    except ModuleNotFoundError as error:
        raise UserError(f"A simulated device needs the Python package {error.name}, which is not installed.") from None
    return f"sim:{simulator.build_transport(preset, status=status).path}{comma}{latency}"


def board(name: str) -> "HostTransport | None":
    """The board that a name beginning with ``uart:`` opens; None for another name."""
    kind, _, port = name.partition(":")
    if kind != "uart" or not port:
        return None
    try:
        module: Any = import_module(_BOARD)
    except ModuleNotFoundError as error:
        raise UserError(f"A board needs the Python package {error.name}, which is not installed.") from None
    transport: HostTransport = module.open_board(port)
    return transport


def find() -> list[Found]:
    """The cards of this machine, its serial ports, and the simulators."""
    found = []
    for folder in sorted(_PCI.glob("*")) if _PCI.is_dir() else []:
        if tuple(_text(folder / file) for file in ("vendor", "device")) != CARD_IDS:
            continue
        driver = (folder / "driver").resolve().name if (folder / "driver").exists() else ""
        if driver == "vfio-pci":
            found.append(Found(f"vfio:{folder.name}", "ready"))
        else:
            found.append(Found(f"vfio:{folder.name}", f"bound to {driver}" if driver else "not bound to a driver",
                               f"bind it to vfio-pci: `driverctl set-override {folder.name} vfio-pci`"))
    ports = sorted(path for pattern in ("ttyUSB*", "ttyACM*") for path in _PORTS.glob(pattern))
    return [*found,
            *(Found(f"uart:{port}", "a serial port", f"`dmace board --port {port} info` shows whether a board with a "
                    "DMA engine is there") for port in ports),
            *(Found(f"sim:{preset}", "simulated") for preset in PRESET_NAMES)]


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
