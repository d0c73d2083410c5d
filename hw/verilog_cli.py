"""``dmace verilog DESIGN``: everything another project needs to take a design into its own SoC."""

import json
from pathlib import Path

from hw.errors import UserError

__all__ = ["configure", "run", "write"]

_DESIGNS = ("dma_engine",)


def configure(parser):
    parser.add_argument("design", choices=_DESIGNS, metavar="DESIGN", help=f"one of {', '.join(_DESIGNS)}")
    from hw.dma_engine.config import PRESETS

    parser.add_argument("--config", choices=tuple(PRESETS), default="base", help="preset (default: base)")
    parser.add_argument("-o", "--output", metavar="DIR", type=Path,
                        help="folder to write to (default: DESIGN-CONFIG)")
    parser.add_argument("--no-assertions", action="store_true",
                        help="leave out the assertions, for tools that read Verilog-2001 only")


def run(args):
    folder = args.output or Path(f"{args.design}-{args.config}")
    for path in write(args.config, folder, assertions=not args.no_assertions):
        print(path)
    return 0


def write(preset, folder, *, assertions=True):
    """Write the DMA engine of ``preset`` to ``folder`` and return the paths."""
    from hw import emit
    from hw.dma_engine import DmaEngine
    from hw.dma_engine.config import PRESETS
    from hw.dma_engine.header import c_header
    from hw.dma_engine.registers import register_map
    from hw.regs import to_json, to_markdown, to_systemrdl

    config = PRESETS[preset]
    registers = register_map(config)
    engine = DmaEngine(config)
    text = emit.verilog(engine, name="dma_engine", assertions=assertions)
    files = {
        "dma_engine.v": text,
        "pins.json": json.dumps({"module": "dma_engine", "config": preset, **emit.pins(engine, text=text)},
                                indent=1) + "\n",
        "registers.json": to_json(registers),
        "registers.md": to_markdown(registers),
        "registers.rdl": to_systemrdl(registers),
        "dmace.h": c_header(config),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_text(content, encoding="utf-8")
    except OSError as error:
        raise UserError(f"Cannot write to {error.filename or folder}: {error.strerror}.") from error
    return [folder / name for name in files]
