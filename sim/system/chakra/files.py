# SPDX-License-Identifier: Apache-2.0
"""Files of traces: which there are, and the messages of one."""

import gzip
import json
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from google.protobuf.message import DecodeError

from hw.errors import UserError

from . import schema
from .schema import GlobalMetadata, NodeProto

__all__ = ["content", "load_json", "messages", "ranks"]

GZIP = b"\x1f\x8b"

SCHEMA = b'"schema'
"""Soon after the first bracket of PyTorch's JSON."""


def ranks(prefix: Path, suffixes: Sequence[str]) -> list[Path]:
    """``PREFIX.0SUFFIX``, ``PREFIX.1SUFFIX``, ..., with the first suffix of which there are any.

    Raises
    ------
    UserError
        If there are none, or one is missing.
    """
    for suffix in suffixes:
        pattern = re.compile(rf"{re.escape(prefix.name)}\.(\d+){re.escape(suffix)}")
        found = {int(match[1]): path for path in prefix.parent.glob("*") if (match := pattern.fullmatch(path.name))}
        if found:
            for rank in range(len(found)):
                if rank not in found:
                    raise UserError(f"there is no trace {prefix}.{rank}{suffix}, but one of rank {max(found)}.")
            return [found[rank] for rank in range(len(found))]
    raise UserError(f"there is no trace {prefix}.0{suffixes[0]}.")


def content(path: Path) -> bytes:
    """Bytes of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"the trace {path} cannot be read: {error.strerror}.") from None


def load_json(path: Path, what: str) -> Any:
    """Object in a JSON file, which may be compressed by gzip.

    Parameters
    ----------
    path : Path
    what : str
        What it should be, with its article, for messages.

    Raises
    ------
    UserError
        If it is cut off, or is anything else.
    """
    data = content(path)
    try:
        if data.startswith(GZIP):
            data = gzip.decompress(data)
        return json.loads(data)
    except (EOFError, OSError, zlib.error):
        raise UserError(f"{path} is not {what}: its gzip data is cut off or damaged.") from None
    except json.JSONDecodeError as error:
        ended = error.pos >= len(error.doc.rstrip()) - 1 or error.msg.startswith("Unterminated string")
        cut = ended and error.doc.lstrip()[:1] in ("{", "[")
        raise UserError(f"{path} is not {what}: it " + ("is cut off." if cut else
                        f"is not JSON (line {error.lineno}: {error.msg}).")) from None
    except (UnicodeDecodeError, RecursionError):
        raise UserError(f"{path} is not {what}: it is not JSON.") from None


def messages(path: Path) -> tuple[schema.Attributed, list[schema.Node]]:
    """Metadata and nodes of a file of protobuf messages, each after its length."""
    data = content(path)
    if data.startswith(GZIP):
        raise UserError(f"{path} is compressed by gzip; decompress it first.")
    if data.startswith(b"{") and SCHEMA in data[:100]:
        raise UserError(f"{path} is JSON and no Chakra trace in protobuf; PyTorch's own traces are read as "
                        "pytorch:PREFIX.")
    if not data:
        raise UserError(f"{path} is no Chakra trace, as it is empty.")
    metadata: schema.Attributed | None = None
    nodes: list[schema.Node] = []
    at = 0
    while at < len(data):
        size, begin = _length(data, at)
        if begin < 0 or begin + size > len(data):
            if metadata is None:
                raise UserError(f"{path} is no Chakra trace: it does not begin with a message and its length.")
            raise UserError(f"{path} is cut off in message {len(nodes) + 1}, at byte {at}.")
        try:
            if metadata is None:
                metadata = cast(schema.Attributed, GlobalMetadata.FromString(data[begin:begin + size]))
            else:
                nodes.append(cast(schema.Node, NodeProto.FromString(data[begin:begin + size])))
        except DecodeError:
            raise UserError(f"{path} is no Chakra trace: message {len(nodes) + (metadata is not None)}, at byte {at}, "
                            "cannot be decoded.") from None
        at = begin + size
    if metadata is None or not nodes:
        raise UserError(f"{path} is no Chakra trace, or has no nodes.")
    return metadata, nodes


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A varint, and where it ends; -1 if it does not."""
    value = 0
    for place in range(10):
        if at + place >= len(data):
            break
        value |= (data[at + place] & 127) << 7 * place
        if data[at + place] < 128:
            return value, at + place + 1
    return 0, -1
