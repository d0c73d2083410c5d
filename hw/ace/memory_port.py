# SPDX-License-Identifier: Apache-2.0
"""The accelerator's memory port: reads are Fill's, writes are Drain's, each in order under one ID.

Fill, Drain -> MemoryPort -> m_axi.  Latency: 0, combinational.  Throughput: one beat per cycle on R and on W.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiSignature, Burst, Resp

from .config import AceConfig

__all__ = ["MemoryPort", "MemoryRead", "MemoryWrite"]


class MemoryRead(wiring.Signature):
    """AR and R, with AXI's handshakes, from Fill's side: INCR bursts of whole beats, all of one ID.

    Addresses are in bytes; ``arlen`` is beats, less one. Fill has reserved a buffer entry for each beat: ``rready`` is
    constant.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "araddr": Out(config.address_width), "arlen": Out(8), "arvalid": Out(1), "arready": In(1),
            "rdata": In(config.data_width), "rresp": In(Resp), "rvalid": In(1), "rready": Out(1),
        })


class MemoryWrite(wiring.Signature):
    """AW, W and B, with AXI's handshakes, from Drain's side: INCR bursts of whole beats, all of one ID.

    Addresses are in bytes; ``awlen`` is beats, less one.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "awaddr": Out(config.address_width), "awlen": Out(8), "awvalid": Out(1), "awready": In(1),
            "wdata": Out(config.data_width), "wstrb": Out(config.beat_bytes), "wlast": Out(1), "wvalid": Out(1),
            "wready": In(1), "bresp": In(Resp), "bvalid": In(1), "bready": Out(1),
        })


class MemoryPort(wiring.Component):
    """Combine both directions, and drive the constant pins.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    reads : ``In(MemoryRead)``, writes : ``In(MemoryWrite)``
    bus : ``Out(AxiSignature)``
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "reads": In(MemoryRead(config)), "writes": In(MemoryWrite(config)),
            "bus": Out(AxiSignature(addr_width=config.address_width, data_width=config.data_width, id_width=1)),
        })

    def elaborate(self, platform):
        m = Module()
        bus, size = self.bus, (self.config.beat_bytes - 1).bit_length()
        for channels in (self.reads, self.writes):
            for name, member in channels.signature.members.items():
                pin, ours = getattr(bus, name), getattr(channels, name)
                m.d.comb += pin.eq(ours) if member.flow is In else ours.eq(pin)
        m.d.comb += [bus.arsize.eq(size), bus.awsize.eq(size), bus.arburst.eq(Burst.INCR), bus.awburst.eq(Burst.INCR)]
        m.d.comb += [getattr(bus, f"{channel}{name}").eq(0)
                     for channel in ("ar", "aw") for name in ("id", "cache", "prot", "qos")]
        return m
