# SPDX-License-Identifier: Apache-2.0
"""Base of the AXI4 and AXI4-Lite monitors: two sides, five channels, tables by ID."""

from amaranth import *
from amaranth.hdl import Assert, Assume, Format
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In

from hw.stream.shapes import ShapeLike

__all__ = ["BusRules", "Rows", "Table"]


class BusRules(wiring.Component):
    """A monitor whose inputs are the signals of a bus, with the rules common to all five channels."""

    #: Payload signals of each channel, and the side that drives them.
    _CHANNELS = {
        "aw": ("manager", ("id", "addr", "len", "size", "burst", "cache", "prot", "qos")),
        "w": ("manager", ("data", "strb", "last")),
        "b": ("subordinate", ("id", "resp")),
        "ar": ("manager", ("id", "addr", "len", "size", "burst", "cache", "prot", "qos")),
        "r": ("subordinate", ("id", "data", "resp", "last")),
    }

    def __init__(self, bus: wiring.Signature, members: dict[str, wiring.Member], *, name: str, manager: str | None,
                 subordinate: str | None) -> None:
        for side, mode in (("manager", manager), ("subordinate", subordinate)):
            if mode not in ("assert", "assume", None):
                raise ValueError(
                    f'{type(self).__name__} {side} mode must be "assert", "assume" or None, not {mode!r}')
        self.bus = bus
        self.name = name
        self._prefix = name.replace("{", "{{").replace("}", "}}")
        self.manager = manager
        self.subordinate = subordinate
        super().__init__({pin: In(member.shape) for pin, member in bus.members.items()} | members)

    def observe(self, bus):
        """Statements for ``m.d.comb`` that connect the interface ``bus``, from either of its ends."""
        return [Value.cast(getattr(self, pin)).eq(Value.cast(getattr(bus, pin)))
                for pin in self.bus.members]

    def rule(self, m, side, section, condition, text, *values):
        """Require of ``side`` that ``condition`` holds wherever the enclosing ``m.If`` does."""
        mode = getattr(self, side)
        if mode is not None:
            check = {"assert": Assert, "assume": Assume}[mode]
            m.d.sync += check(condition, Format(f"{self._prefix}: {text} (IHI 0022 {section})", *values))

    def capacity(self, m, condition, text, *values):
        """Require that the tables suffice: a limit on the manager, and on the choice of the parameters."""
        check = Assume if self.manager == "assume" else Assert
        m.d.sync += check(condition, Format(f"{self._prefix}: {text} is too small", *values))

    def _payload(self, channel):
        pins = (channel + pin for pin in self._CHANNELS[channel][1])
        return [pin for pin in pins if pin in self.bus.members]

    def transfers(self, m, channel):
        """A transfer takes place on ``channel`` in this cycle."""
        transfer = Signal(name=f"{channel}_transfer")
        m.d.comb += transfer.eq(getattr(self, f"{channel}valid") & getattr(self, f"{channel}ready"))
        return transfer

    def check_handshakes(self, m):
        """VALID is low out of reset; once high it stays, with its payload, until the transfer."""
        # In the first cycle of a reset the bus may still have its previous state.
        was_reset = Signal(init=1, reset_less=True)
        m.d.sync += was_reset.eq(self.reset)

        for channel, (side, _) in self._CHANNELS.items():
            valid = getattr(self, f"{channel}valid")
            with m.If(was_reset):
                self.rule(m, side, "A3.1.2", ~valid,
                          f"{channel.upper()}VALID is high in reset or in the first cycle after it")

            stalled = Signal(name=f"{channel}_stalled")
            m.d.sync += stalled.eq(valid & ~getattr(self, f"{channel}ready"))
            with m.If(stalled & ~self.reset):
                self.rule(m, side, "A3.2.1", valid,
                          f"{channel.upper()}VALID fell before {channel.upper()}READY was high")
            for pin in self._payload(channel):
                now = Value.cast(getattr(self, pin))
                before = Signal(len(now), name=f"{pin}_before", reset_less=True)
                m.d.sync += before.eq(now)
                with m.If(stalled & valid & ~self.reset):
                    self.rule(m, side, "A3.2.1", now == before,
                              f"{pin.upper()} changed from {{:#x}} to {{:#x}} while {channel.upper()}VALID "
                              f"waited for {channel.upper()}READY", before, now)

    @property
    def reset(self) -> Value:
        """Reset of the bus's clock domain; constant 0 if the domain has none."""
        return ResetSignal(allow_reset_less=True)


class Rows:
    """A memory with one writer and asynchronous reads."""

    def __init__(self, m: Module, name: str, addr_width: int, shape: ShapeLike) -> None:
        self.shape = shape
        self._memory = memory.Memory(shape=shape, depth=1 << addr_width, init=[])
        m.submodules[name] = self._memory

    def read(self, m, addr):
        """The row at ``addr``, as it was before this cycle's write."""
        port = self._memory.read_port(domain="comb")
        m.d.comb += port.addr.eq(addr)
        return port.data

    def write(self, m, enable, addr, value):
        """Store ``value``, or a value for each field. May be called once."""
        port = self._memory.write_port()
        m.d.comb += [port.en.eq(enable), port.addr.eq(addr)]
        if isinstance(value, dict):
            m.d.comb += [port.data[field].eq(part) for field, part in value.items()]
        else:
            m.d.comb += port.data.eq(value)


class Table(Rows):
    """One row of counts for each ID. A row that was written before the last reset reads as zeros."""

    def __init__(self, m: Module, name: str, id_width: int, shape: ShapeLike, epoch: Value) -> None:
        super().__init__(m, name, id_width, shape)
        self._epoch = epoch

    def read(self, m, addr):
        stored = super().read(m, addr)
        row = Signal(self.shape)
        with m.If(stored.epoch == self._epoch):
            m.d.comb += row.eq(stored)
        return row

    def write(self, m, enable, addr, value):
        super().write(m, enable, addr, {"epoch": self._epoch, **value})
