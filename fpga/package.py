# SPDX-License-Identifier: Apache-2.0
"""``dmace fpga package``: a Vivado project for a PCIe card, and the designs that each target has."""

from collections.abc import Callable
from pathlib import Path

from hw.errors import UserError

from .vivado import bridge, card
from .vivado.boards import BOARDS

__all__ = ["DESIGNS", "NOT_RUN", "TARGETS", "designs", "write"]

NOT_RUN = "No Vivado has run this: it is checked for syntax, files, ports and widths only."

TARGETS = tuple(dict.fromkeys((*BOARDS, *bridge.CARDS)))

CARD = "card"
"""The design with the project's own PCIe adapter."""

DESIGNS = (CARD, *bridge.CORES)


def designs(target: str) -> tuple[str, ...]:
    """Designs of a target, the preferred one first."""
    cores = bridge.CARDS[target].cores if target in bridge.CARDS else ()
    return (CARD, *cores) if target in BOARDS else cores


def write(target: str, folder: str | Path, *, design: str | None = None, preset: str | None = None,
          status: Callable[[str], None] | None = None) -> list[Path]:
    """Write a project to ``folder``; returns the paths.

    Parameters
    ----------
    target : str
    folder : str or Path
    design : str or None
        None for the first of :func:`designs`.
    preset : str or None
        Preset of the card, None for the target's. Cores have one preset for each target.
    status : callable or None
        Called with a sentence before something that takes minutes.

    Raises
    ------
    UserError
        If the target has no such design or preset, or the folder cannot be written.
    """
    design = design or designs(target)[0]
    if design not in designs(target):
        raise UserError(f"{target} has no design {design}: choose {' or '.join(designs(target))}.")
    if design == CARD:
        chosen = preset or BOARDS[target].preset
        card.lanes(target, chosen)
        if status and chosen in ("wide", "card"):
            status(f"Making the Verilog of the card, {chosen}: about two minutes.")
        files = card.files(target, chosen, not_run=NOT_RUN)
    elif preset not in (None, bridge.CARDS[target].preset):
        raise UserError(f"{target} has {design} only as {bridge.CARDS[target].preset}, to fit its PCIe bridge: omit "
                        "--config.")
    else:
        files = bridge.files(target, design, not_run=NOT_RUN)
    folder = Path(folder)
    try:
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content, encoding="utf-8")
    except OSError as error:
        raise UserError(f"Cannot write to {error.filename or folder}: {error.strerror}.") from error
    return [folder / path for path in files]
