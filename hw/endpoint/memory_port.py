# SPDX-License-Identifier: Apache-2.0
"""The memory port: reads and writes of several managers on one AXI4 bus.

AxiStreams, PutReceiver -> MemoryPort -> m_axi.  Latency: 1 cycle on each of the five channels.  Throughput: one beat
per cycle on R and on W, also across managers.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiSignature, Burst
from hw.stream import RoundRobin, Skid, selected

from .config import ADDR_WIDTH, MANAGER_BITS, WEIGHT_WIDTH, EndpointConfig
from .layouts import read_beat_layout, read_layout, response_layout, write_layout
from .manager_shares import ManagerShares

__all__ = ["MemoryCounts", "MemoryPort", "MemorySettings"]

AHEAD = 32
"""Read beats that may be requested in advance of R's maximum of one beat per cycle."""

WINDOW_WIDTH = 16


class MemorySettings(wiring.Signature):
    """Software's settings of the memory port: levels from registers, which may change at any time.

    Members
    -------
    read_weight : ``Out(WEIGHT_WIDTH).array(len(readers))``, write_weight : ``Out(WEIGHT_WIDTH).array(len(managers))``
        Weights of the managers' shares of the beats on R and on W; 0 counts as 1.
    window : ``Out(WINDOW_WIDTH)``
        Maximum of read beats in flight; 0 for no limit.
    """

    def __init__(self, config: EndpointConfig) -> None:
        super().__init__({
            "read_weight": Out(WEIGHT_WIDTH).array(len(config.readers)),
            "write_weight": Out(WEIGHT_WIDTH).array(len(config.managers)), "window": Out(WINDOW_WIDTH),
        })


class MemoryCounts(wiring.Signature):
    """Event strobes of the memory port, one per manager: a beat was read or written in the cycle before."""

    def __init__(self, config: EndpointConfig) -> None:
        super().__init__({"read": Out(len(config.readers)), "written": Out(len(config.managers))})


