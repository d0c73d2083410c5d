# SPDX-License-Identifier: Apache-2.0
"""The library of a cluster: built once for each configuration of the endpoint, and called through ctypes."""

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from amaranth.lib.wiring import Component

from hw.ace.config import DIMENSIONS, AceConfig
from hw.errors import UserError
from sim.ace.beat import beat_header
from sim.cpp.clocked import ClockedInputs
from sim.verilator.design import Design, component_of
from sim.verilator.program import Program, build_program

__all__ = ["ClusterFailed", "Library", "LinkParameters", "MemoryParameters", "Parameters", "build_library"]

_Status = Callable[[str, int, int], None]

_HERE = Path(__file__).parent
_SOURCES = (*(_HERE / name for name in ("cluster.h", "endpoint.h", "faults.h", "link.h", "workers.h",
                                    "workgroups.h")),
            *(_HERE.parent / "cpp" / name for name in ("ports.h", "axi_memory.h", "library.h", "memory.h")))
_RDMA = _HERE.parent / "rdma"
_NETWORK = tuple(_RDMA / f"{name}.h" for name in ("capture", "frame", "mac_port", "network", "network_api", "segment"))

_Handle, _Rank, _Number, _Address = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64
_Text, _Bytes = ctypes.c_char_p, ctypes.c_void_p
_Rows = ctypes.POINTER(ctypes.POINTER(ctypes.c_uint64))


class ClusterFailed(UserError):
    """The cluster broke a rule, or could not run."""

    status = 1


class LinkParameters(ctypes.Structure):
    """Options of the links of one dimension."""

    _fields_ = [("latency", ctypes.c_uint32), ("bytes_per_cycle", ctypes.c_double), ("stall", ctypes.c_double)]


class MemoryParameters(ctypes.Structure):
    """Options of one endpoint's memory."""

    _fields_ = [(name, ctypes.c_uint32) for name in ("read_latency", "write_latency", "jitter", "out_of_order")]
    _fields_ += [(name, ctypes.c_double) for name in ("read_rate", "write_rate", "stall")]


class Parameters(ctypes.Structure):
    """Options of a cluster."""

    _fields_ = [("shape", ctypes.c_uint32 * DIMENSIONS), ("links", LinkParameters * DIMENSIONS),
                ("seed", ctypes.c_uint64), ("threads", ctypes.c_uint32)]


# Function -> result and arguments; a result of less than 0 is an error.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "create": (_Handle, ctypes.POINTER(Parameters), ctypes.POINTER(MemoryParameters)),
    "destroy": (None, _Handle),
    "error": (_Text,),
    "cycle": (ctypes.c_uint64, _Handle),
    "map": (ctypes.c_int, _Handle, _Rank, _Address, ctypes.c_uint64, _Number),
    "share": (ctypes.c_int, _Handle, _Rank, _Address, _Bytes, ctypes.c_uint64),
    "store": (ctypes.c_int, _Handle, _Rank, _Address, _Bytes, ctypes.c_uint64),
    "load": (ctypes.c_int, _Handle, _Rank, _Address, _Bytes, ctypes.c_uint64),
    "fail_burst": (ctypes.c_int, _Handle, _Rank, _Number, ctypes.c_uint64),
    "faults": (ctypes.c_int, _Handle, *[ctypes.c_double] * 4, ctypes.c_uint64, *[ctypes.c_double] * 2,
               *[ctypes.c_uint64] * 2),
    "cut": (ctypes.c_int, _Handle, _Rank, _Number, ctypes.c_uint64, ctypes.c_uint64),
    "write_register": (ctypes.c_int, _Handle, _Rank, _Number, _Number),
    "read_register": (ctypes.c_int, _Handle, _Rank, _Number),
    "take_value": (ctypes.c_int64, _Handle, _Rank),
    "doorbell": (ctypes.c_int, _Handle, _Rank, ctypes.c_uint64, _Number, _Text, _Number),
    "settle": (ctypes.c_int, _Handle, ctypes.c_uint64),
    "watch": (ctypes.c_int, _Handle, _Rank, _Address, _Number, ctypes.c_uint64),
    "watch_bytes": (ctypes.c_int, _Handle, _Rank, _Number, _Address, ctypes.c_uint64),
    "watched_bytes": (ctypes.c_int64, _Handle, _Rank, _Number, _Bytes),
    "clear_watches": (ctypes.c_int, _Handle),
    "watch_met": (ctypes.c_uint64, _Handle, _Rank, _Number),
    "interrupted": (ctypes.c_uint64, _Handle, _Rank),
    "kernel": (ctypes.c_int, _Handle, _Rank, ctypes.c_void_p),
    "kernel_times": (ctypes.c_int64, _Handle, _Rank, _Number, _Rows),
    "run": (ctypes.c_int, _Handle, ctypes.c_uint64, _Number),
    "log": (ctypes.c_int, _Handle, _Number),
    "packets": (ctypes.c_int64, _Handle, _Rows),
    "bursts": (ctypes.c_int64, _Handle, _Rows),
    "statistics": (_Text, _Handle),
}


