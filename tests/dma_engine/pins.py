# SPDX-License-Identifier: Apache-2.0
"""Record of the transfers at the engine's pins, cycle by cycle, from the pins alone."""

from collections import defaultdict
from typing import NamedTuple

import cocotb
from cocotb.triggers import RisingEdge

__all__ = ["Handshake", "Pins"]

_FIELDS = {"aw": ("awid", "awaddr", "awlen"), "ar": ("arid", "araddr", "arlen"), "w": ("wlast", "wstrb"),
           "r": ("rid", "rlast", "rresp"), "b": ("bid", "bresp")}


class Handshake(NamedTuple):
    """A transfer; ``fields`` are those of its channel, in the order of ``_FIELDS``."""

    cycle: int
    fields: tuple


class Pins:
    """Record the transfers on ``m_axi`` and on the doorbell's W, and the stalls of each channel.

    Attributes
    ----------
    seen : dict
        Channel -> list of :class:`Handshake`; ``"db"`` is W of the doorbell port.
    raised : dict
        Channel -> cycles in which VALID rose.
    stalled : dict
        Channel -> cycles in which it stalled.
    in_flight : dict
        ``"segments"`` and ``"beats"`` (requested on AR and not yet sent on W) -> maximum at any time.
    """

    def __init__(self, bench):
        self.dut, self.bench = bench.dut, bench
        self.seen, self.raised, self.stalled = defaultdict(list), defaultdict(list), defaultdict(int)
        self.in_flight = {"segments": 0, "beats": 0}
        self._task = cocotb.start_soon(self._watch())

    def stop(self):
        self._task.cancel()

    async def _watch(self):
        dut = self.dut
        channels = [(name, getattr(dut, f"m_axi__{name}valid"), getattr(dut, f"m_axi__{name}ready"),
                     [getattr(dut, f"m_axi__{field}") for field in fields]) for name, fields in _FIELDS.items()]
        channels.append(("db", dut.s_axi_db__wvalid, dut.s_axi_db__wready, []))
        before = dict.fromkeys((name for name, *_ in channels), 0)
        top = 1 << (self.bench.config.axi_id_width - 1)
        open_, beats, edge = set(), 0, RisingEdge(dut.clk)
        while True:
            await edge
            cycle = self.bench.cycle
            for name, valid, ready, fields in channels:
                now = int(valid.value)
                if now:
                    if not before[name]:
                        self.raised[name].append(cycle)
                    if not int(ready.value):
                        self.stalled[name] += 1
                    else:
                        values = tuple(int(field.value) for field in fields)
                        self.seen[name].append(Handshake(cycle, values))
                        if name == "ar":
                            open_.add(values[0])
                            beats += values[2] + 1
                        elif name == "b" and not values[0] & top:
                            open_.discard(values[0])
                        elif name == "r":
                            beats -= 1
                before[name] = now
            most = self.in_flight
            most["segments"], most["beats"] = max(most["segments"], len(open_)), max(most["beats"], beats)
