# SPDX-License-Identifier: Apache-2.0
"""Sentences about bytes, completion words, error records and requests that differ."""

from collections.abc import Sequence

from dmace.drivers.dma import LogRecord
from hw.common.words import CompletionWord
from hw.dma_engine.model.state import LogEntry, Request
from hw.dma_engine.words import Status

__all__ = ["describe_bytes", "show_field", "show_record", "show_request", "show_word"]


def describe_bytes(wrong: Sequence[tuple[int, int, int]]) -> str:
    """Sentence about wrong bytes, each ``(address, expected, got)``, in order of address."""
    addresses, expected, got = zip(*wrong, strict=True)
    more = " ..." if len(wrong) > 8 else ""
    return (f"{len(wrong)} wrong byte{'s' if len(wrong) > 1 else ''} from {addresses[0]:#x} to "
            f"{addresses[-1]:#x}, expected {bytes(expected[:8]).hex(' ')}{more}, "
            f"got {bytes(got[:8]).hex(' ')}{more}")


def show_field(name: str, value: int) -> str | int:
    return f"{_status(value)}" if name == "status" else value


def _status(value: int) -> str:
    try:
        return Status(value).name
    except ValueError:
        return f"{value:#x}"


def show_word(word: CompletionWord) -> str:
    return f"(count {word.count}, failed {word.failed}, {_status(word.status)})"


def show_record(record: LogRecord | LogEntry) -> str:
    return f"{_status(record.status)} of queue {record.queue} at count {record.count}"


def show_request(request: Request) -> str:
    word = request.word
    if word is None:
        assert request.fault is not None
        return f"one that is {request.fault.name} on its face"
    return (f"{word.length} bytes, region {word.src_region}+{word.src_offset:#x} to "
            f"{word.dst_region}+{word.dst_offset:#x}, flags {word.flags:#x}")
