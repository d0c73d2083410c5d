# SPDX-License-Identifier: Apache-2.0
"""The accelerator's SRAM: stores all chunks, a beat per word, in banks interleaved by the lowest address bits.

Receive, Transmit, Drain <- Sram <- Receive, Fill.  Latency: 1 cycle from a read to its data, and one more with each of
``sram_output_register`` and ``sram_word_register``; :func:`write_latency` from the acceptance of a write or an update
until later reads see it.  Throughput: one beat per cycle and bank for each of reads and writes.
"""

from amaranth import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from hw.common.delay import delayed, stored
from hw.common.table import BLOCK_RAM
from hw.stream import RoundRobin, selected

from .config import SRAM_PATIENCE, SRAM_RUN_BEATS, AceConfig
from .numerics.alu_array import alu_latency, alu_slices

__all__ = ["Sram", "SramReadSignature", "SramUpdateSignature", "SramWriteSignature", "longest_stall", "write_latency"]


_RUN_BITS = (SRAM_RUN_BEATS - 1).bit_length()


class SramReadSignature(wiring.Signature):
    """A reader's side: a beat is requested by ``valid`` and ``address`` until ``ready``; ``data`` is valid
    :attr:`AceConfig.sram_latency` cycles later, for one cycle."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "valid": Out(1), "ready": In(1), "address": Out(config.sram_bits), "data": In(config.data_width)})


class SramWriteSignature(wiring.Signature):
    """A writer's side: the whole beat is accepted in the cycle of ``valid`` and ``ready``; reads that are accepted more
    than :func:`write_latency` cycles later see it."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "valid": Out(1), "ready": In(1), "address": Out(config.sram_bits), "data": Out(config.data_width)})


