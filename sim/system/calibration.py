# SPDX-License-Identifier: Apache-2.0
"""Constants of the hardware in clock cycles, as measured from RTL."""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from hw.errors import UserError

__all__ = ["Calibration"]

DEFAULT = Path(__file__).with_name("calibration.json")


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Delays of the accelerator besides links and memory.

    Parameters
    ----------
    beat_bytes : int
        Bytes that fill, receive, transmit and drain each move in a cycle.
    receive_cycles : float
        From a packet's last beat at a port until the FSM may send it on.
    beat_cycles : float
        And for each of its beats, if it is forwarded only when it is known to be whole.
    transmit_cycles : float
        From an FSM's choice of a packet until its first beat can be on the link.
    send_cycles : float
        From the last packet of a send until the FSM can offer the next send's first.
    phase_cycles : float
        From the end of a phase until the next one is entered and its GRANT is ready to go.
    grant_cycles : float
        From a GRANT at a port until the FSM may send.
    start_cycles : float
        From the doorbell's store until the job of the first chunk's fill.
    divide_cycles : float
        And for the division of the buffer into shards of more than a column of 64 bytes.
    chunk_cycles : float
        Between jobs of fills.
    fill_cycles, drain_cycles : float
        From a job's begin to its end, besides beats and the memory's latency.
    turn_cycles : float
        From an FSM's end until it has taken the next filled chunk, and is in its first phase.
    end_cycles : float
        From the end of the last chunk until the completion word is written, besides the memory's latency.
    measured : dict
        How, and of which accelerator.
    """

    beat_bytes: int
    receive_cycles: float
    beat_cycles: float
    transmit_cycles: float
    send_cycles: float
    phase_cycles: float
    grant_cycles: float
    start_cycles: float
    divide_cycles: float
    chunk_cycles: float
    fill_cycles: float
    drain_cycles: float
    turn_cycles: float
    end_cycles: float
    measured: dict[str, Any] = field(default_factory=dict, compare=False, hash=False)

    @classmethod
    def load(cls, path: str | Path = DEFAULT) -> Self:
        """Read a file that ``dmace bench ace --calibration`` wrote; by default the simulator's own."""
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"{path} cannot be read as a calibration: {error}.") from error
        known = {one.name for one in fields(cls)}
        if not isinstance(values, dict) or set(values) - known or known - {"measured"} - set(values):
            raise UserError(f"{path} is no calibration; its names must be {', '.join(sorted(known))}.")
        return cls(**values)

    @property
    def cycles(self) -> dict[str, float]:
        """All constants by name."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "measured"}

    def save(self, path: str | Path) -> None:
        Path(path).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
