# SPDX-License-Identifier: Apache-2.0
"""The card: an endpoint behind the PCIe hard block.

::

    rq, rc, cq, cc, cfg <-> PcieAdapter <-> Endpoint <-> tx, rx
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.layouts import link_layout
from hw.common.resettable import Resettable
from hw.common.wiring import Wiring
from hw.endpoint.engine import Endpoint
from hw.pcie.adapter import PcieAdapter
from hw.pcie.engine_reset import ENGINE_DOMAIN
from hw.pcie.pins import (
    ConfigurationSignature,
    PacketSignature,
    cc_user_layout,
    cq_user_layout,
    rc_user_layout,
    rq_user_layout,
)

from .config import CardConfig

__all__ = ["Card"]


class Card(wiring.Component):
    """Everything on the card but for the hard block and the transceivers of the links.

    ``clk`` and ``rst`` are the hard block's ``user_clk`` and ``user_reset``. With ``config.pcie.two_clocks``, the
    endpoint has a clock domain of its own: ``engine_clk`` and ``engine_rst``. Each reset is synchronous to its clock,
    and may be asserted alone, for any number of cycles.

    Parameters
    ----------
    config : CardConfig

    Members
    -------
    rq, cc : ``Out(PacketSignature)``, rc, cq : ``In(PacketSignature)``, cfg : ``Out(ConfigurationSignature)``
        As in :class:`PcieAdapter`.
    tx, rx : ``Out`` and ``In``, arrays of ``stream.Signature(link_layout)``
        Links, as in :class:`Endpoint`, in its clock domain.
    """

    def __init__(self, config: CardConfig) -> None:
        if not isinstance(config, CardConfig):
            raise TypeError(f"Card needs a CardConfig, not {config!r}")
        self.config = config
        width, endpoint = config.pcie.data_width, config.endpoint
        link = stream.Signature(link_layout(endpoint.ace))
        super().__init__({
            "rq": Out(PacketSignature(width, rq_user_layout(width))),
            "rc": In(PacketSignature(width, rc_user_layout(width))),
            "cq": In(PacketSignature(width, cq_user_layout(width))),
            "cc": Out(PacketSignature(width, cc_user_layout(width))),
            "cfg": Out(ConfigurationSignature()),
            "tx": Out(link).array(endpoint.ports), "rx": In(link).array(endpoint.ports),
        })

    def elaborate(self, platform):
        m = Module()
        wires = Wiring(m, self)
        domain = ENGINE_DOMAIN if self.config.pcie.two_clocks else "sync"
        endpoint = DomainRenamer(domain)(Resettable(Endpoint(self.config.endpoint)))
        wires.add(adapter=PcieAdapter(self.config.pcie), endpoint=endpoint)
        for name in ("rq", "rc", "cq", "cc", "cfg"):
            wires.connect(f"adapter.{name}", f"self.{name}")
        for bus, port in (("s_axi", "m_axi"), ("m_axil", "s_axil"), ("m_axi_db", "s_axi_db"), ("irq", "irq"),
                          ("interrupts", "interrupts"), ("engine_reset", "reset")):
            wires.connect(f"adapter.{bus}", f"endpoint.{port}")
        for name in ("tx", "rx"):
            wires.connect(f"endpoint.{name}", f"self.{name}")
        wires.leave_open("endpoint.events", "for simulations of the engine alone")
        wires.finish()
        return m
