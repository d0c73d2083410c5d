# SPDX-License-Identifier: Apache-2.0
"""Interfaces of the RoCEv2 unit's stages that are not streams: configuration, faults, status."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .config import RdmaConfig
from .layouts import connection_layout, region_layout, remote_layout
from .protocol import PSN_WIDTH

__all__ = ["ConnectionWrite", "FaultSignature", "MarkSignature", "RecordsTaken", "RegionWrite", "RemoteWrite",
           "RequesterStatus", "ResponderStatus", "StationSettings", "StopSignature"]


class ConnectionWrite(wiring.Signature):
    """Software opens or closes a queue pair: in the cycle of ``valid``, without back-pressure.

    Each stage keeps the fields that it needs, and sets its own state of the queue pair from ``entry``. Software opens
    a queue pair only when it is idle: closed, and neither half of it busy.
    """

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"valid": Out(1), "qp": Out(config.qp_bits), "entry": Out(connection_layout())})


class RegionWrite(wiring.Signature):
    """Software commits an entry of the table of local regions: in the cycle of ``valid``, without back-pressure."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"valid": Out(1), "region": Out(config.region_bits), "entry": Out(region_layout())})


class RemoteWrite(wiring.Signature):
    """Software commits an entry of the table of remote memories: in the cycle of ``valid``, without back-pressure."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"valid": Out(1), "remote": Out(config.remote_bits), "entry": Out(remote_layout(config))})


class StationSettings(wiring.Signature):
    """Addresses of this Ethernet port: levels from registers, which software changes only while all queue pairs are
    closed."""

    def __init__(self) -> None:
        super().__init__({"mac": Out(48), "ipv4": Out(32), "ipv6": Out(128)})


class FaultSignature(wiring.Signature):
    """One half of a queue pair failed and has stopped: a strobe. ``code`` is a :class:`~.fault.Fault`."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"valid": Out(1), "qp": Out(config.qp_bits), "code": Out(4)})


class StopSignature(wiring.Signature):
    """The queue pair failed: both halves stop, and what the requester has of it fails. A strobe; repeated stops have
    no effect."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"valid": Out(1), "qp": Out(config.qp_bits)})


class MarkSignature(wiring.Signature):
    """Something happened to a queue pair: a strobe."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"valid": Out(1), "qp": Out(config.qp_bits)})


class RecordsTaken(wiring.Signature):
    """Software has consumed the records of queue pair ``qp`` before number ``head``, modulo 2 ** 32: a strobe.

    Both ends count records from 0 when the queue pair is opened.
    """

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"valid": Out(1), "qp": Out(config.qp_bits), "head": Out(32)})


class RequesterStatus(wiring.Signature):
    """State of the requester's half of queue pair ``qp``, at most 4 cycles old; ``qp`` is a level from a register.

    ``outstanding``: packets that are accepted and have not retired. ``oldest``, ``next``: PSN of the oldest packet
    without acknowledgement and of the next new one. ``rate``: 256 is the line rate.
    """

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"qp": In(config.qp_bits), "outstanding": Out(config.packet_bits + 1),
                          "oldest": Out(PSN_WIDTH), "next": Out(PSN_WIDTH), "rate": Out(9)})


class ResponderStatus(wiring.Signature):
    """State of the responder's half of queue pair ``qp``, at most 4 cycles old; ``qp`` is a level from a register.

    ``busy``: memory is being read or written for it. ``expected``: next PSN. ``messages``: MSN.
    """

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"qp": In(config.qp_bits), "busy": Out(1), "expected": Out(PSN_WIDTH), "messages": Out(24)})
