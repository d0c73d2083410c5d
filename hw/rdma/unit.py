# SPDX-License-Identifier: Apache-2.0
"""RoCEv2: remote memory for the DMA engine, local memory for remote machines. Only connects.

::

    writes, reads -> RequesterBuffers <-> RequesterTransport        +-> FrameMerge -> mac_tx
                            |                ^                      |       ^
                            +-> packets -----|-> TransmitMerge -> FrameBuilder
                                             |        ^                 other_tx
    mac_rx -> FrameParser -> ReceiveDispatch +        |
                   |                         +-> Responder <-> memory
                   +-> other_rx
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiLiteSignature, AxiStreamSignature
from hw.common.sweep import Sweep
from hw.common.wiring import Wiring

from .config import RdmaConfig
from .control import RdmaControl
from .fault_log import FaultLog
from .frames.frame_builder import FrameBuilder
from .frames.frame_merge import FrameMerge
from .frames.frame_parser import FrameParser
from .frames.receive_dispatch import ReceiveDispatch
from .frames.transmit_merge import TransmitMerge
from .layouts import read_beat_layout, read_layout, response_layout, write_layout
from .requester.buffers.unit import RequesterBuffers
from .requester.transport.transport import RequesterTransport
from .responder.responder import Responder

__all__ = ["RdmaUnit"]


class RdmaUnit(wiring.Component):
    """One Ethernet port with RoCEv2; ``docs/rdma.md`` is the contract.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    bus : ``In(AxiLiteSignature)``
        Registers.
    irq : ``Out(1)``
        Level, active high.
    writes : ``In(stream.Signature(write_layout))``, responses : ``Out(stream.Signature(response_layout))``
    reads : ``In(stream.Signature(read_layout))``, beats : ``Out(stream.Signature(read_beat_layout))``
        The DMA engine's bursts to addresses of :func:`hw.rdma.config.remote_memory`.
    memory_writes : ``Out(stream.Signature(write_layout))``, memory_responses : ``In``, memory_reads : ``Out``,
    memory_beats : ``In``
        Accesses of remote machines to local memory. ``memory_beats`` are always accepted.
    mac_tx : ``Out(AxiStreamSignature)``, mac_rx : ``In(AxiStreamSignature)``
        Frames without preamble and FCS. ``mac_rx`` is always accepted.
    other_tx : ``In(AxiStreamSignature)``, other_rx : ``Out(AxiStreamSignature)``
        Frames that are not RoCEv2 for this station.
    """

    def __init__(self, config: RdmaConfig) -> None:
        if not isinstance(config, RdmaConfig):
            raise TypeError(f"RdmaUnit needs an RdmaConfig, not {config!r}")
        self.config = config
        read, beat = stream.Signature(read_layout(config)), stream.Signature(read_beat_layout(config))
        write, response = stream.Signature(write_layout(config)), stream.Signature(response_layout(config))
        frames = AxiStreamSignature(data_width=config.data_width)
        super().__init__({
            "bus": In(AxiLiteSignature(addr_width=12, data_width=32)), "irq": Out(1),
            "writes": In(write), "responses": Out(response), "reads": In(read), "beats": Out(beat),
            "memory_writes": Out(write), "memory_responses": In(response), "memory_reads": Out(read),
            "memory_beats": In(beat),
            "mac_tx": Out(frames), "mac_rx": In(frames), "other_tx": In(frames), "other_rx": Out(frames),
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(control=RdmaControl(config), faults=FaultLog(config), sweep=Sweep(config),
                  buffers=RequesterBuffers(config), transport=RequesterTransport(config), responder=Responder(config),
                  merge=TransmitMerge(config), builder=FrameBuilder(config), frames=FrameMerge(config),
                  parser=FrameParser(config), dispatch=ReceiveDispatch(config))

        # -- The DMA engine, and memory.
        for name in ("writes", "reads"):
            wires.connect(f"self.{name}", f"buffers.{name}")
        for name in ("responses", "beats"):
            wires.connect(f"buffers.{name}", f"self.{name}")
        for name in ("memory_writes", "memory_reads"):
            wires.connect(f"responder.{name}", f"self.{name}")
        for name in ("memory_responses", "memory_beats"):
            wires.connect(f"self.{name}", f"responder.{name}")

        # -- Packets to send.
        wires.connect("buffers.posted", "transport.posted")
        wires.connect("transport.send", "buffers.send")
        wires.connect("transport.retire", "buffers.retire")
        wires.connect("transport.returned", "buffers.returned")
        wires.connect("buffers.packets", "merge.i[0]")
        wires.connect("responder.packets", "merge.i[1]")
        wires.connect("merge.o", "builder.packets")
        wires.connect("builder.o", "frames.i[0]")
        wires.connect("self.other_tx", "frames.i[1]")
        wires.connect("frames.o", "self.mac_tx")

        # -- Received packets.
        wires.connect("self.mac_rx", "parser.i")
        wires.connect("parser.other", "self.other_rx")
        wires.connect("parser.received", "dispatch.i")
        wires.connect("dispatch.requests", "responder.requests")
        wires.connect("dispatch.returns", "transport.received")
        wires.connect("dispatch.marked", "responder.marked")
        wires.broadcast("dispatch.notified", "transport.notified", "control.notified")

        # -- Registers and failures.
        wires.connect("self.bus", "control.bus")
        wires.connect("control.irq", "self.irq")
        wires.connect("sweep.init", "control.init")
        wires.broadcast("control.station", "builder.station", "parser.station")
        wires.broadcast("control.connections", "builder.connections", "dispatch.connections", "buffers.connections",
                        "transport.connections", "responder.connections", "faults.connections")
        wires.connect("transport.writable", "control.writable")
        wires.connect("control.remotes", "buffers.remotes")
        wires.connect("control.regions", "responder.regions")
        wires.connect("control.taken", "responder.taken")
        wires.connect("transport.fault", "faults.faults[0]")
        wires.connect("responder.fault", "faults.faults[1]")
        wires.broadcast("faults.stop", "transport.stop", "responder.stop")
        wires.connect("faults.log", "control.log")
        wires.connect("faults.state", "control.state")
        wires.connect("transport.status", "control.requester")
        wires.connect("responder.status", "control.responder")
        wires.connect("buffers.free", "control.free")
        for part, name in (("parser", "frame"), ("dispatch", "dispatch"), ("buffers", "buffer"),
                           ("transport", "requester"), ("responder", "responder")):
            wires.connect(f"{part}.counts", f"control.{name}_counts")
        wires.finish()
        return m
