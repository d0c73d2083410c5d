# SPDX-License-Identifier: Apache-2.0
"""The accelerator's SRAM: stores all chunks, a beat per word, in banks interleaved by the lowest address bits.

Receive, Transmit, Drain <- Sram <- Receive, Fill.  Latency: 2 cycles from a read to its data, 3 with
``sram_output_register``.  Throughput: one beat per cycle for each of three readers and two writers, while no two
readers and no two writers request the same bank.
"""

from amaranth import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from hw.common.delay import delayed
from hw.common.table import BLOCK_RAM

from .config import AceConfig

__all__ = ["Sram", "SramReadSignature", "SramWriteSignature"]


class SramReadSignature(wiring.Signature):
    """A reader's side: a beat is requested by ``valid`` and ``address`` until ``ready``; ``data`` is valid
    :attr:`AceConfig.sram_latency` cycles later, for one cycle."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "valid": Out(1), "ready": In(1), "address": Out(config.sram_bits), "data": In(config.data_width)})


class SramWriteSignature(wiring.Signature):
    """A writer's side: the whole beat is written in the cycle of ``valid`` and ``ready``; every read accepted later
    sees it."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "valid": Out(1), "ready": In(1), "address": Out(config.sram_bits), "data": Out(config.data_width)})


class Sram(wiring.Component):
    """Banks of one read and one write port each; among requesters of the same bank, the first in order is granted.

    The others retry in the next cycle. Streams of consecutive addresses then follow each other from bank to bank
    without further conflicts. ``ready`` depends on the requests of earlier users, not on the user's own ``valid``.

    A read of a beat in the cycle of its write is undefined.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    reads : ``In(SramReadSignature).array(3)``
        The first is never stalled.
    writes : ``In(SramWriteSignature).array(2)``
        The first is never stalled.
    """

    BANK_BITS = 2

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "reads": In(SramReadSignature(config)).array(3),
            "writes": In(SramWriteSignature(config)).array(2),
        })

    def elaborate(self, platform):
        m = Module()
        for users in (self.reads, self.writes):
            for number, user in enumerate(users):
                earlier = [other.valid & (self._bank(other) == self._bank(user)) for other in list(users)[:number]]
                m.d.comb += user.ready.eq(~Cat(earlier).any())

        outputs = []
        for number in range(1 << self.BANK_BITS):
            m.submodules[f"bank_{number}"] = bank = memory.Memory(
                shape=unsigned(self.config.data_width), depth=self.config.sram_beats >> self.BANK_BITS, init=[],
                attrs=BLOCK_RAM)
            read, write = bank.read_port(), bank.write_port()
            for port, users in ((read, self.reads), (write, self.writes)):
                # Later assignments win: the first user comes last.
                for user in reversed(list(users)):
                    with m.If(user.valid & (self._bank(user) == number)):
                        m.d.comb += [port.en.eq(1), port.addr.eq(user.address[self.BANK_BITS:])]
                        if port is write:
                            m.d.comb += port.data.eq(user.data)
            output = read.data
            if self.config.timing.sram_output_register:
                output = Signal(self.config.data_width, name=f"output_{number}", reset_less=True)
                m.d.sync += output.eq(read.data)
            outputs.append(output)

        # A multiplexer per reader selects the bank's word, and has an output register.
        for number, user in enumerate(self.reads):
            word = Signal(self.config.data_width, name=f"word_{number}", reset_less=True)
            chosen = delayed(m, self._bank(user), self.config.sram_latency - 1, name=f"chosen_{number}")
            m.d.sync += word.eq(Array(outputs)[chosen])
            m.d.comb += user.data.eq(word)
        return m

    def _bank(self, user):
        return user.address[:self.BANK_BITS]
