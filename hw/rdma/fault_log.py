# SPDX-License-Identifier: Apache-2.0
"""Failed queue pairs: the first fault of each stops both of its halves, and waits for software.

RequesterTransport, Responder -> FaultLog -> RequesterTransport, Responder, RdmaControl.  Latency: 2 cycles from a fault
to the stop, more when several fail at once.
"""

from amaranth import *
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream import Merge, Queue

from .config import RdmaConfig
from .ports import ConnectionWrite, FaultSignature, StopSignature

__all__ = ["FaultLog", "FaultState", "fault_layout"]

CODE_WIDTH = 4


def fault_layout(config):
    """A queue pair and its :class:`~.fault.Fault`."""
    return data.StructLayout({"qp": config.qp_bits, "code": CODE_WIDTH})


class FaultState(wiring.Signature):
    """State of queue pair ``qp``, at most 2 cycles old. ``code`` is valid if ``failed``."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"qp": In(config.qp_bits), "open": Out(1), "failed": Out(1), "code": Out(CODE_WIDTH)})


class FaultLog(wiring.Component):
    """Keep for each queue pair whether it is open and whether it has failed.

    The later fault of the other half of a queue pair is dropped, and so is one of a queue pair that was closed. The log
    has an entry for each queue pair: it overflows only if software opens a queue pair again without taking its failure,
    and drops what does not fit.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    connections : ``In(ConnectionWrite)``
    faults : ``In(FaultSignature).array(2)``
        Of the requester and of the responder, each at most once for each time that a queue pair is opened.
    stop : ``Out(StopSignature)``
    log : ``Out(stream.Signature(fault_layout))``
        Failures in order.
    state : ``Out(FaultState)``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "connections": In(ConnectionWrite(config)), "faults": In(FaultSignature(config)).array(2),
            "stop": Out(StopSignature(config)), "log": Out(stream.Signature(fault_layout(config))),
            "state": Out(FaultState(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        opened, failed = Signal(config.queue_pairs), Signal(config.queue_pairs)
        m.submodules.merge = merge = Merge(fault_layout(config), 2)
        for number, fault in enumerate(self.faults):
            # A half fails once for each opening, and no queue pair is opened again while its failure waits here.
            m.submodules[f"waiting_{number}"] = waiting = Queue(fault_layout(config), depth=config.queue_pairs)
            m.d.comb += [
                waiting.i.valid.eq(fault.valid), waiting.i.payload.qp.eq(fault.qp),
                waiting.i.payload.code.eq(fault.code),
            ]
            wiring.connect(m, waiting.o, merge.i[number])
        m.submodules.log = log = Queue(fault_layout(config), depth=config.queue_pairs)
        wiring.connect(m, log.o, wiring.flipped(self.log))
        m.submodules.codes = codes = memory.Memory(
            shape=unsigned(CODE_WIDTH), depth=config.queue_pairs, init=[], attrs={"ram_style": "distributed"})
        write, read = codes.write_port(), codes.read_port()
        fault, connection = merge.o.payload, self.connections
        first = Signal()
        m.d.comb += [
            merge.o.ready.eq(1),
            first.eq(merge.o.valid & opened.bit_select(fault.qp, 1) & ~failed.bit_select(fault.qp, 1)),
            log.i.valid.eq(first), log.i.payload.eq(fault),
            write.en.eq(first), write.addr.eq(fault.qp), write.data.eq(fault.code),
            read.addr.eq(self.state.qp), self.state.code.eq(read.data),
        ]
        m.d.sync += [
            self.stop.valid.eq(first), self.stop.qp.eq(fault.qp),
            self.state.open.eq(opened.bit_select(self.state.qp, 1)),
            self.state.failed.eq(failed.bit_select(self.state.qp, 1)),
        ]
        with m.If(first):
            m.d.sync += failed.bit_select(fault.qp, 1).eq(1)
        with m.If(connection.valid):
            m.d.sync += opened.bit_select(connection.qp, 1).eq(connection.entry.open)
            with m.If(connection.entry.open):
                m.d.sync += failed.bit_select(connection.qp, 1).eq(0)
        return m