class SramUpdateSignature(wiring.Signature):
    """Receive's side: a beat is updated in place.

    Members
    -------
    valid : ``Out(1)``, ready : ``In(1)``, address : ``Out``, reads : ``Out(1)``
        Requests the bank of a beat for the update, and with ``reads`` for its operand as well.
    operand : ``In(data_width)``
        The beat's contents, :attr:`AceConfig.sram_latency` cycles after the request was accepted.
    result : ``Out(data_width)``
        New contents, :func:`write_latency` cycles after the request was accepted; reads that are accepted later see
        them.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "valid": Out(1), "ready": In(1), "address": Out(config.sram_bits), "reads": Out(1),
            "operand": In(config.data_width), "result": Out(config.data_width)})


def write_latency(config):
    """Cycles from the acceptance of a write or an update to the write: those of the operand and the lanes."""
    return config.sram_latency + alu_latency(config)


def longest_stall(config):
    """Maximum number of cycles for which a request is stalled: its patience, and one turn of each other user."""
    return SRAM_PATIENCE + 2 * (2 + 2 * config.pipes)


class Sram(wiring.Component):
    """Banks of one read and one write port each, shared by the pipes of the network, fill and drain.

    A request is for a bank, in the cycle in which it is accepted; writes follow :func:`write_latency` cycles later. So
    an update, once accepted, never stalls. Of the requests for the read or the write side of a bank, the first one is
    accepted, in this order: drain and fill, the updates, the payloads; the others retry in the next cycle. Streams of
    consecutive addresses then follow each other from bank to bank without further conflicts, and fill and drain, which
    have no gaps between packets, are not held back by those that have. A request that was stalled for
    :data:`~hw.ace.config.SRAM_PATIENCE` cycles has precedence, one user after the other.

    The bank of a beat is the sum of its address and of the bits above the 64th beat: streams in different pieces are
    not in the same bank all the time if pieces have the length of a power of two.

    A read of a beat in the cycle of its write is undefined.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    updates : ``In(SramUpdateSignature).array(pipes)``, payloads : ``In(SramReadSignature).array(pipes)``
        Those of Receive, and of Transmit.
    drain : ``In(SramReadSignature)``, fill : ``In(SramWriteSignature)``
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        self.bank_bits = (config.sram_banks - 1).bit_length()
        super().__init__({
            "updates": In(SramUpdateSignature(config)).array(config.pipes),
            "payloads": In(SramReadSignature(config)).array(config.pipes),
            "drain": In(SramReadSignature(config)), "fill": In(SramWriteSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        # Drain, fill, updates, payloads: the order of precedence.
        users = [self.drain, self.fill, *self.updates, *self.payloads]
        update = range(2, 2 + config.pipes)
        readers, writers = [0, *range(2, len(users))], [1, *update]
        reading = [user.reads if number in update else C(number in readers) for number, user in enumerate(users)]
        writing = [C(number in writers) for number in range(len(users))]
        banks = [self._bank(m, user.address, number) for number, user in enumerate(users)]
        rows = [user.address[self.bank_bits:] for user in users]
        m.d.comb += [user.ready.eq(ready) for user, ready in zip(
            users, self._arbitrate(m, users, banks, reading, writing), strict=True)]

        # Writes take place at the end of their delay; their banks and rows are known before.
        latency, later = write_latency(config), stored if alu_slices(config) > 1 else delayed
        chosen = {}
        for number in writers:
            accepted = users[number].valid & users[number].ready
            onehot = Signal(1 << self.bank_bits, name=f"onehot_{number}")
            m.d.comb += onehot.eq(Mux(accepted, 1 << banks[number], 0))
            chosen[number] = delayed(m, onehot, latency, name=f"chosen_{number}", reset_less=False)
        written_rows = [later(m, rows[number], latency, name=f"row_{number}") for number in writers]
        words = [later(m, self.fill.data, latency, name="filled"), *(user.result for user in self.updates)]

        outputs = []
        for place in range(1 << self.bank_bits):
            m.submodules[f"bank_{place}"] = bank = memory.Memory(
                shape=unsigned(config.data_width), depth=config.sram_beats >> self.bank_bits, init=[],
                attrs=BLOCK_RAM)
            read, write = bank.read_port(), bank.write_port()
            reads = Cat(reading[number] & users[number].valid & users[number].ready & (banks[number] == place)
                        for number in readers)
            writes = Cat(chosen[number][place] for number in writers)
            m.d.comb += [
                read.en.eq(reads.any()), read.addr.eq(selected(len(read.addr), reads, [rows[at] for at in readers])),
                write.en.eq(writes.any()), write.addr.eq(selected(len(write.addr), writes, written_rows)),
                write.data.eq(selected(config.data_width, writes, words)),
            ]
            output = read.data
            if config.timing.sram_output_register:
                output = Signal(config.data_width, name=f"output_{place}", reset_less=True)
                m.d.sync += output.eq(read.data)
            outputs.append(output)

        # A multiplexer per reader selects the bank's word.
        for number in readers:
            word = Signal(config.data_width, name=f"word_{number}", reset_less=True)
            place = delayed(m, banks[number], 1 + config.timing.sram_output_register, name=f"place_{number}")
            m.d["sync" if config.timing.sram_word_register else "comb"] += word.eq(Array(outputs)[place])
            m.d.comb += (users[number].operand if number in update else users[number].data).eq(word)
        return m

    def _bank(self, m, address, number):
        bank = Signal(self.bank_bits, name=f"bank_of_{number}")
        m.d.comb += bank.eq(address + address[_RUN_BITS:])
        return bank

    def _arbitrate(self, m, users, banks, reading, writing):
        """Which users' requests are accepted, if they are valid: those before which no other has precedence."""
        # A request that was stalled too often goes first, until it is accepted.
        m.submodules.turn = turn = RoundRobin(len(users))
        first, overdue = Signal(len(users)), Signal(len(users))
        for number, user in enumerate(users):
            stalls = Signal(range(SRAM_PATIENCE), name=f"stalls_{number}")
            with m.If(~user.valid | user.ready):
                m.d.sync += [stalls.eq(0), overdue[number].eq(0)]
            with m.Elif(stalls == SRAM_PATIENCE - 1):
                m.d.sync += overdue[number].eq(1)
            with m.Else():
                m.d.sync += stalls.eq(stalls + 1)
        m.d.comb += [turn.requests.eq(overdue), turn.advance.eq(1)]
        m.d.sync += first.eq(turn.grant_onehot)

        ready = []
        for one in range(len(users)):
            stalled = []
            for other in range(len(users)):
                if other != one:
                    collide = users[other].valid & (banks[one] == banks[other]) & (
                        reading[one] & reading[other] | writing[one] & writing[other])
                    stalled.append(collide & (first[other] | (~first[one] if other < one else 0)))
            ready.append(~Cat(stalled).any())
        return ready
