# SPDX-License-Identifier: Apache-2.0
"""``card.h`` for the C++ sources of this folder: sizes, and the positions of all fields on the pins of the hard block.

From the layouts of :mod:`hw.pcie.pins` and :mod:`hw.pcie.tlp`, so that C++ and hardware share tables and no logic.
"""

from collections.abc import Iterable, Mapping

from amaranth.lib import data

from hw.pcie import registers
from hw.pcie.config import PcieConfig
from hw.pcie.function import EXTENDED_TAG_BIT
from hw.pcie.pins import cc_user_layout, cq_user_layout, rc_user_layout, rq_user_layout
from hw.pcie.tlp import CompleterCompletion, CompleterRequest, RequesterCompletion, RequesterRequest
from hw.regs import to_c_header
from sim.pcie.stream import fields_of

__all__ = ["card_header"]

_PAIRS = ("start_0", "start_1", "end_0", "end_1")
_USER = ("first_be_0", "first_be_1", "last_be_0", "last_be_1", "byte_en", "starts", "ends", "discontinue", "first",
         *_PAIRS)
"""Names in C++ of the fields of ``tuser`` at any width."""

_NARROW = {"first_be": "first_be_0", "last_be": "last_be_0", "start": "first"}
"""Names of fields with 128 and 256 bits -> names in C++."""

_REQUEST_ZEROS = ("address_type", "poisoned", "requester_function", "requester_bus", "completer_id",
                  "requester_id_enable", "traffic_class", "force_ecrc")
_COMPLETION_ZEROS = ("address_type", "locked", "poisoned", "traffic_class", "attributes", "completer_function",
                     "completer_bus", "completer_id_enable", "force_ecrc")


def _field(position: tuple[int, int]) -> str:
    offset, mask = position
    return f"{{{offset}, {mask.bit_length()}}}"


def _namespace(name: str, fields: Mapping[str, tuple[int, int]]) -> list[str]:
    return [f"namespace {name} {{", *(f"constexpr Field {field}{_field(position)};"
                                      for field, position in fields.items()), "}"]


def _user(layout: data.StructLayout, *, wide: bool, first: str) -> dict[str, tuple[int, int]]:
    """Fields of ``tuser``, of no bit where there is none; ``first`` marks the first beat with 128 and 256 bits."""
    found = fields_of(layout)
    if not wide:
        found = {_NARROW.get(name, name): position for name, position in found.items() if name not in _PAIRS} | (
            {"first": found[first]} if first in found else {})
    return {name: found.get(name, (0, 0)) for name in _USER}


def _list(name: str, fields: Mapping[str, tuple[int, int]], chosen: Iterable[str]) -> str:
    return f"constexpr Field {name}[] = {{{', '.join(_field(fields[field]) for field in chosen)}}};"


def card_header(config: PcieConfig) -> str:
    """Text of ``card.h`` for an adapter of these sizes."""
    width, wide = config.data_width, config.data_width == 512
    descriptors = {"request": RequesterRequest, "requester_completion": RequesterCompletion,
                   "completer_request": CompleterRequest, "completer_completion": CompleterCompletion}
    tables = {name: fields_of(layout) for name, layout in descriptors.items()}
    users = {"rq_user": (rq_user_layout, ""), "rc_user": (rc_user_layout, "start_0"),
             "cq_user": (cq_user_layout, "start"), "cc_user": (cc_user_layout, "")}
    sizes = {
        "kDataWidth": width, "kTags": config.tags, "kReadBytes": config.read_bytes,
        "kDoorbellBits": config.doorbell_addr_width, "kBar0Bits": registers.BAR0_BITS,
        "kPcieRegisters": registers.WINDOWS["PCIE"], "kMsixTable": registers.MSIX_TABLE,
        "kMsixPending": registers.MSIX_PENDING, "kMsixVectors": config.vectors, "kExtendedTagBit": EXTENDED_TAG_BIT,
        "kRequestDwords": RequesterRequest.size // 32, "kCompletionDwords": RequesterCompletion.size // 32,
    }
    lines = [
        "// Generated from hw/pcie; do not edit.", "#pragma once", '#include "bits.h"',
        to_c_header(registers.register_map(config), "DMACE_PCIE"),
        *(f"constexpr unsigned {name} = {value};" for name, value in sizes.items()),
        *(line for name, fields in tables.items() for line in _namespace(name, fields)),
        *(line for name, (layout, first) in users.items()
          for line in _namespace(name, _user(layout(width), wide=wide, first=first))),
        _list("kRequestZeros", tables["request"], _REQUEST_ZEROS),
        _list("kCompletionZeros", tables["completer_completion"], _COMPLETION_ZEROS),
    ]
    return "\n".join(lines) + "\n"
