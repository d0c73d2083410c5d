# SPDX-License-Identifier: Apache-2.0
"""Quicker versions of five functions of Amaranth's netlists, which large designs spend much of their time in.

They return what Amaranth's return, without its checks of each single bit.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import amaranth
from amaranth.hdl import _nir

__all__ = ["VERSION", "quick_netlist"]

VERSION = "0.5.10"
"""The version of Amaranth whose functions these are; others keep their own."""


@contextmanager
def quick_netlist(emitter: type) -> Iterator[None]:
    """Use the quicker versions in this block; ``emitter`` is the backend's ``ModuleEmitter``."""
    if amaranth.__version__ != VERSION:
        yield
        return
    with mock.patch.object(_nir.Value, "__new__", _new_value), \
            mock.patch.object(_nir.Net, "from_cell", classmethod(_from_cell)), \
            mock.patch.object(_nir.Netlist, "resolve_value", _resolve_value), \
            mock.patch.object(emitter, "sigspec", _sigspec), \
            mock.patch.object(emitter, "emit_memory", _emit_memory):
        yield


def _new_value(cls: Any, nets: "_nir.Net | Iterable[_nir.Net]" = ()) -> Any:
    """A value of nets, not checked one by one."""
    return tuple.__new__(cls, (nets,) if isinstance(nets, _nir.Net) else nets)


def _from_cell(cls: Any, cell: int, bit: int) -> Any:
    """Bit of the output of a cell, not checked."""
    return int.__new__(cls, cell << 16 | bit)


def _resolve_value(self: Any, value: Any) -> Any:
    """The value itself, if it is resolved."""
    if not value or min(value) >= 0:
        return value
    connections, nets = self.connections, []
    for net in value:
        while net < 0:
            net = connections[net]
        nets.append(net)
    return _nir.Value(nets)


def _sigspec(self: Any, *parts: Any) -> str:
    """Text of nets: constants, and runs of consecutive bits of wires, from the highest on."""
    value: list[Any] = []
    for part in parts:
        if isinstance(part, _nir.Net):
            value.append(part)
        else:
            value.extend(part)
    chunks: list[str] = []
    nets, begin, length = self.nets, 0, len(value)
    while begin < length:
        first = value[begin]
        end = begin + 1
        if 0 <= first <= 1:
            while end < length and 0 <= value[end] <= 1:
                end += 1
            bits = "".join([str(int(net)) for net in reversed(value[begin:end])])
            chunks.append(f"{end - begin}'{bits}")
        else:
            wire, low = nets[first]
            high = low
            while end < length and not 0 <= (net := value[end]) <= 1 and nets[net] == (wire, high + 1):
                end += 1
                high += 1
            chunks.append(f"{wire.name} [{low}]" if high == low else f"{wire.name} [{high}:{low}]")
        begin = end
    return chunks[0] if len(chunks) == 1 else "{ " + " ".join(reversed(chunks)) + " }"


def _emit_memory(self: Any, cell_idx: int, cell: Any) -> None:
    """The initial contents of a memory, row by row."""
    width, mask = cell.width, (1 << cell.width) - 1
    bits = "".join([format(row & mask, f"0{width}b") for row in reversed(cell.init)]) if width else ""
    self.builder.cell("$meminit_v2", ports={
        "ADDR": self.sigspec(),
        "DATA": f"{len(bits)}'{bits}" if bits else self.sigspec(),
        "EN": self.sigspec(_nir.Value.ones(width)),
    }, parameters={
        "MEMID": self.memories[cell_idx].memid,
        "ABITS": 0,
        "WIDTH": width,
        "WORDS": cell.depth,
        "PRIORITY": 0,
    }, src_loc=cell.src_loc)
