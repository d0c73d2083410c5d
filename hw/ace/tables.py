# SPDX-License-Identifier: Apache-2.0
"""The tables that both the command path and the chunk path read, written by the registers.

::

    registers -> Communicators -> shapes, shares
              -> Programs ------> words of programs
              -> Extents -------> parts of buffers (if the accelerator is varying)

Latency and throughput: those of the tables.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.wiring import Wiring

from .communicators import Communicators, CommunicatorWrite, ShapeRead, ShareRead
from .config import AceConfig
from .extents import ExtentRead, Extents, ExtentWrite
from .programs.store import ProgramRead, Programs, ProgramWrite

__all__ = ["PROGRAM_READERS", "TableRegisters", "Tables", "share_readers"]

PROGRAM_READERS = 4
"""Readers of the chunk path; the decoder is one more."""


def share_readers(config):
    """Readers of the communicators' shares: the look-up of each pipe, of GRANTs, and two of the chunker."""
    return config.pipes + 3


class TableRegisters(wiring.Signature):
    """Writes of the registers to programs and, if the accelerator is ``varying``, to the extents table."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"program": Out(ProgramWrite(config)),
                          **({"extent": Out(ExtentWrite(config))} if config.varying else {})})


class Tables(wiring.Component):
    """
    Parameters
    ----------
    config : AceConfig

    Members
    -------
    init : ``In(SweepSignature)``
    communicator : ``In(CommunicatorWrite)``, registers : ``In(TableRegisters)``
    programs : ``In(ProgramRead).array(PROGRAM_READERS)``, decoder_program : ``In(ProgramRead)``
        Earlier ones have priority, the decoder is last.
    shares : ``In(ShareRead).array(share_readers)``, shape : ``In(ShapeRead)``
    send_extents, receive_extents : ``In(ExtentRead).array(2)``
        Only if the accelerator is ``varying``. The first has priority.
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "communicator": In(CommunicatorWrite(config)), "registers": In(TableRegisters(config)),
            "programs": In(ProgramRead(config)).array(PROGRAM_READERS), "decoder_program": In(ProgramRead(config)),
            "shares": In(ShareRead(config)).array(share_readers(config)), "shape": In(ShapeRead(config)),
            **({"send_extents": In(ExtentRead(config)).array(2), "receive_extents": In(ExtentRead(config)).array(2)}
               if config.varying else {}),
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(communicators=Communicators(config, shares=share_readers(config)),
                  programs=Programs(config, clients=PROGRAM_READERS + 1))
        wires.connect("self.init", "communicators.init")
        wires.connect("self.communicator", "communicators.write")
        wires.connect("self.shares", "communicators.shares")
        wires.connect("self.shape", "communicators.shape")
        wires.connect("self.registers.program", "programs.write")
        for number in range(PROGRAM_READERS):
            wires.connect(f"self.programs[{number}]", f"programs.reads[{number}]")
        wires.connect("self.decoder_program", f"programs.reads[{PROGRAM_READERS}]")
        if config.varying:
            wires.add(extents=Extents(config))
            wires.connect("self.registers.extent", "extents.write")
            wires.connect("self.send_extents", "extents.sends")
            wires.connect("self.receive_extents", "extents.receives")
        wires.finish()
        return m
