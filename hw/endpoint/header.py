# SPDX-License-Identifier: Apache-2.0
"""The C header ``dmace_endpoint.h``: the address map of an endpoint, words and codes of trigger counters, and the
functions of threads that tick, put and wait. It is used with ``dmace.h`` and ``dmace_ace.h``.

The functions are in ``dmace_endpoint.h.in``; all numbers are inserted. C11, C++17 and CUDA, header only.
"""

from pathlib import Path

from hw.common.c_header import code_lines, define, field_lines
from hw.common.sizes import OFFSET_WIDTH, REGION_ID_WIDTH
from hw.regs import to_c_header
from hw.triggers.config import (
    BLOCK_LSB,
    COUNTER_SPACE,
    COUNTERS_PER_BLOCK,
    GENERATION_WIDTH,
    SLOT_BYTES,
    THRESHOLD_WIDTH,
)
from hw.triggers.words import ARM_FIELDS, TICK_FIELDS, Mode, Refusal, SlotField

from .config import REMOTE_BIT, REMOTE_EXPORT_LSB, REMOTE_PORT_LSB, EndpointConfig
from .registers import WINDOWS, register_map

__all__ = ["c_header"]

PREFIX = "DMACE_ENDPOINT"

_CODES = (
    ("MODE", Mode, "Modes of a counter."),
    ("SLOT", SlotField, "Fields of a counter's slot in the preparation page, in units of 16 bytes."),
    ("REFUSAL", Refusal, "Values of TRIGGER_REFUSED.code."),
)


def c_header(config: EndpointConfig) -> str:
    """Text of ``dmace_endpoint.h`` for an endpoint of these sizes."""
    windows = ["/* Windows of s_axil. */", *(f"#define {PREFIX}_{'OWN' if name == 'ENDPOINT' else name}_REGISTERS "
                                             f"0x{offset:04x}u" for name, offset in WINDOWS.items())]
    tables = [
        *windows, "", to_c_header(register_map(config), PREFIX), *_sizes(config),
        *(line for name, codes, doc in _CODES for line in code_lines(name, codes, doc, PREFIX)),
        *field_lines("TICK", TICK_FIELDS, "Tick: 8 bytes, little endian.", PREFIX),
        *field_lines("ARM", ARM_FIELDS, "Arm word: 16 bytes, `lo` at the lower address, each little endian.", PREFIX),
    ]
    remote = (f"(UINT64_C(1) << {REMOTE_BIT} | (uint64_t)(port) << {REMOTE_PORT_LSB} \\\n"
              f"    | (uint64_t)(span) << {REMOTE_EXPORT_LSB} | (uint64_t)(offset))")
    counter = f"(UINT64_C({COUNTER_SPACE}) << 60 | (uint64_t)(block) << {BLOCK_LSB})"
    text = Path(__file__).with_name("dmace_endpoint.h.in").read_text(encoding="utf-8")
    for mark, made in (("@TABLES@", "\n".join(tables).rstrip()), ("@REMOTE@", remote), ("@COUNTER@", counter),
                       ("@PAGES@", str(config.triggers.pages)), ("@OFFSET_BITS@", str(OFFSET_WIDTH))):
        text = text.replace(mark, made)
    return text


def _sizes(config: EndpointConfig) -> list[str]:
    return [
        "/* Trigger counters. */",
        *(define(name, f"{value}u", doc, PREFIX) for name, value, doc in (
            ("BLOCKS", config.trigger_blocks, None),
            ("COUNTERS_PER_BLOCK", COUNTERS_PER_BLOCK, None),
            ("SLOT_BYTES", SLOT_BYTES, "of the preparation page, for each counter"),
            ("GENERATION_BITS", GENERATION_WIDTH, "of a generation, in ticks and in the flag of a stamped signal"),
            ("SUM_BITS", THRESHOLD_WIDTH, "of the sum in the flag of a stamped signal"),
            ("SIGNAL_BITS", OFFSET_WIDTH + REGION_ID_WIDTH, "of the value of a signal"),
        )),
        "",
    ]