class Library:
    """The functions of ``cluster.cpp`` without their prefix; they raise :class:`ClusterFailed`."""

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Callable[..., Any]:
            """One of ``_FUNCTIONS``."""

    def __init__(self, program: Program) -> None:
        self.program = program
        loaded = ctypes.CDLL(str(program.path))
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = loaded[f"cluster_{name}"]
            function.restype, function.argtypes = result, arguments
            setattr(self, name, self._checked(function))

    def rows(self, name: str, handle: object, columns: int) -> npt.NDArray[np.uint64]:
        """The result of ``packets`` or ``bursts``, as an array."""
        numbers = ctypes.POINTER(ctypes.c_uint64)()
        count = getattr(self, name)(handle, ctypes.byref(numbers))
        if not count:
            return np.empty((0, columns), np.uint64)
        return np.ctypeslib.as_array(numbers, (count,)).copy().reshape(-1, columns)

    def _checked(self, function: Any) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            result = function(*arguments)
            if result is None if function.restype is _Handle else isinstance(result, int) and result < 0:
                raise ClusterFailed(self.error().decode())
            return result

        return call


def build_library(config: AceConfig, *, component: Component | Design | None = None, checked: bool = False,
                  verilog: tuple[str, str] | None = None, coverage: bool = False, random_initial: bool = False,
                  status: _Status | None = None) -> Library:
    """Build a cluster of ``AceEngine(config)`` unless it exists, and return a :class:`Library`.

    That of an accelerator is described once per process.

    Parameters
    ----------
    config : :class:`AceConfig`
        The endpoint's sizes.
    component : :class:`amaranth.lib.wiring.Component` or :class:`~sim.verilator.design.Design`
        An endpoint with the same ports instead.
    checked : bool
        With the assertions of the design, which end the run; slower.
    verilog : (str, str), optional
        Name of the top module and Verilog to simulate instead of ``component``, with its ports behind flip-flops.
    coverage : bool
        Count lines, branches and toggles; needs ``component``.
    random_initial : bool
        Registers and memories begin with random values, which the seed of a cluster chooses, others at each rank; needs
        ``component``.
    status : callable or None
        Receives ``(what, done, total)`` during the build.
    """
    if component is None:
        return _build_engine(config, checked, status)
    return _build(config, component, checked, status, verilog, coverage, random_initial=random_initial)


_LANE = "component.network.receive_0.alus.lane_0"
_MANY_LANES = 128
"""An accelerator with as many has one copy of a lane's C++: half of all C++ would be lanes."""

_engines: dict[tuple[AceConfig, bool], Library] = {}


def _build_engine(config: AceConfig, checked: bool, status: _Status | None) -> Library:
    # Imported here: a stub does not need it.
    from hw.ace.engine import AceEngine

    key = config, checked
    if key not in _engines:
        many = not checked and config.pipes * config.lanes >= _MANY_LANES
        _engines[key] = _build(config, Design(AceEngine, config), checked, status, block=_LANE if many else None)
    return _engines[key]


def _build(config: AceConfig, component: Component | Design, checked: bool, status: _Status | None,
           verilog: tuple[str, str] | None = None, coverage: bool = False, block: str | None = None,
           random_initial: bool = False) -> Library:
    made_of = component_of(component)
    ethernet = "ethernet" in made_of.signature.members
    name, design = verilog or ("ace_cluster_checked" if checked else "ace_cluster", _clocked(component))
    made = build_program(design, name=name,
                         main=_HERE / "cluster.cpp", sources=(*_SOURCES, *(_NETWORK if ethernet else ())),
                         generated={"beat.h": beat_header(config, _id_width(made_of)),
                                    "ethernet.h": _ethernet_header(config) if ethernet else ""},
                         includes=(_HERE.parent / "cpp", _RDMA), checked=checked, shared=True, coverage=coverage,
                         random_initial=random_initial, block=block, status=status)
    return _load(made)


def _clocked(component: Component | Design) -> Component | Design:
    return Design(ClockedInputs, component) if isinstance(component, Design) else ClockedInputs(component)


def _ethernet_header(config: AceConfig) -> str:
    """Bytes of a beat of the Ethernet port."""
    return f"#define ACE_ETHERNET_BYTES {config.data_width // 8}\n"


def _id_width(component: Component) -> int:
    width: int = component.signature.members["m_axi"].signature.id_width
    return width


@cache
def _load(program: Program) -> Library:
    return Library(program)
