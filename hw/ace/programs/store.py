"""The memory of the step tables, and turns at it.

Registers -> Programs -> chunker, movers' address generators, FSMs.  Latency: 1 cycle from a request to its word.
Throughput: one word per cycle for all clients together.
"""

from amaranth import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.words import PROGRAM_WIDTH

__all__ = ["ProgramRead", "Programs"]


def ProgramRead(config):
    """One client: while ``valid``, it asks for ``address``, and is answered when ``ready``."""
    return wiring.Signature({"valid": Out(1), "ready": In(1), "address": Out(config.program_bits)})


class Programs(wiring.Component):
    """Keep ``program_words`` words, which software writes; clients of lower numbers go first.

    Parameters
    ----------
    config : AceConfig
    clients : int

    Members
    -------
    write : ``In(1)``, write_address, write_data : ``In``
        Not while a program that contains the word runs.
    reads : array of ``In(ProgramRead)``
    data : ``Out(PROGRAM_WIDTH)``
        The word of the request that was ready in the cycle before.
    """

    def __init__(self, config, *, clients):
        self.config = config
        self.clients = clients
        super().__init__({
            "write": In(1), "write_address": In(config.program_bits), "write_data": In(PROGRAM_WIDTH),
            "reads": In(ProgramRead(config)).array(clients),
            "data": Out(PROGRAM_WIDTH),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = memory.Memory(
            shape=PROGRAM_WIDTH, depth=self.config.program_words, init=[],
            attrs={"ram_style": "block", "no_rw_check": 1})
        write, read = words.write_port(), words.read_port()
        m.d.comb += [write.en.eq(self.write), write.addr.eq(self.write_address), write.data.eq(self.write_data),
                     self.data.eq(read.data)]
        earlier = Const(0, 1)
        for client in self.reads:
            with m.If(client.valid & ~earlier):
                m.d.comb += [client.ready.eq(1), read.addr.eq(client.address)]
            earlier = earlier | client.valid
        m.d.comb += read.en.eq(earlier)
        return m
