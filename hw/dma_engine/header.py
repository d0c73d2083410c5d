"""The C header ``dmace_dma.h``: registers, words, codes, and functions that pack a request and read a completion.

Everything is generated from ``registers`` and ``words``, so the header cannot differ from the hardware. It is C11
and C++17 without a compiled part; its functions take and return plain 64-bit integers, so that they can run on a GPU.
"""

from hw.regs import to_c_header

from .config import PAGE_BYTES
from .registers import register_map
from .words import COMPLETION_FIELDS, NATIVE_FIELDS, Command, Opcode, RequestFlag, Status, field_positions

__all__ = ["c_header"]

PREFIX = "DMACE_DMA"

_CODES = (
    ("OP", Opcode, "Opcodes of a native word."),
    ("FLAG", RequestFlag, "Flags of a native word."),
    ("STATUS", Status, "How a request ended; bits 5:4 tell the side, 1 source, 2 destination."),
    ("COMMAND", Command, "Values of the register QUEUE_COMMAND."),
)


def c_header(config):
    """Text of ``dmace_dma.h`` for an engine of these sizes."""
    return "\n".join([
        f"#ifndef {PREFIX}_H",
        f"#define {PREFIX}_H",
        "",
        "#include <stdint.h>",
        "",
        to_c_header(register_map(config), PREFIX),
        *_sizes(config),
        *(line for name, codes, doc in _CODES for line in _code_lines(name, codes, doc)),
        *_fields("WORD", NATIVE_FIELDS, "Native word: 16 bytes, `lo` at the lower address, each little endian."),
        *_fields("COMPLETION", COMPLETION_FIELDS, "SC and RC words: 8 bytes, little endian."),
        _functions(),
        f"#endif /* {PREFIX}_H */",
        "",
    ])


def _define(name, value, doc=None):
    return f"#define {PREFIX}_{name} {value}" + (f" /* {doc} */" if doc else "")


def _sizes(config):
    return [
        "/* Doorbells: queue q takes 16-byte stores anywhere in the page at q * PAGE. */",
        _define("DOORBELL_PAGE", f"{PAGE_BYTES}u", "bytes"),
        _define("QUEUES", f"{config.queues}u"),
        _define("QUEUE_DEPTH", f"{config.queue_depth}u", "words that wait behind the one being scheduled"),
        _define("REGIONS", f"{config.regions}u"),
        "",
    ]


def _code_lines(kind, codes, doc):
    return [f"/* {doc} */", *(_define(f"{kind}_{code.name}", f"0x{int(code):02x}u") for code in codes), ""]


def _fields(kind, fields, doc):
    """Shift and mask of each field within its 64-bit half; the mask is not shifted."""
    lines = [f"/* {doc} */"]
    for name, (lsb, width) in field_positions(fields).items():
        half = "hi" if lsb >= 64 else "lo"
        where = f"in {half}" if sum(width for _, width in fields) > 64 else None
        name = f"{kind}_{name.upper()}"
        lines += [_define(f"{name}_SHIFT", f"{lsb % 64}u", where),
                  _define(f"{name}_MASK", f"UINT64_C(0x{(1 << width) - 1:x})")]
    return [*lines, ""]


def _functions():
    halves = {"lo": [], "hi": []}
    for name, (lsb, _) in field_positions(NATIVE_FIELDS).items():
        value = f"{PREFIX}_OP_COPY" if name == "opcode" else name
        halves["hi" if lsb >= 64 else "lo"].append(
            f"(((uint64_t){value} & {PREFIX}_WORD_{name.upper()}_MASK) << {PREFIX}_WORD_{name.upper()}_SHIFT)")
    packed = "\n".join(
        f"    word.{half} = " + "\n        | ".join(parts) + ";" for half, parts in halves.items())
    accessors = "\n\n".join(
        f"{_ATTRIBUTE} uint{_c_width(width)}_t dmace_dma_{name}(uint64_t completion)\n{{\n"
        f"    return (uint{_c_width(width)}_t)((completion >> {PREFIX}_COMPLETION_{name.upper()}_SHIFT)"
        f" & {PREFIX}_COMPLETION_{name.upper()}_MASK);\n}}"
        for name, width in COMPLETION_FIELDS)
    return _TEMPLATE.format(attribute=_ATTRIBUTE, packed=packed, accessors=accessors)


def _c_width(width):
    return next(size for size in (8, 16, 32, 64) if width <= size)


_ATTRIBUTE = "DMACE_DMA_FN"

_TEMPLATE = """\
/* Put in front of every function; define it yourself for a compiler that wants more. */
#ifndef {attribute}
#if defined(__CUDACC__) || defined(__HIPCC__)
#define {attribute} static __host__ __device__ inline
#else
#define {attribute} static inline
#endif
#endif

/* A request: store both halves with one 16-byte store. */
typedef struct dmace_dma_word {{
    uint64_t lo;
    uint64_t hi;
}} dmace_dma_word;

/* A copy of `length` bytes. A value that does not fit its field is cut off. */
{attribute} dmace_dma_word dmace_dma_copy_word(uint32_t src_region, uint64_t src_offset, uint32_t dst_region,
                                            uint64_t dst_offset, uint32_t length, uint32_t flags)
{{
    dmace_dma_word word;
{packed}
    return word;
}}

/* Requests ended, failures, and the status of the latest failure, of an SC or RC word. */
{accessors}

/* Whether the first `count` requests of the queue have ended. Counts wrap: valid within half their range. */
{attribute} int dmace_dma_reached(uint64_t completion, uint32_t count)
{{
    return (uint32_t)(dmace_dma_count(completion) - count) < UINT32_C(0x80000000);
}}
"""
