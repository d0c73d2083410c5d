# SPDX-License-Identifier: Apache-2.0
"""The guest's output: results of its parts, spans of the peer's memory, and what is wrong with them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Console", "Span", "pattern"]

_PART = re.compile(r"PART (\w+) (pass|fail) (\d+\.\d)")
_SPAN = re.compile(r"p2p: span (\d+) (\d+) (\d+)")
_GOLDEN = 0x9E3779B97F4A7C15


def pattern(seed: int, length: int) -> bytes:
    """The bytes that ``part_pattern`` of the guest makes."""
    return bytes(((index + seed) * _GOLDEN >> 56) & 0xFF for index in range(length))


@dataclass(frozen=True)
class Span:
    """Bytes that the guest's part `p2p` has written to the peer."""

    offset: int
    length: int
    seed: int


@dataclass
class Console:
    """Lines of the guest's console, one after another."""

    lines: list[str] = field(default_factory=list)
    results: dict[str, tuple[bool, float]] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    result: str | None = None

    def add(self, line: str) -> None:
        """Take a line, without its end."""
        self.lines.append(line)
        if found := _PART.fullmatch(line):
            self.results[found[1]] = found[2] == "pass", float(found[3])
        elif found := _SPAN.fullmatch(line):
            self.spans.append(Span(*map(int, found.groups())))
        elif line.startswith("RESULT "):
            self.result = line.removeprefix("RESULT ")

    def faults(self, parts: Sequence[str]) -> list[str]:
        """Sentences about what did not pass."""
        faults = [f"The part {part} {'failed' if part in self.results else 'did not end'}." for part in parts
                  if not self.results.get(part, (False, 0.0))[0]]
        if self.result != "pass":
            faults.append(f"The guest's result is {self.result or 'missing'}.")
        if "p2p" in parts and not self.spans:
            faults.append("The part p2p named no span of the peer's memory.")
        return faults

    def peer_faults(self, memory: Path) -> list[str]:
        """Sentences about bytes of the peer's memory, read from the file behind it, that the card did not write."""
        faults = []
        with memory.open("rb") as file:
            for span in self.spans:
                file.seek(span.offset)
                if file.read(span.length) != pattern(span.seed, span.length):
                    faults.append(f"The peer's memory from {span.offset} to {span.offset + span.length} does not have "
                                  "the bytes that the card wrote.")
        return faults
