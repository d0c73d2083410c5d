# SPDX-License-Identifier: Apache-2.0
"""The command path: from doorbells to collectives that are ready to be cut, and back to completion words.

::

                                         RegionTable
                                              |
    doorbells -> Doorbell -> CommandQueues -> Decoder -> Operations <-> (chunk path)
                    ^             |                          ^
                    +-------------+------- refusals ---------+

Latency and throughput: those of the stages.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiSignature
from hw.common.doorbell import WORD_BITS, Doorbell
from hw.common.posts import PostPortSignature
from hw.common.regions import RegionTable, RegionWriteSignature
from hw.common.sweep import SweepSignature
from hw.common.wiring import Wiring

from .command_queues import CommandQueues, QueueClear, QueueLookup, QueueWrite
from .communicator_status import ActivitySignature, CommunicatorStatusSignature
from .communicators import CommunicatorWrite, ShapeRead
from .config import AceConfig
from .decoder import Decoder, DirectoryWrite
from .extents import ExtentRead
from .operations import (
    ChunkEnded,
    ChunkIssued,
    CompletionLookup,
    CompletionWords,
    OperationInterrupts,
    OperationRead,
    Operations,
    OperationsToCut,
    WorkSignature,
)
from .programs.store import ProgramRead

__all__ = ["CollectivesSignature", "CommandPath", "CommandRegisters"]


class CommandRegisters(wiring.Signature):
    """The registers' side of the command path: table writes, and debug look-ups of a queue."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "region": Out(RegionWriteSignature(config)), "directory": Out(DirectoryWrite(config)),
            "queue": Out(QueueWrite(config)), "clear": Out(QueueClear(config)),
            "waiting": Out(QueueLookup(config)), "completion": Out(CompletionLookup(config)),
        })


class CollectivesSignature(wiring.Signature):
    """Between the command path and the chunk path, from the command path's side.

    Members
    -------
    to_cut : ``Out(OperationsToCut)``
        Collectives with chunks to cut.
    cut, drained : ``In(OperationRead)``
        The chunk path reads the operation of the chunk that is being cut, and of the chunk to drain.
    issued : ``In(ChunkIssued)``, ended : ``In(ChunkEnded)``
    words : ``Out(CompletionWords)``
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "to_cut": Out(OperationsToCut(config)),
            "cut": In(OperationRead(config)), "drained": In(OperationRead(config)),
            "issued": In(ChunkIssued(config)), "ended": In(ChunkEnded(config)),
            "words": Out(CompletionWords(config)),
        })


class CommandPath(wiring.Component):
    """
    Parameters
    ----------
    config : AceConfig
    posts : bool
        With ``posts``.

    Members
    -------
    init : ``In(SweepSignature)``
    doorbells : ``In(AxiSignature)``
    posts : ``In(PostPortSignature)``
        Commands that other parts of an endpoint post.
    registers : ``In(CommandRegisters)``, communicator : ``In(CommunicatorWrite)``
    shape : ``Out(ShapeRead)``, program : ``Out(ProgramRead)``
    send_extents, receive_extents : ``Out(ExtentRead)``
        Only if the accelerator is ``varying``.
    collectives : ``Out(CollectivesSignature)``
    communicator_status : ``In(CommunicatorStatusSignature)``
    cutting : ``In(ActivitySignature)``
        The communicator whose chunk is being cut.
    held, decoding : ``Out(ActivitySignature)``
        Communicators with chunks in progress; the communicator whose command is being decoded.
    work : ``Out(WorkSignature)``
    irq : ``Out(OperationInterrupts)``
    """

    def __init__(self, config: AceConfig, *, posts: bool = False) -> None:
        self.config, self.has_posts = config, posts
        super().__init__({
            "init": In(SweepSignature(config)),
            **({"posts": In(PostPortSignature(config.queues))} if posts else {}),
            "doorbells": In(AxiSignature(addr_width=config.doorbell_addr_width, data_width=WORD_BITS,
                                         id_width=config.doorbell_id_width)),
            "registers": In(CommandRegisters(config)), "communicator": In(CommunicatorWrite(config)),
            "shape": Out(ShapeRead(config)), "program": Out(ProgramRead(config)),
            **({"send_extents": Out(ExtentRead(config)), "receive_extents": Out(ExtentRead(config))}
               if config.varying else {}),
            "collectives": Out(CollectivesSignature(config)),
            "communicator_status": In(CommunicatorStatusSignature(config)), "cutting": In(ActivitySignature(config)),
            "held": Out(ActivitySignature(config)), "decoding": Out(ActivitySignature(config)),
            "work": Out(WorkSignature(config)), "irq": Out(OperationInterrupts()),
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(doorbell=Doorbell(config, posts=self.has_posts), command_queues=CommandQueues(config),
                  decoder=Decoder(config), operations=Operations(config),
                  regions=RegionTable(config, lut_ram=config.timing.lut_ram_tables))
        wires.broadcast("self.init", "doorbell.init", "command_queues.init", "decoder.init", "operations.init",
                        "regions.init")

        # -- From store to collective.
        wires.connect("self.doorbells", "doorbell.bus")
        if self.has_posts:
            wires.connect("self.posts", "doorbell.posts")
            wires.connect("command_queues.vacant", "doorbell.vacant")
        else:
            wires.leave_open("command_queues.vacant", "only posts need it")
        wires.connect("doorbell.o", "command_queues.i")
        wires.connect("command_queues.o", "decoder.i")
        wires.connect("decoder.o", "operations.i")
        wires.connect("operations.admission", "command_queues.admission")
        wires.connect("decoder.pending", "command_queues.decoding")
        wires.connect("command_queues.refused", "operations.refused")
        wires.idle("doorbell.tails", "there are no descriptor rings")

        # -- Tables.
        wires.connect("decoder.regions", "regions.lookup")
        wires.connect("regions.entries", "decoder.entries")
        wires.connect("decoder.shape", "self.shape")
        wires.connect("decoder.program", "self.program")
        if config.varying:
            wires.connect("decoder.send_extents", "self.send_extents")
            wires.connect("decoder.receive_extents", "self.receive_extents")

        # -- Registers.
        wires.connect("self.registers.region", "regions.write")
        wires.connect("self.registers.directory", "decoder.directory")
        wires.broadcast("self.registers.queue", "command_queues.configure", "decoder.configure", "operations.configure")
        wires.connect("self.communicator", "command_queues.communicator")
        wires.broadcast("self.registers.clear", "command_queues.clear", "operations.clear")
        wires.connect("self.registers.waiting", "command_queues.lookup")
        wires.connect("self.registers.completion", "operations.lookup")
        wires.connect("operations.irq", "self.irq")

        # -- The chunk path and supervision.
        wires.connect("operations.to_cut", "self.collectives.to_cut")
        wires.connect("self.collectives.cut", "operations.reads[0]")
        wires.connect("self.collectives.drained", "operations.reads[1]")
        wires.connect("self.collectives.issued", "operations.issued")
        wires.connect("self.collectives.ended", "operations.ended")
        wires.connect("operations.words", "self.collectives.words")
        wires.broadcast("self.communicator_status", "decoder.communicator_status", "operations.communicator_status")
        wires.connect("self.cutting", "operations.cutting")
        wires.connect("operations.held", "self.held")
        wires.connect("decoder.looking", "self.decoding")
        wires.connect("operations.work", "self.work")
        wires.finish()
        return m
