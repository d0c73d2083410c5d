# SPDX-License-Identifier: Apache-2.0
"""The C header ``dmace.h``: registers, words, codes, and the functions of threads that post and wait.

The functions are in ``dmace.h.in``; all numbers are inserted from ``registers`` and ``words``, so the header always
agrees with the hardware. C11, C++17 and CUDA, header only.
"""

from pathlib import Path

from hw.common.c_header import code_lines, define, field_lines
from hw.common.sizes import PAGE_BYTES
from hw.common.words import COMPLETION_FIELDS, field_positions
from hw.regs import to_c_header

from .config import DmaConfig
from .descriptors import HEADER_FIELDS, LIST_WORDS, RECORD_FIELDS, DescriptorFlag, DescriptorKind
from .registers import register_map
from .words import ARK_FIELDS, NATIVE_FIELDS, Command, Opcode, QueueMode, RequestFlag, Status

__all__ = ["c_header"]

PREFIX = "DMACE_DMA"

_CODES = (
    ("OP", Opcode, "Opcodes of a native word."),
    ("FLAG", RequestFlag, "Flags of a native word."),
    ("STATUS", Status, "Results of a request; bits 5:4 give the side, 1 source, 2 destination."),
    ("COMMAND", Command, "Values of the register QUEUE_COMMAND."),
    ("MODE", QueueMode, "Values of QUEUE_CONFIG.mode."),
    ("KIND", DescriptorKind, "Kinds of descriptors."),
    ("DESCRIPTOR_FLAG", DescriptorFlag, "Flags of a descriptor."),
)


def c_header(config: DmaConfig) -> str:
    """Text of ``dmace.h`` for an engine of these sizes."""
    tables = [
        to_c_header(register_map(config), PREFIX),
        *_sizes(config),
        *(line for name, codes, doc in _CODES for line in code_lines(name, codes, doc)),
        *field_lines("WORD", NATIVE_FIELDS, "Native word: 16 bytes, `lo` at the lower address, each little endian."),
        *field_lines("ARK", ARK_FIELDS, "ARK word: 8 bytes, little endian."),
        *field_lines("COMPLETION", COMPLETION_FIELDS, "SC and RC words: 8 bytes, little endian."),
        *field_lines("DESCRIPTOR", HEADER_FIELDS, "First 4 bytes of a descriptor, little endian."),
        *field_lines("RECORD", RECORD_FIELDS, "Completion record of a ring: 8 bytes, little endian."),
    ]
    text = Path(__file__).with_name("dmace.h.in").read_text(encoding="utf-8")
    for mark, made in (("@TABLES@", "\n".join(tables).rstrip()), ("@PACK@", _packed()), ("@ARK@", _ark()),
                       ("@ACCESSORS@", _accessors())):
        text = text.replace(mark, made)
    return text


def _sizes(config: DmaConfig) -> list[str]:
    return [
        "/* Doorbells: queue q accepts 16-byte stores anywhere in the page at q * PAGE. */",
        define("DOORBELL_PAGE", f"{PAGE_BYTES}u", "bytes"),
        define("QUEUES", f"{config.queues}u"),
        define("QUEUE_DEPTH", f"{config.queue_depth}u", "words that wait behind the head"),
        define("REGIONS", f"{config.regions}u"),
        define("EXTENDED_QUEUES", f"{config.extended}u", "the first ones, which a descriptor ring can drive"),
        define("LIST_WORDS", f"{LIST_WORDS}u", "most words in one descriptor"),
        "",
    ]


def _packed() -> str:
    """Statements that fill both halves of a word from the parameters of ``dmace_copy_word``."""
    halves: dict[str, list[str]] = {"lo": [], "hi": []}
    for name, (lsb, _) in field_positions(NATIVE_FIELDS).items():
        value = f"{PREFIX}_OP_COPY" if name == "opcode" else name
        halves["hi" if lsb >= 64 else "lo"].append(
            f"(((uint64_t){value} & {PREFIX}_WORD_{name.upper()}_MASK) << {PREFIX}_WORD_{name.upper()}_SHIFT)")
    return "\n".join(f"    word.{half} = " + "\n        | ".join(parts) + ";" for half, parts in halves.items())


def _ark() -> str:
    """Value of an ARK word, of the parameters of ``dmace_ark_word``."""
    return "\n        | ".join(f"(((uint64_t){name} & {PREFIX}_ARK_{name.upper()}_MASK)"
                              f" << {PREFIX}_ARK_{name.upper()}_SHIFT)"
                              for name, _ in ARK_FIELDS if name not in ("req", "reserved"))


def _accessors() -> str:
    """A function per field of a completion word."""
    return "\n\n".join(
        f"DMACE_FN uint{_c_width(width)}_t dmace_{name}(uint64_t completion)\n{{\n"
        f"    return (uint{_c_width(width)}_t)((completion >> {PREFIX}_COMPLETION_{name.upper()}_SHIFT)"
        f" & {PREFIX}_COMPLETION_{name.upper()}_MASK);\n}}"
        for name, width in COMPLETION_FIELDS)


def _c_width(width: int) -> int:
    return next(size for size in (8, 16, 32, 64) if width <= size)
