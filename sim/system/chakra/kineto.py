# SPDX-License-Identifier: Apache-2.0
"""Durations from the file that ``torch.profiler.profile`` exports (Kineto's format, Chrome's trace events).

``Record function id`` of an event is ``rf_id`` of a node of the execution trace that was recorded beside it. With a
GPU, kernels name by ``External id`` the call that started them; then kernels count, and without a GPU the calls.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hw.errors import UserError

from .files import load_json
from .host import Call

__all__ = ["Durations"]

WHAT = "a trace of torch.profiler.profile"

DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")

MOST_MICROSECONDS = 1e12


class Durations:
    """Durations of calls.

    Parameters
    ----------
    path : Path
    rank : int
        Rank of the execution trace beside it.
    calls : iterable of Call
        All calls of the execution trace.

    Raises
    ------
    UserError
        If the file is anything else, or of another run or rank.
    """

    def __init__(self, path: Path, rank: int, calls: Iterable[Call]) -> None:
        made = load_json(path, WHAT)
        if not isinstance(made, Mapping) or not isinstance(made.get("traceEvents"), list):
            raise UserError(f"{path} is not {WHAT}: it has no traceEvents.")
        its = made.get("distributedInfo")
        if isinstance(its, Mapping) and its.get("rank", rank) != rank:
            raise UserError(f"{path} is of rank {its['rank']}, and the trace beside it of rank {rank}.")
        self.spans: dict[int, tuple[float, float]] = {}
        self.kernels: defaultdict[int, float] = defaultdict(float)
        names: dict[int, str] = {}
        # Times are relative to the first event, as sums of large numbers would lose nanoseconds.
        base: float | None = None
        external: dict[int, int] = {}
        device: list[tuple[int, float]] = []
        for event in made["traceEvents"]:
            if not isinstance(event, Mapping) or event.get("ph") != "X" or "dur" not in event:
                continue
            begin, duration = (self._microseconds(event, name, path) for name in ("ts", "dur"))
            arguments = event.get("args")
            arguments = arguments if isinstance(arguments, Mapping) else {}
            name = str(event.get("name"))
            if event.get("cat") in DEVICE:
                device.append((_integer(arguments.get("External id")), duration))
            elif (number := _integer(arguments.get("Record function id"))) >= 0:
                names[number] = name
                base = begin if base is None else base
                self.spans[number] = begin - base, begin - base + duration
                external[_integer(arguments.get("External id"))] = number
        self.device = bool(device)
        for number, duration in device:
            if number >= 0 and number in external:
                self.kernels[external[number]] += duration
        known = 0
        for call in calls:
            number = call.attributes.get("rf_id", 0)
            # Annotations of threads and processes have the number 0.
            if number in names and call.parent != 1:
                known += 1
                if names[number] != call.name:
                    raise UserError(f"{path} is of another run than the execution trace beside it: call {number} is "
                                    f"{names[number]!r}, and there {call.name!r}.")
        if not known:
            raise UserError(f"{path} has no call of the execution trace beside it.")

    def seconds(self, call: Call) -> float:
        """Time of a call with all inside: of its kernels, or, without a GPU, in which at least one of them ran."""
        numbers = [one.attributes.get("rf_id", 0) for one in call.walk()]
        if self.device:
            return sum(self.kernels.get(number, 0.0) for number in numbers) / 1e6
        total, until = 0.0, float("-inf")
        for begin, end in sorted(self.spans[number] for number in numbers if number in self.spans):
            total += max(0.0, end - max(begin, until))
            until = max(until, end)
        return total / 1e6

    @staticmethod
    def _microseconds(event: Mapping[str, Any], name: str, path: Path) -> float:
        value = event.get(name)
        limit = MOST_MICROSECONDS if name == "dur" else float("inf")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= limit:
            raise UserError(f"{path}: {name} of event {event.get('name')!r} must be a number from 0 to {limit:g} us, "
                            f"not {value!r}.")
        return float(value)


def _integer(value: object) -> int:
    """A number that names a call; -1 for none."""
    return value if isinstance(value, int) else -1
