# SPDX-License-Identifier: Apache-2.0
"""Watches the pins of the card and what its hard block sends, and ends the test at the first broken rule.

The rules are in :mod:`sim.pcie.stream` (each interface), :mod:`sim.pcie.requests` (a request alone) and
:mod:`sim.pcie.rules` (tags and completions). Requests on RQ are also compared with the TLPs that the library's hard
block made of the same pins: two decoders that share no code must agree. The monitor sleeps while ``tvalid`` is 0.
"""

from collections import deque
from dataclasses import astuple

import cocotb
from cocotb.triggers import RisingEdge
from cocotb.utils import get_sim_time
from cocotbext.pcie.core.tlp import Tlp, TlpType

from sim.pcie.hard_block import HardBlock
from sim.pcie.requests import Request
from sim.pcie.rules import CompleterRules, Limits, RequesterRules
from sim.pcie.stream import Packet, PacketStream, Violation

__all__ = ["Monitor"]

_REQUESTS = {TlpType.MEM_READ, TlpType.MEM_READ_64, TlpType.MEM_WRITE, TlpType.MEM_WRITE_64}
_RESET_CYCLES = 4
"""A card may need these cycles of reset until its outputs are 0."""


class Monitor:
    """All rules on all packet interfaces of one card.

    Parameters
    ----------
    card : :class:`HardBlock`
        The card's hard block.
    grace_ns, grace_beats : int
        After a change of MPS, MRRS, extended tags or bus mastering the former value is still allowed, for requests that
        are in the card's pipeline: until RQ has been idle for this time, or has transferred ``grace_beats``. By default
        these are what a write buffer of 128 beats becomes at most: a TLP of 2 beats for each, behind a read.

    Attributes
    ----------
    requester : :class:`RequesterRules`
        Requests of the card.
    completer : :class:`CompleterRules`
        Completions of the card.
    """

    def __init__(self, card: HardBlock, *, grace_ns: int = 256, grace_beats: int = 400) -> None:
        self.card, self._grace_ns, self._grace_beats = card, grace_ns, grace_beats
        self.requester, self.completer = RequesterRules(), CompleterRules()
        segments = {"cq": card.cq_source.seg_count, "cc": card.cc_sink.seg_count, "rq": card.rq_sink.seg_count,
                    "rc": card.rc_source.seg_count}
        self.streams = {name: PacketStream(name, card.dw, segments=count) for name, count in segments.items()}
        # Requests on RQ that the hard block has not sent: writes, and reads.
        self._unsent: tuple[deque[Request], deque[Request]] = (deque(), deque())
        self._current = self._former = self._configured()
        # The remaining grace, and the time since which RQ has been idle.
        self._ns_left, self._beats_left = 0.0, 0
        self._idle_since: float | None = get_sim_time("ns")
        card.sent.append(self._leaves)
        card.changed.append(self._change)
        card.function_resets.append(self.requester.reset)
        for name in self.streams:
            cocotb.start_soon(self._watch(name))
        cocotb.start_soon(self._watch_reset())

    def _configured(self) -> Limits:
        function = self.card.function
        capability = function.pcie_cap
        return Limits(128 << capability.max_payload_size, 128 << capability.max_read_request_size,
                      256 if capability.extended_tag_field_enable else 32, bool(function.bus_master_enable))

    def _change(self) -> None:
        """The configuration may have changed."""
        if (configured := self._configured()) != self._current:
            self._former, self._current = self.limits, configured
            self._ns_left, self._beats_left = self._grace_ns, self._grace_beats
            if self._idle_since is not None:
                self._idle_since = get_sim_time("ns")

    @property
    def limits(self) -> Limits:
        """The most that is allowed now."""
        idle = 0.0 if self._idle_since is None else get_sim_time("ns") - self._idle_since
        if idle > self._ns_left or self._beats_left <= 0:
            return self._current
        return Limits(*map(max, astuple(self._current), astuple(self._former)))

    async def _watch(self, name: str) -> None:
        dut, stream = self.card.dut, self.streams[name]
        valid, ready, data, keep, last, user = (getattr(dut, f"{name}__{pin}") for pin in (
            "tvalid", "tready", "tdata", "tkeep", "tlast", "tuser"))
        edge, asserted, reset, in_reset = RisingEdge(dut.clk), RisingEdge(valid), dut.rst, 0
        while True:
            await edge
            if int(reset.value):
                in_reset += 1
                if in_reset > _RESET_CYCLES and name in ("rq", "cc") and int(valid.value):
                    raise Violation(f"{name.upper()}: tvalid must be 0 in reset")
            elif int(valid.value):
                in_reset = 0
                pins = (int(data.value), int(keep.value), int(last.value), int(user.value))
                accepted = int(ready.value)
                if name == "rq":
                    self._count_beat(accepted)
                for packet, ended in stream.cycle(1, accepted, pins):
                    self._take(name, packet, ended)
            else:
                in_reset = 0
                for _ in stream.cycle(0, 0):
                    pass
                if name == "rq" and self._idle_since is None:
                    self._idle_since = get_sim_time("ns")
                await asserted

    def _count_beat(self, accepted: int) -> None:
        """RQ is not idle in this cycle."""
        if self._idle_since is not None:
            self._ns_left -= get_sim_time("ns") - self._idle_since
            self._idle_since = None
        self._beats_left -= accepted

    async def _watch_reset(self) -> None:
        while True:
            await RisingEdge(self.card.dut.rst)
            for stream in self.streams.values():
                stream.reset()
            self.requester.reset()
            self.completer.reset()
            for unsent in self._unsent:
                unsent.clear()

    def _take(self, name: str, packet: Packet, ended: bool) -> None:
        if name == "rc" and not ended:
            self.requester.completion(packet)
        elif name == "rq" and ended:
            request = self.requester.request(packet, self.limits)
            self._unsent[request.is_read].append(request)
            if request.is_read and not self._current.bus_master:
                # The hard block drops it.
                del self.requester.in_flight[request.tag]
        elif name == "cq" and ended:
            self.completer.request(packet)
        elif name == "cc" and ended:
            self.completer.completion(packet, self.limits)

    def _leaves(self, tlp: Tlp) -> None:
        """A TLP leaves the hard block: a request must be on RQ; those in front of it were dropped there."""
        if tlp.fmt_type not in _REQUESTS:
            return
        read = not tlp.has_data()
        unsent = self._unsent[read]
        found = (tlp.address, tlp.length, tlp.first_be, tlp.last_be, int(tlp.attr), bytes(tlp.data), tlp.tag)
        while unsent:
            one = unsent.popleft()
            data = b"".join(word.to_bytes(4, "little") for word in one.payload)
            if found == (one.address, one.dwords, one.first_be, one.last_be, one.attributes, data, one.tag):
                return
        raise Violation(f"the hard block sends a memory {'read' if read else 'write'} of {tlp.length} DW at "
                        f"{tlp.address:#x}, tag {tlp.tag}, which was not on RQ")

    def finish(self) -> None:
        """The end of a test: no packet is open, and every request has completed."""
        for name, stream in self.streams.items():
            if not stream.idle:
                raise Violation(f"{name.upper()}: a packet is open at the end")
        self.requester.finish()
        self.completer.finish()
