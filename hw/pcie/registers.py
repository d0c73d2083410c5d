# SPDX-License-Identifier: Apache-2.0
"""The PCIe adapter's own registers, and the whole of BAR 0."""

from collections.abc import Sequence
from dataclasses import replace

from hw.regs import Access, Field, Register, RegisterMap, constant_field

from .config import PcieConfig

__all__ = ["BAR0_BITS", "COUNTERS", "MSIX_PENDING", "MSIX_TABLE", "WINDOWS", "WINDOW_BITS", "bar0_map", "register_map"]

ID_VALUE = 0x5043_4945
"""ASCII ``PCIE``."""

VERSION = 1

WINDOW_BITS = 14
"""Log2 of the bytes in a window of BAR 0."""

BAR0_BITS = 16
"""Log2 of the bytes in BAR 0."""

WINDOWS = {"ENDPOINT": 0x0000, "PCIE": 0x4000, "MSIX": 0x8000}
"""Offset of each block in BAR 0."""

MSIX_TABLE, MSIX_PENDING = 0x8000, 0x9000
"""Offsets of the MSI-X table and the pending bit array in BAR 0."""

TIMEOUT_RESET = 12_500_000
"""50 ms at 250 MHz, the limit that PCI Express Base 2.8 recommends."""

RO, RW = Access.RO, Access.RW

COUNTERS = (
    ("UNSUPPORTED", "Completions with the status unsupported request (UR)."),
    ("ABORTED", "Completions with the status completer abort (CA)."),
    ("POISONED", "Poisoned completions."),
    ("MALFORMED", "Completions whose length, address or byte count their request does not allow."),
    ("UNEXPECTED", "Completions without a request in flight, dropped."),
    ("TIMED_OUT", "Read requests whose last completion did not arrive in time."),
    ("WRITES_REFUSED", "Write bursts whose strobes no TLP can express, completed with SLVERR."),
    ("REQUESTS_REFUSED", "Requests from the link that were completed with UR, dropped, or refused by the endpoint."),
)
"""Name and meaning of each free-running 32-bit counter."""


def register_map(config: PcieConfig) -> RegisterMap:
    """Registers of the adapter itself."""
    control: Sequence[Register] = (
        Register("ID", [constant_field("value", 32, ID_VALUE, "ASCII PCIE.")], doc="Identifies this block."),
        Register("VERSION", [constant_field("value", 32, VERSION, "Version of this register map.")],
                 doc="A new version requires a change of software."),
        Register("SIZES", [
            constant_field("tags", 12, config.tags, "Read requests in flight."),
            constant_field("reorder_slots", 12, config.reorder_slots, "Stored read requests, to keep their order."),
            constant_field("vectors", 8, config.vectors, "MSI-X vectors."),
        ], doc="Sizes of this adapter."),
        Register("STATUS", [
            Field("max_payload", 2, RO, doc="MPS is 128 bytes shifted left by this number."),
            Field("max_read", 3, RO, lsb=4, doc="MRRS is 128 bytes shifted left by this number."),
            Field("bus_master", 1, RO, lsb=8, doc="The function may send requests."),
            Field("extended_tags", 1, RO, doc="More than 32 tags are in use."),
            Field("msix_enable", 1, RO, doc="MSI-X is enabled."),
            Field("msix_mask", 1, RO, doc="All vectors are masked."),
        ], doc="Settings that the host has made in the configuration space."),
        Register("COMPLETION_TIMEOUT", [Field("cycles", 32, RW, reset=TIMEOUT_RESET, doc="0 for no limit.")],
                 doc="A read request times out when its last completion has not arrived after one to two times this "
                     "number of cycles."),
        Register("MSIX_MODERATION", [Field("cycles", 16, RW, doc="0 for no limit.")],
                 doc="Minimum of cycles between two messages of a vector; requests in between are combined."),
    )
    counters = [Register(f"COUNT_{name}", [Field("value", 32, RO, doc="Wraps; zeroed by rst only.")], doc=doc)
                for name, doc in COUNTERS]
    return RegisterMap("pcie", [*control, *counters],
                       doc="Registers of the PCIe adapter.", addr_width=WINDOW_BITS)


def bar0_map(endpoint: RegisterMap, config: PcieConfig) -> RegisterMap:
    """All registers in BAR 0 but for the MSI-X structures: the endpoint's, and with the prefix PCIE the adapter's."""
    own = [replace(register, name=f"PCIE_{register.name}", offset=WINDOWS["PCIE"] + register.offset)
           for register in register_map(config).registers]
    return RegisterMap("card_space", [*endpoint.registers, *own],
                       doc="BAR 0: the endpoint and the PCIe adapter.", addr_width=BAR0_BITS)