class MemoryPort(wiring.Component):
    """Arbitrate by weight, burst by burst. The manager's number is the prefix of the ID and routes the response.

    *Writes*: a burst is granted when its first beat of data is valid, and is sent without interruption; its address is
    issued with that beat. A manager without data is never granted W. Shares are measured in beats on W.

    *Reads*: shares are measured in requested beats. If requests were issued without limit, they would wait in the
    memory, whose bandwidth would follow the beats in flight and not the weights. The port therefore issues requests for
    one beat per cycle, R's maximum, plus AHEAD beats. For a slower memory, ``window`` limits the beats in flight.

    Parameters
    ----------
    config : EndpointConfig

    Members
    -------
    reads : array of ``In(stream.Signature(read_layout))``
    beats : array of ``Out(stream.Signature(read_beat_layout))``
        Reads of ``config.readers``. They accept every beat: ``beats.ready`` is ignored.
    writes : array of ``In(stream.Signature(write_layout))``
    responses : array of ``Out(stream.Signature(response_layout))``
        Writes of ``config.managers``.
    settings : ``In(MemorySettings)``, counts : ``Out(MemoryCounts)``
    bus : ``Out(AxiSignature)``
        Registered.
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        readers, managers = len(config.readers), len(config.managers)
        super().__init__({
            "reads": In(stream.Signature(read_layout(config))).array(readers),
            "beats": Out(stream.Signature(read_beat_layout(config))).array(readers),
            "writes": In(stream.Signature(write_layout(config))).array(managers),
            "responses": Out(stream.Signature(response_layout(config))).array(managers),
            "settings": In(MemorySettings(config)), "counts": Out(MemoryCounts(config)),
            "bus": Out(AxiSignature(addr_width=ADDR_WIDTH, data_width=config.data_width,
                                    id_width=config.axi_id_width)),
        })

    def elaborate(self, platform):
        m = Module()
        size = (self.config.beat_bytes - 1).bit_length()
        m.d.comb += [self.bus.arsize.eq(size), self.bus.awsize.eq(size),
                     self.bus.arburst.eq(Burst.INCR), self.bus.awburst.eq(Burst.INCR)]
        self._write(m)
        self._respond(m)
        self._issue(m)
        self._read(m)
        return m

    def _write(self, m):
        bus, count = self.bus, len(self.config.managers)
        m.submodules.write_shares = shares = ManagerShares(count)
        m.submodules.write_choice = choice = RoundRobin(count)
        m.submodules.addresses = addresses = Skid(_address_layout(self.config))
        m.submodules.data = beats = Skid(data.StructLayout(
            {"data": self.config.data_width, "strb": self.config.beat_bytes, "last": 1}))
        inside, current, chosen, free = Signal(), Signal(count), Signal(count), Signal()
        m.d.comb += [
            shares.requesting.eq(Cat(write.valid for write in self.writes)),
            choice.requests.eq(shares.candidates), choice.advance.eq(free & ~inside),
            chosen.eq(Mux(inside, current, choice.grant_onehot)),
            free.eq(beats.i.ready & (inside | addresses.i.ready)),
            beats.i.valid.eq((chosen & shares.requesting).any() & free),
            addresses.i.valid.eq(beats.i.valid & ~inside),
            shares.charge.eq(Mux(beats.i.valid, chosen, 0)), shares.beats.eq(1),
            *(write.ready.eq(one & free) for write, one in zip(self.writes, chosen, strict=True)),
            *(mine.eq(weight) for mine, weight in zip(shares.weight, self.settings.write_weight, strict=True)),
        ]
        taken = selected(write_layout(self.config), chosen, [write.payload for write in self.writes])
        m.d.comb += [beats.i.payload[name].eq(taken[name]) for name in ("data", "strb", "last")]
        _copy_address(m, addresses.i.payload, taken, _number(chosen))
        with m.If(beats.i.valid):
            m.d.sync += [inside.eq(~taken.last), current.eq(chosen)]
        m.d.sync += self.counts.written.eq(shares.charge)

        _drive_address(m, bus, "aw", addresses.o)
        m.d.comb += [bus.wdata.eq(beats.o.payload.data), bus.wstrb.eq(beats.o.payload.strb),
                     bus.wlast.eq(beats.o.payload.last), bus.wvalid.eq(beats.o.valid), beats.o.ready.eq(bus.wready)]

    def _respond(self, m):
        bus, width = self.bus, self.config.source_id_width
        layout = response_layout(self.config)
        m.submodules.responses = responses = Skid(data.StructLayout(
            {"manager": MANAGER_BITS, "response": layout}))
        m.d.comb += [
            responses.i.valid.eq(bus.bvalid), bus.bready.eq(responses.i.ready),
            responses.i.payload.manager.eq(bus.bid[width:]), responses.i.payload.response.id.eq(bus.bid[:width]),
            responses.i.payload.response.resp.eq(bus.bresp),
        ]
        # A response to no manager is dropped.
        m.d.comb += responses.o.ready.eq(1)
        for number, output in enumerate(self.responses):
            m.d.comb += output.payload.eq(responses.o.payload.response)
            with m.If(responses.o.payload.manager == number):
                m.d.comb += [output.valid.eq(responses.o.valid), responses.o.ready.eq(output.ready)]

    def _issue(self, m):
        m.submodules.read_shares = shares = ManagerShares(len(self.reads))
        m.submodules.read_choice = choice = RoundRobin(len(self.reads))
        m.submodules.read_addresses = addresses = Skid(_address_layout(self.config))
        chosen = choice.grant_onehot
        taken = selected(read_layout(self.config), chosen, [read.payload for read in self.reads])
        ahead, flying = Signal(range(1 << 10)), Signal(WINDOW_WIDTH + 1)
        open_, free, issued, issued_beats = Signal(), Signal(), Signal(), Signal(9)
        m.d.comb += [
            shares.requesting.eq(Cat(read.valid for read in self.reads)),
            free.eq(addresses.i.ready & open_ & ~issued),
            choice.requests.eq(shares.candidates), choice.advance.eq(free),
            addresses.i.valid.eq(choice.valid & free),
            shares.charge.eq(Mux(addresses.i.valid, chosen, 0)), shares.beats.eq(taken.len + 1),
            *(read.ready.eq(one & free) for read, one in zip(self.reads, chosen, strict=True)),
            *(mine.eq(weight) for mine, weight in zip(shares.weight, self.settings.read_weight, strict=True)),
        ]
        _copy_address(m, addresses.i.payload, taken, selected(MANAGER_BITS, chosen, self._reading()))
        _drive_address(m, self.bus, "ar", addresses.o)

        # An issued burst is counted a cycle later. After a burst of several beats, no other is issued in that cycle.
        arrived = Signal()
        m.d.comb += arrived.eq(self.bus.rvalid & self.bus.rready)
        m.d.sync += [
            issued_beats.eq(Mux(addresses.i.valid, taken.len + 1, 0)), issued.eq(addresses.i.valid & taken.len.any()),
            # A beat that arrives while none is in flight responds to a request from before a reset.
            ahead.eq(ahead + issued_beats - (ahead != 0)), flying.eq(flying + issued_beats - (arrived & (flying != 0))),
            open_.eq((ahead < AHEAD) & ((self.settings.window == 0) | (flying < self.settings.window))),
        ]

    def _read(self, m):
        bus, width = self.bus, self.config.source_id_width
        beat, valid, manager = Signal(read_beat_layout(self.config), reset_less=True), Signal(), Signal(MANAGER_BITS)
        m.d.comb += bus.rready.eq(1)
        m.d.sync += [
            valid.eq(bus.rvalid), manager.eq(bus.rid[width:]),
            beat.id.eq(bus.rid[:width]), beat.data.eq(bus.rdata), beat.resp.eq(bus.rresp), beat.last.eq(bus.rlast),
        ]
        for index, (number, beats) in enumerate(zip(self._reading(), self.beats, strict=True)):
            m.d.comb += [beats.payload.eq(beat), beats.valid.eq(valid & (manager == number)),
                         self.counts.read[index].eq(beats.valid)]

    def _reading(self):
        """Numbers of the managers that read."""
        return [C(self.config.managers.index(name), MANAGER_BITS) for name in self.config.readers]


def _address_layout(config):
    return data.StructLayout({"id": config.axi_id_width, "addr": ADDR_WIDTH, "len": 8, "cache": 4, "prot": 3, "qos": 4})


def _copy_address(m, address, burst, manager):
    m.d.comb += address.id.eq(Cat(burst.id, manager))
    m.d.comb += [address[name].eq(burst[name]) for name in ("addr", "len", "cache", "prot", "qos")]


def _drive_address(m, bus, channel, source):
    m.d.comb += [getattr(bus, channel + name).eq(source.payload[name])
                 for name in ("id", "addr", "len", "cache", "prot", "qos")]
    m.d.comb += [getattr(bus, f"{channel}valid").eq(source.valid),
                 source.ready.eq(getattr(bus, f"{channel}ready"))]


def _number(onehot):
    """Index of the set bit."""
    return Cat(Cat(onehot[index] for index in range(len(onehot)) if index >> bit & 1).any()
               for bit in range(MANAGER_BITS))
