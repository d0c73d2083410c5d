# SPDX-License-Identifier: Apache-2.0
"""The memory of the programs, and its arbitration.

Registers -> Programs -> chunker, movers' address generators, FSMs.  Latency: 1 cycle from a request to its word.
Throughput: one word per cycle for all clients together.
"""

from amaranth import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.words import PROGRAM_WIDTH

__all__ = ["ProgramRead", "ProgramWrite", "Programs"]


class ProgramRead(wiring.Signature):
    """Read port of the programs.

    The reader holds ``valid`` and ``address`` until ``ready``; ``word`` is that of the address in the next cycle, for
    one cycle. All readers share one memory port, so earlier readers may stall a later one.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"valid": Out(1), "ready": In(1), "address": Out(config.program_bits),
                          "word": In(PROGRAM_WIDTH)})


class ProgramWrite(wiring.Signature):
    """Write of one word of the programs, from the registers: in the cycle of ``valid``, without back-pressure.

    Software does not write a word of a program that is running.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"valid": Out(1), "address": Out(config.program_bits), "word": Out(PROGRAM_WIDTH)})


class Programs(wiring.Component):
    """Store ``program_words`` words, which software writes; clients of lower numbers have priority.

    Parameters
    ----------
    config : AceConfig
    clients : int

    Members
    -------
    write : ``In(ProgramWrite)``
    reads : ``In(ProgramRead).array(clients)``
    """

    def __init__(self, config: AceConfig, *, clients: int) -> None:
        self.config = config
        self.clients = clients
        super().__init__({
            "write": In(ProgramWrite(config)), "reads": In(ProgramRead(config)).array(clients),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = memory.Memory(
            shape=PROGRAM_WIDTH, depth=self.config.program_words, init=[],
            attrs={"ram_style": "block", "no_rw_check": 1})
        write, read = words.write_port(), words.read_port()
        m.d.comb += [write.en.eq(self.write.valid), write.addr.eq(self.write.address), write.data.eq(self.write.word),
                     *(client.word.eq(read.data) for client in self.reads)]
        earlier = Const(0, 1)
        for client in self.reads:
            with m.If(client.valid & ~earlier):
                m.d.comb += [client.ready.eq(1), read.addr.eq(client.address)]
            earlier = earlier | client.valid
        m.d.comb += read.en.eq(earlier)
        return m
