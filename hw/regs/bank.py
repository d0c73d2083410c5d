# SPDX-License-Identifier: Apache-2.0
"""The registers of a map in gateware, behind an AXI4-Lite port.

software -> AXI4-Lite -> this -> the block's control and status signals.

Latency: 2 cycles from the address (and data) handshake to the response.
Throughput: one write and one read per 2 cycles, at the same time.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.axi.signature import AxiLiteSignature, Resp
from hw.regs.describe import REGISTER_WIDTH, Access, Register, RegisterMap
from hw.regs.refusal import REFUSED_WORD, REFUSED_WRITE

__all__ = ["RegisterBank", "register_signature"]


_GROUP = 5
"""Address bits of the first of the two steps in which the read data is selected."""


def register_signature(register: Register) -> wiring.Signature:
    """Hardware side of one register, as seen from the register bank.

    A member per field that is not constant: ``Out(width)`` for RW and PULSE; ``In(width)`` for RO; for W1C
    ``Out(width)`` and, to set bits, ``<field>_set``: ``In(width)``. In addition ``written_stb`` and ``read_stb``, and
    ``refuse``: ``In(1)`` if the register is guarded.
    """
    members = {}
    for field in register.fields:
        if field.constant:
            continue
        direction = In if field.access is Access.RO else Out
        members[field.member] = direction(field.width, init=field.reset or None)
        if field.access is Access.W1C:
            members[f"{field.member}_set"] = In(field.width)
    return wiring.Signature(members | {"written_stb": Out(1), "read_stb": Out(1)}
                            | ({"refuse": In(1)} if register.guard else {}))


class RegisterBank(wiring.Component):
    """Hold the registers of a map, and let an AXI4-Lite manager read and write them.

    A write changes the bytes whose strobes are set. A write to a register that has a PULSE field
    must have all four strobes set; otherwise it gets SLVERR and has no effect. A write without any strobe
    to another register gets OKAY and has no effect. Writes to RO fields, and to bits without a field, have
    no effect. A write of an illegal value to a field, or one that hardware refuses, gets SLVERR, has no effect, and is
    recorded in REFUSED_WRITE; bytes without a strobe count with their stored value within an RW field, and as 0 above
    it. An access to an address without a register gets SLVERR, and reads 0. The two lowest address bits,
    ``awprot`` and ``arprot`` are ignored.

    Addresses and write data are accepted in any order, and the first is held until the other arrives. No
    output of the bus depends combinationally on an input of the bus. A read that starts after the response
    to a write returns the written value. A read and a write of one register in the same cycle return the old value.

    Parameters
    ----------
    register_map : RegisterMap
        The registers, including ``refusal_registers`` if any field has legal values or any register is guarded.

    Members
    -------
    bus : ``In(AxiLiteSignature(addr_width=register_map.addr_width, data_width=32))``
        Bus of the software.
    <register> : ``Out(register_signature(register))``, one per register, in lower case
        A member per field, in lower case, and two strobes:

        * RW ``<field>``: ``Out(width)``. The value that software wrote last.
        * RO ``<field>``: ``In(width)``. The value that software reads; absent for a constant field.
        * W1C ``<field>``: ``Out(width)``, and ``<field>_set``: ``In(width)``. Each bit of ``_set`` that
          is 1 sets its bit at the next clock edge, also when software clears it at that very edge.
        * PULSE ``<field>``: ``Out(width)``. The written value while ``written_stb`` is high,
          otherwise 0.
        * ``written_stb``: ``Out(1)``. High for the one cycle in which PULSE fields have their value,
          and RW and W1C fields have their new value for the first time. Given whatever the access of
          the fields is, but not for writes that are refused or have no strobe.
        * ``refuse``: ``In(1)``, of a guarded register. Refuse a write of ``writing``, if there is one in this cycle.
        * ``read_stb``: ``Out(1)``. High for the one cycle in which software reads the register: the
          values at the end of this cycle are returned.

        Not those of ``refusal_registers``, which the bank drives itself, and not those with constant fields only.
    refused : ``Out(1)``, if there are ``refusal_registers``
        A write was refused because of its values, or by hardware, in the cycle before.
    writing : ``Out(32)``, if any register is guarded
        Word of the write that is made.
    reading : ``Out(register_map.addr_width)``
        Address of the read that is made, for a register whose field is looked up.

    Latency
    -------
    Write: fields and ``written_stb`` change, and ``bvalid`` rises, 2 cycles after the handshake of the
    address or of the data, whichever is the later. Read: ``read_stb`` comes 1 cycle after the handshake
    of the address, ``rvalid`` 2 cycles after it. Both one cycle later for each cycle that the response
    before is not taken. One write and one read per 2 cycles.
    """

    def __init__(self, register_map: RegisterMap) -> None:
        if not isinstance(register_map, RegisterMap):
            raise TypeError(f"Register bank needs a RegisterMap, not {register_map!r}")
        self._register_map = register_map
        names = {register.name for register in register_map.registers}
        self._refuses = any(register.limited for register in register_map.registers)
        self._guards = any(register.guard for register in register_map.registers)
        self._own = {REFUSED_WRITE, REFUSED_WORD} if self._refuses else set()
        if not self._own <= names:
            raise ValueError(f"Register map {register_map.name!r} has registers that refuse writes, and must have "
                             f"{REFUSED_WRITE} and {REFUSED_WORD}")
        constant = {register.name for register in register_map.registers
                    if all(field.constant for field in register.fields)}
        self._internal = self._own | constant       # registers without a port
        super().__init__({
            "bus": In(AxiLiteSignature(addr_width=register_map.addr_width, data_width=REGISTER_WIDTH)),
        } | {r.member: Out(register_signature(r)) for r in register_map.registers if r.name not in self._internal}
          | ({"refused": Out(1)} if self._refuses else {}) | {"reading": Out(register_map.addr_width)}
          | ({"writing": Out(REGISTER_WIDTH)} if self._guards else {}))

    @property
    def register_map(self) -> RegisterMap:
        """Registers held."""
        return self._register_map

    def elaborate(self, platform):
        m = Module()
        self._ports = {
            r.name: (register_signature(r).create(path=(r.member,)) if r.name in self._internal
                     else getattr(self, r.member)) for r in self.register_map.registers}
        self._write(m)
        self._read(m)
        return m

    def _write(self, m):
        bus = self.bus
        addr, addr_full = Signal.like(bus.awaddr, reset_less=True), Signal()
        data, strb = Signal(REGISTER_WIDTH, reset_less=True), Signal(REGISTER_WIDTH // 8, reset_less=True)
        data_full = Signal()
        mapped, partial, illegal = Signal(), Signal(), Signal()

        if self._guards:
            m.d.comb += self.writing.eq(data)

        # A write happens as soon as address and data are there and its response can be stored.
        write_en = Signal()
        m.d.comb += [
            bus.awready.eq(~addr_full),
            bus.wready.eq(~data_full),
            write_en.eq(addr_full & data_full & (~bus.bvalid | bus.bready)),
        ]

        # The two halves are accepted separately.
        with m.If(bus.awvalid & bus.awready):
            m.d.sync += [addr.eq(bus.awaddr), addr_full.eq(1)]
        with m.If(bus.wvalid & bus.wready):
            m.d.sync += [data.eq(bus.wdata), strb.eq(bus.wstrb), data_full.eq(1)]

        with m.If(bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        with m.If(write_en):
            m.d.sync += [
                addr_full.eq(0),
                data_full.eq(0),
                bus.bvalid.eq(1),
                bus.bresp.eq(Resp.SLVERR),
            ]
            with m.If(mapped & ~partial & ~illegal):
                m.d.sync += bus.bresp.eq(Resp.OKAY)

        # Bytes that are not 0, for fields that end below them.
        some = Signal(REGISTER_WIDTH // 8)
        m.d.comb += some.eq(Cat(data.word_select(byte, 8).any() & enable for byte, enable in enumerate(strb)))

        # The address selects one register, which may refuse.
        selected = {}
        hits, pulses, refusals = [], [], []
        for register in self.register_map.registers:
            hit = Signal(name=f"write_{register.member}")
            m.d.comb += hit.eq(addr[2:] == register.offset >> 2)
            hits.append(hit)
            if register.has(Access.PULSE):
                pulses.append(hit)
            selected[register.name] = hit
            if register.limited:
                refused = Signal(name=f"refused_{register.member}")
                m.d.comb += refused.eq(hit & self._illegal(register, data, strb, some))
                refusals.append(refused)
                selected[register.name] = hit & ~refused
        m.d.comb += [
            mapped.eq(Cat(hits).any()), partial.eq(Cat(pulses).any() & ~strb.all()), illegal.eq(Cat(refusals).any()),
        ]

        for register in self.register_map.registers:
            self._write_register(m, register, write_en & selected[register.name], data, strb)
        if self._refuses:
            note, word = (self._ports[name] for name in (REFUSED_WRITE, REFUSED_WORD))
            m.d.comb += note.valid_set.eq(write_en & illegal & ~partial)
            m.d.sync += self.refused.eq(note.valid_set)
            with m.If(note.valid_set & ~note.valid):
                m.d.sync += [note.offset.eq(Cat(C(0, 2), addr[2:])), word.word.eq(data)]

    def _illegal(self, register, data, strb, some):
        """Whether a write is refused by hardware, or would give a field of the register a value that is not legal."""
        port = self._ports[register.name]
        found = port.refuse if register.guard else C(0)
        whole = register.has(Access.PULSE)      # else parts of it may be written
        for field in register.fields:
            if field.legal is None:
                continue
            lsb, end = field.msb + 1, register.end(field)
            while lsb < end:
                byte, stop = lsb // 8, min(end, lsb // 8 * 8 + 8)
                found |= some[byte] if stop - lsb == 8 else data[lsb:stop].any() & strb[byte]
                lsb = stop
            value = data[field.lsb:field.msb + 1]
            if not whole:
                value = Cat(Mux(strb[(field.lsb + index) // 8], bit, old)
                            for index, (bit, old) in enumerate(zip(value, getattr(port, field.member), strict=True)))
            if field.legal.start > 0:
                found |= value < field.legal.start
            if field.legal.stop < 1 << field.width:
                found |= value >= field.legal.stop
        return found

    def _write_register(self, m, register, write_en, data, strb):
        port = self._ports[register.name]

        # The data register still holds its word in the cycle after the write.
        written = strb.all() if register.has(Access.PULSE) else strb.any()
        m.d.sync += port.written_stb.eq(write_en & written)

        for field in register.fields:
            if field.access is Access.RO:
                continue
            signal = getattr(port, field.member)
            if field.access is Access.PULSE:
                with m.If(port.written_stb):
                    m.d.comb += signal.eq(data[field.lsb:field.msb + 1])
            if field.access is Access.W1C:
                m.d.sync += signal.eq(signal | getattr(port, f"{field.member}_set"))
            if field.access not in (Access.RW, Access.W1C):
                continue
            # Each byte of the field has its own strobe.
            for byte in range(field.lsb // 8, field.msb // 8 + 1):
                lsb, end = max(field.lsb, 8 * byte), min(field.msb + 1, 8 * byte + 8)
                part, word = slice(lsb - field.lsb, end - field.lsb), data[lsb:end]
                enable = write_en & strb[byte] & (written if register.has(Access.PULSE) else 1)
                with m.If(enable):
                    if field.access is Access.RW:
                        m.d.sync += signal[part].eq(word)
                    else:
                        set_bits = getattr(port, f"{field.member}_set")[part]
                        m.d.sync += signal[part].eq(signal[part] & ~word | set_bits)

    def _read(self, m):
        bus = self.bus
        addr, addr_full = Signal.like(bus.araddr, reset_less=True), Signal()
        m.d.comb += self.reading.eq(addr)
        word, mapped = Signal(REGISTER_WIDTH), Signal()

        # A read happens as soon as its response can be stored.
        read_en = Signal()
        m.d.comb += [
            bus.arready.eq(~addr_full),
            read_en.eq(addr_full & (~bus.rvalid | bus.rready)),
        ]
        with m.If(bus.arvalid & bus.arready):
            m.d.sync += [addr.eq(bus.araddr), addr_full.eq(1)]

        with m.If(bus.rready):
            m.d.sync += bus.rvalid.eq(0)
        with m.If(read_en):
            m.d.sync += [
                addr_full.eq(0),
                bus.rvalid.eq(1),
                bus.rdata.eq(word),
                bus.rresp.eq(Resp.SLVERR),
            ]
            with m.If(mapped):
                m.d.sync += bus.rresp.eq(Resp.OKAY)

        # The address selects one word, in two steps to shorten the critical path. Bits without a field and PULSE fields
        # read as 0.
        groups = {}
        for register in self.register_map.registers:
            groups.setdefault(register.offset >> _GROUP, []).append(register)
        words = {number: self._read_group(m, registers, addr) for number, registers in groups.items()}
        with m.Switch(addr[_GROUP:]):
            for number, selected in words.items():
                with m.Case(number):
                    m.d.comb += word.eq(selected)
        hits = []
        for register in self.register_map.registers:
            hit = Signal(name=f"read_{register.member}")
            m.d.comb += [hit.eq(addr[2:] == register.offset >> 2),
                         self._ports[register.name].read_stb.eq(read_en & hit)]
            hits.append(hit)
        m.d.comb += mapped.eq(Cat(hits).any())

    def _read_group(self, m, registers, addr):
        """The word at ``addr`` if it is one of these registers."""
        selected = Signal(REGISTER_WIDTH, name=f"words_from_{registers[0].member}")
        with m.Switch(addr[2:_GROUP]):
            for register in registers:
                with m.Case(register.offset >> 2 & (1 << _GROUP - 2) - 1):
                    for field in register.fields:
                        if field.access is not Access.PULSE:
                            value = (C(field.reset, field.width) if field.constant
                                     else getattr(self._ports[register.name], field.member))
                            m.d.comb += selected[field.lsb:field.msb + 1].eq(value)
        return selected
