# SPDX-License-Identifier: Apache-2.0
"""The requester transport under Verilator, driven by rows of stimulus in C++ and called through ctypes."""

import ctypes
from array import array
from enum import IntEnum
from functools import cache
from pathlib import Path

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.rdma.requester.transport import RequesterTransport
from sim.verilator.design import Design
from sim.verilator.program import build_program

__all__ = ["Event", "FlatTransport", "Stimulus", "TransportBench"]

_STIMULUS, _EVENT = 11, 6

COUNTS = ("sent", "retransmitted", "retired", "timeouts", "naks", "rnrs", "dropped")


class Stimulus(IntEnum):
    """Kinds of rows that are fed; ``requester_bench.cpp`` describes them."""

    POSTED = 0
    RECEIVED = 1
    CONNECTION = 2
    STOP = 3
    NOTIFIED = 4


class Event(IntEnum):
    """Kinds of rows that are recorded."""

    SEND = 0
    RETIRE = 1
    RETURNED = 2
    FAULT = 3
    TAKEN = 4


class FlatTransport(wiring.Component):
    """The transport with ports of at most 64 bits."""

    def __init__(self, config):
        self.config = config
        qp, index = config.qp_bits, config.packet_bits
        super().__init__({
            "posted_valid": In(1), "posted_ready": Out(1), "posted_qp": In(qp), "posted_index": In(index),
            "posted_read": In(1), "posted_length": In(16), "posted_cost": In(16),
            "received_valid": In(1), "received_ready": Out(1), "received_qp": In(qp), "received_opcode": In(8),
            "received_psn": In(24), "received_syndrome": In(8), "received_msn": In(24), "received_length": In(16),
            "received_data": In(64), "received_first": In(1), "received_last": In(1),
            "connection_valid": In(1), "connection_qp": In(qp), "connection_open": In(1), "connection_psn": In(24),
            "connection_timeout": In(5), "connection_retries": In(3), "connection_rnr_retries": In(3),
            "connection_max_reads": In(4), "connection_selective": In(1), "connection_congestion": In(1),
            "stop_valid": In(1), "stop_qp": In(qp), "notified_valid": In(1), "notified_qp": In(qp),
            "send_valid": Out(1), "send_ready": In(1), "send_index": Out(index), "send_psn": Out(24),
            "send_ackreq": Out(1), "retire_valid": Out(1), "retire_ready": In(1), "retire_index": Out(index),
            "retire_failed": Out(1), "returned_valid": Out(1), "returned_ready": In(1), "returned_index": Out(index),
            "returned_data": Out(64), "returned_first": Out(1), "returned_last": Out(1),
            "fault_valid": Out(1), "fault_qp": Out(qp), "fault_code": Out(4), "status_qp": In(qp),
            "outstanding": Out(16), "oldest": Out(24), "next_psn": Out(24), "rate": Out(9), "counts": Out(len(COUNTS)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.transport = inner = RequesterTransport(self.config)
        posted, header = inner.posted.payload, inner.received.payload.header
        for name in ("posted", "received"):
            stream = getattr(inner, name)
            m.d.comb += [stream.valid.eq(getattr(self, f"{name}_valid")),
                         getattr(self, f"{name}_ready").eq(stream.ready)]
        for name in ("send", "retire", "returned"):
            stream = getattr(inner, name)
            m.d.comb += [stream.ready.eq(getattr(self, f"{name}_ready")),
                         getattr(self, f"{name}_valid").eq(stream.valid)]
        m.d.comb += [
            *(posted[name].eq(getattr(self, f"posted_{name}")) for name in ("qp", "index", "read", "length", "cost")),
            header.qpn.eq(0), header.source.eq(0),
            *(header[name].eq(getattr(self, f"received_{name}"))
              for name in ("qp", "opcode", "psn", "syndrome", "msn", "length")),
            *(inner.received.payload[name].eq(getattr(self, f"received_{name}")) for name in ("data", "first", "last")),
            inner.connections.valid.eq(self.connection_valid), inner.connections.qp.eq(self.connection_qp),
            inner.connections.entry.send_psn.eq(self.connection_psn),
            *(inner.connections.entry[name].eq(getattr(self, f"connection_{name}")) for name in (
                "open", "timeout", "retries", "rnr_retries", "max_reads", "selective", "congestion")),
            *(self_signal.eq(signal) for name in ("stop", "notified") for self_signal, signal in (
                (getattr(inner, name).valid, getattr(self, f"{name}_valid")),
                (getattr(inner, name).qp, getattr(self, f"{name}_qp")))),
            *(getattr(self, f"send_{name}").eq(inner.send.payload[name]) for name in ("index", "psn", "ackreq")),
            *(getattr(self, f"retire_{name}").eq(inner.retire.payload[name]) for name in ("index", "failed")),
            *(getattr(self, f"returned_{name}").eq(inner.returned.payload[name])
              for name in ("index", "data", "first", "last")),
            self.fault_valid.eq(inner.fault.valid), self.fault_qp.eq(inner.fault.qp),
            self.fault_code.eq(inner.fault.code),
            inner.status.qp.eq(self.status_qp), self.outstanding.eq(inner.status.outstanding),
            self.oldest.eq(inner.status.oldest), self.next_psn.eq(inner.status.next),
            self.rate.eq(inner.status.rate),
            self.counts.eq(Cat(getattr(inner.counts, name) for name in COUNTS)),
        ]
        return m


_Handle, _Number, _Rows = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p
_FUNCTIONS = {
    "create": (_Handle, _Number), "destroy": (None, _Handle), "reset": (None, _Handle),
    "rates": (None, _Handle, ctypes.c_double, ctypes.c_double, ctypes.c_double, _Number),
    "feed": (None, _Handle, _Rows, _Number), "run": (_Number, _Handle, _Number, ctypes.POINTER(_Rows)),
    "status": (None, _Handle, ctypes.c_uint32, _Rows), "count": (_Number, _Handle, ctypes.c_uint32),
}


@cache
def _library(config):
    here = Path(__file__).parent
    made = build_program(Design(FlatTransport, config), name="requester_transport", main=here / "requester_bench.cpp",
                         shared=True)
    return ctypes.CDLL(str(made.path))


class TransportBench:
    """A simulated transport after ``rst``; data beats have 8 bytes.

    ``send``, ``retire``, ``returned``: probability that the stream is accepted in a cycle. ``interval``: cycles from
    one packet on the line to the next.
    """

    def __init__(self, config, *, seed=1, send=1.0, retire=1.0, returned=1.0, interval=1):
        if config.data_width != 64:
            raise ValueError(f"The bench needs data_width=64, not {config.data_width}")
        self.config, self.cycle, self._rows = config, 0, array("Q")
        loaded = _library(config)
        self._call = {}
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = self._call[name] = loaded[f"bench_{name}"]
            function.restype, function.argtypes = result, arguments
        self._handle = self._call["create"](seed)
        self.set_rates(send=send, retire=retire, returned=returned, interval=interval)

    def __del__(self):
        self._call["destroy"](self._handle)

    def set_rates(self, *, send=1.0, retire=1.0, returned=1.0, interval=1):
        self._call["rates"](self._handle, send, retire, returned, interval)

    def feed(self, kind, cycle, qp, *values):
        self._rows.extend((kind, cycle, qp, *values, *(0,) * (_STIMULUS - 3 - len(values))))

    def reset(self):
        self._call["reset"](self._handle)

    def run(self, cycles):
        """Events of the next cycles: kind, cycle, and further numbers."""
        if self._rows:
            self._call["feed"](self._handle, self._rows.buffer_info()[0], len(self._rows) // _STIMULUS)
            self._rows = array("Q")
        rows = ctypes.c_void_p()
        count = self._call["run"](self._handle, cycles, ctypes.byref(rows))
        self.cycle += cycles
        flat = array("Q")
        if count:
            flat.frombytes(ctypes.string_at(rows.value, 8 * _EVENT * count))
        return [flat[at:at + _EVENT] for at in range(0, len(flat), _EVENT)]

    def status(self, qp):
        """Outstanding packets, oldest PSN, next PSN, and rate; takes a cycle."""
        found = array("Q", bytes(32))
        self._call["status"](self._handle, qp, found.buffer_info()[0])
        self.cycle += 1
        return tuple(found)

    def counts(self):
        return {name: self._call["count"](self._handle, number) for number, name in enumerate(COUNTS)}
