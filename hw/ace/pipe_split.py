# SPDX-License-Identifier: Apache-2.0
"""GRANTs and ABORTs to send, for the ports of all pipes.

Pool -> PipeSplit -> LinkPort, and Faults -> PipeSplit -> Transmit.  Latency: none.  Throughput: one GRANT per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .config import AceConfig
from .faults import AbortSend
from .layouts import signal_layout
from .link.sender import SignalPort

__all__ = ["GrantPort", "PipeSplit"]


class GrantPort(wiring.Signature):
    """GRANTs to send: a stream of ``signal_layout`` from the pool, and credits ahead of it.

    PipeSplit drives ``free``, a bit for each port: credit for at least two GRANTs more than those taken up to the
    previous cycle.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({**stream.Signature(signal_layout(config)).members, "free": In(config.ports)})


class PipeSplit(wiring.Component):
    """
    Parameters
    ----------
    config : AceConfig

    Members
    -------
    signals : ``In(GrantPort)``, port_signals : ``Out(SignalPort).array(ports)``
        GRANTs.
    abort : ``In(AbortSend)``, aborts : ``Out(AbortSend).array(pipes)``
        All pipes have the fields of the ABORT; ``valid`` and ``taken`` of each are those of its own ports.
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "signals": In(GrantPort(config)), "port_signals": Out(SignalPort(config)).array(config.ports),
            "abort": In(AbortSend(config)), "aborts": Out(AbortSend(config)).array(config.pipes),
        })

    def elaborate(self, platform):
        m = Module()
        signal = self.signals.payload
        for number, port in enumerate(self.port_signals):
            m.d.comb += [port.valid.eq(self.signals.valid & (signal.port == number)), port.payload.eq(signal.header),
                         self.signals.free[number].eq(port.free)]
        m.d.comb += self.signals.ready.eq(Cat(port.ready for port in self.port_signals).bit_select(signal.port, 1))
        for abort, ports in zip(self.aborts, self.config.pipe_ports, strict=True):
            m.d.comb += [getattr(abort, name).eq(getattr(self.abort, name))
                         for name in ("communicator", "epoch", "record")]
            for port in set(ports) - {self.config.local_port}:
                m.d.comb += [abort.valid[port].eq(self.abort.valid[port]), self.abort.taken[port].eq(abort.taken[port])]
        return m
