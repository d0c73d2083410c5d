# SPDX-License-Identifier: Apache-2.0
"""Fields of transaction-layer packets in the hard block's descriptors (PG213, "AXI4-Stream Interface Description").

Descriptors precede the payload on RQ and CQ (four double words) and on RC and CC (three).
"""

from amaranth.lib import data, enum

from .config import ATTRIBUTE_WIDTH, LENGTH_WIDTH

__all__ = [
    "Attributes", "CompleterCompletion", "CompleterRequest", "CompletionStatus", "ErrorCode", "RequestType",
    "RequesterCompletion", "RequesterRequest",
]


class RequestType(enum.Enum, shape=4):
    """Request types that the adapter sends or accepts; others arrive as their number."""

    MEMORY_READ = 0
    MEMORY_WRITE = 1
    IO_READ = 2
    IO_WRITE = 3
    FETCH_ADD = 4
    SWAP = 5
    COMPARE_SWAP = 6
    LOCKED_READ = 7
    CONFIG_READ_0 = 8
    CONFIG_READ_1 = 9
    CONFIG_WRITE_0 = 10
    CONFIG_WRITE_1 = 11
    MESSAGE = 12
    VENDOR_MESSAGE = 13
    ATS_MESSAGE = 14
    RESERVED = 15


class CompletionStatus(enum.Enum, shape=3):
    """Status of a completion (PCI Express Base 2.2.9)."""

    SUCCESSFUL = 0
    UNSUPPORTED_REQUEST = 1
    CONFIG_RETRY = 2
    COMPLETER_ABORT = 4


class ErrorCode(enum.Enum, shape=4):
    """Error code of a completion on RC. Codes without a name are treated as errors, too."""

    NONE = 0
    POISONED = 1
    BAD_STATUS = 2
    """Status is not successful."""
    INVALID_LENGTH = 3
    MISMATCH = 4
    """Requester ID, traffic class or attributes differ from the request."""
    INVALID_ADDRESS = 5
    INVALID_TAG = 6
    """No request with this tag is in flight."""
    FUNCTION_RESET = 8
    TIMEOUT = 9


Attributes = data.StructLayout({"no_snoop": 1, "relaxed_ordering": 1, "id_based_ordering": 1})
"""Attributes of a request or completion."""

RequesterRequest = data.StructLayout({
    "address_type": 2, "address": 62, "dwords": LENGTH_WIDTH, "request_type": RequestType, "poisoned": 1,
    "requester_function": 8, "requester_bus": 8, "tag": 8, "completer_id": 16, "requester_id_enable": 1,
    "traffic_class": 3, "attributes": ATTRIBUTE_WIDTH, "force_ecrc": 1,
})
"""Descriptor on RQ. ``address`` is in double words. ``requester_bus`` is used with ``requester_id_enable`` only."""

RequesterCompletion = data.StructLayout({
    "lower_address": 12, "error_code": 4, "byte_count": 13, "locked": 1, "request_completed": 1, "_reserved_0": 1,
    "dwords": LENGTH_WIDTH, "status": 3, "poisoned": 1, "_reserved_1": 1, "requester_id": 16,
    "tag": 8, "completer_id": 16, "_reserved_2": 1, "traffic_class": 3, "attributes": ATTRIBUTE_WIDTH,
    "_reserved_3": 1,
})
"""Descriptor on RC. ``lower_address``: address of the first byte, modulo 4 KiB. ``byte_count``: bytes of the request
that remain, this packet included."""

CompleterRequest = data.StructLayout({
    "address_type": 2, "address": 62, "dwords": LENGTH_WIDTH, "request_type": RequestType, "_reserved_0": 1,
    "requester_id": 16, "tag": 8, "target_function": 8, "bar": 3, "bar_aperture": 6, "traffic_class": 3,
    "attributes": ATTRIBUTE_WIDTH, "_reserved_1": 1,
})
"""Descriptor on CQ. ``address`` is in double words. ``bar_aperture``: log2 of the BAR's size."""

CompleterCompletion = data.StructLayout({
    "lower_address": 7, "_reserved_0": 1, "address_type": 2, "_reserved_1": 6, "byte_count": 13, "locked": 1,
    "_reserved_2": 2, "dwords": LENGTH_WIDTH, "status": CompletionStatus, "poisoned": 1, "_reserved_3": 1,
    "requester_id": 16, "tag": 8, "completer_function": 8, "completer_bus": 8, "completer_id_enable": 1,
    "traffic_class": 3, "attributes": ATTRIBUTE_WIDTH, "force_ecrc": 1,
})
"""Descriptor on CC. ``completer_bus`` is used with ``completer_id_enable`` only."""
