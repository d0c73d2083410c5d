# SPDX-License-Identifier: Apache-2.0
"""A card without logic: its packet interfaces lead to application pins, where a test plays the adapter."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.pcie.pins import (
    ConfigurationSignature,
    PacketSignature,
    cc_user_layout,
    cq_user_layout,
    rc_user_layout,
    rq_user_layout,
)

__all__ = ["Wires"]


class Wires(wiring.Component):
    """Pins of a card; ``app_cq`` and ``app_rc`` are its received packets, ``app_cc`` and ``app_rq`` those to send.

    The members of ``cfg`` that a card drives come from ``app_flr_done``, ``app_np_req`` and ``app_mgmt``.
    """

    def __init__(self, data_width: int) -> None:
        packets = {"cq": (In, cq_user_layout), "rc": (In, rc_user_layout), "cc": (Out, cc_user_layout),
                   "rq": (Out, rq_user_layout)}
        members = {}
        for name, (direction, layout) in packets.items():
            signature = PacketSignature(data_width, layout(data_width))
            members[name] = direction(signature)
            members[f"app_{name}"] = (Out if direction is In else In)(signature)
        super().__init__({
            **members, "cfg": Out(ConfigurationSignature()), "app_flr_done": In(4), "app_np_req": In(2),
            "app_mgmt_addr": In(10), "app_mgmt_read": In(1), "cycles": Out(32),
        })

    def elaborate(self, platform):
        m = Module()
        for source, target in (("cq", "app_cq"), ("rc", "app_rc"), ("app_cc", "cc"), ("app_rq", "rq")):
            connect(m, flipped(getattr(self, source)), flipped(getattr(self, target)))
        m.d.comb += [
            self.cfg.cfg_flr_done.eq(self.app_flr_done), self.cfg.pcie_cq_np_req.eq(self.app_np_req),
            self.cfg.cfg_mgmt_addr.eq(self.app_mgmt_addr), self.cfg.cfg_mgmt_read.eq(self.app_mgmt_read),
            self.cfg.cfg_mgmt_write.eq(0)]
        m.d.sync += self.cycles.eq(self.cycles + 1)
        return m
