# SPDX-License-Identifier: Apache-2.0
"""The receivers of all pipes and their SRAM, with the test's own reader and writer."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In

from hw.ace.layouts import flit_layout
from hw.ace.receive import Receive
from hw.ace.sram import Sram, SramReadSignature, SramWriteSignature
from hw.common.wiring import Wiring

__all__ = ["SEEN", "ReceiveBench"]

SEEN = ("lookup", "grants", "aborts", "landed", "progress", "counts")
"""Ports of a receiver for the test."""


class ReceiveBench(wiring.Component):
    """The receivers of all pipes at their SRAM, with a reader and Fill's writer for the test."""

    def __init__(self, config):
        self.config = config
        pipes = config.pipes
        members = Receive(config).signature.members
        super().__init__({
            "ports": In(stream.Signature(flit_layout(config))).array(config.ports + 1),
            "communicator_status": members["communicator_status"],
            **{name: members[name].array(pipes) for name in SEEN},
            "reads": In(SramReadSignature(config)), "fill": In(SramWriteSignature(config))})

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(sram=Sram(config))
        for number, ports in enumerate(config.pipe_ports):
            receive = f"receive_{number}"
            wires.add(**{receive: Receive(config, number)})
            wires.connect(f"{receive}.update", f"sram.updates[{number}]")
            for index, port in enumerate(ports):
                wires.connect(f"self.ports[{port}]", f"{receive}.ports[{index}]")
            for name in SEEN:
                wires.connect(f"{receive}.{name}", f"self.{name}[{number}]")
            if number:
                wires.idle(f"sram.payloads[{number}]", "one reader is enough")
        wires.broadcast("self.communicator_status", *(
            f"receive_{number}.communicator_status" for number in range(config.pipes)))
        wires.connect("self.reads", "sram.payloads[0]")
        wires.connect("self.fill", "sram.fill")
        wires.idle("sram.drain", "there is no drain")
        wires.finish()
        return m
