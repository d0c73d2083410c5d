# SPDX-License-Identifier: Apache-2.0
"""The pins of AXI4, AXI4-Lite and AXI4-Stream as flat interfaces, named as in AMBA (Arm IHI 0022, IHI 0051), seen from
the manager or transmitter.

A component with ``"m_axi": Out(AxiSignature(...))`` comes out with ports ``m_axi__awaddr`` and so
on, which bus models and vendor tools recognise; a subordinate has ``"s_axi":
In(AxiSignature(...))``.
"""

from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["AxiLiteSignature", "AxiSignature", "AxiStreamSignature", "Burst", "Resp"]


class Resp(enum.Enum, shape=2):
    """Response of a transfer (IHI 0022, A3.4.4)."""

    OKAY = 0
    EXOKAY = 1
    SLVERR = 2
    DECERR = 3


class Burst(enum.Enum, shape=2):
    """Address sequence of a burst (IHI 0022, A3.4.1)."""

    FIXED = 0
    INCR = 1
    WRAP = 2


class AxiSignature(wiring.Signature):
    """An AXI4 bus without LOCK, REGION and USER.

    Parameters
    ----------
    addr_width : int
        Width of addresses, from 12 to 64: a burst's bounds are pages of 4 KiB.
    data_width : int
        Width of data, a power of two from 8 to 1024.
    id_width : int
        Width of transaction identifiers, from 0 to 32; 0 leaves the ID pins out of the Verilog.

    Members
    -------
    awid, awaddr, awlen, awsize, awburst, awcache, awprot, awqos, awvalid : ``Out``; awready : ``In``
        Write address channel.
    wdata, wstrb, wlast, wvalid : ``Out``; wready : ``In``
        Write data channel.
    bid, bresp, bvalid : ``In``; bready : ``Out``
        Write response channel.
    arid, araddr, arlen, arsize, arburst, arcache, arprot, arqos, arvalid : ``Out``; arready :
    ``In``
        Read address channel.
    rid, rdata, rresp, rlast, rvalid : ``In``; rready : ``Out``
        Read data channel.

    Raises
    ------
    ValueError
        If a width is out of its range.
    """

    def __init__(self, *, addr_width: int, data_width: int, id_width: int) -> None:
        if not isinstance(addr_width, int) or not 12 <= addr_width <= 64:
            raise ValueError(f"AXI4 address width must be an integer from 12 to 64, not {addr_width!r}")
        if data_width not in (8, 16, 32, 64, 128, 256, 512, 1024):
            raise ValueError(f"AXI4 data width must be a power of two from 8 to 1024, not {data_width!r}")
        if not isinstance(id_width, int) or not 0 <= id_width <= 32:
            raise ValueError(f"AXI4 ID width must be an integer from 0 to 32, not {id_width!r}")
        self._addr_width = addr_width
        self._data_width = data_width
        self._id_width = id_width

        members: dict[str, wiring.Member] = {}
        for channel in ("aw", "ar"):
            members |= {
                f"{channel}id": Out(id_width),
                f"{channel}addr": Out(addr_width),
                f"{channel}len": Out(8),
                f"{channel}size": Out(3),
                f"{channel}burst": Out(Burst),
                f"{channel}cache": Out(4),
                f"{channel}prot": Out(3),
                f"{channel}qos": Out(4),
                f"{channel}valid": Out(1),
                f"{channel}ready": In(1),
            }
        members |= {
            "wdata": Out(data_width),
            "wstrb": Out(data_width // 8),
            "wlast": Out(1),
            "wvalid": Out(1),
            "wready": In(1),
            "bid": In(id_width),
            "bresp": In(Resp),
            "bvalid": In(1),
            "bready": Out(1),
            "rid": In(id_width),
            "rdata": In(data_width),
            "rresp": In(Resp),
            "rlast": In(1),
            "rvalid": In(1),
            "rready": Out(1),
        }
        super().__init__(members)

    @property
    def addr_width(self) -> int:
        """Width of addresses in bits."""
        return self._addr_width

    @property
    def data_width(self) -> int:
        """Width of data in bits."""
        return self._data_width

    @property
    def id_width(self) -> int:
        """Width of transaction identifiers in bits."""
        return self._id_width

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, AxiSignature) and self.addr_width == other.addr_width
                and self.data_width == other.data_width and self.id_width == other.id_width)

    def __repr__(self) -> str:
        return (f"AxiSignature(addr_width={self.addr_width}, data_width={self.data_width}, "
                f"id_width={self.id_width})")


class AxiLiteSignature(wiring.Signature):
    """An AXI4-Lite bus.

    Parameters
    ----------
    addr_width : int
        Width of addresses, from 1 to 64.
    data_width : int
        Width of data, 32 or 64.

    Members
    -------
    awaddr, awprot, awvalid : ``Out``; awready : ``In``
        Write address channel.
    wdata, wstrb, wvalid : ``Out``; wready : ``In``
        Write data channel.
    bresp, bvalid : ``In``; bready : ``Out``
        Write response channel.
    araddr, arprot, arvalid : ``Out``; arready : ``In``
        Read address channel.
    rdata, rresp, rvalid : ``In``; rready : ``Out``
        Read data channel.

    Raises
    ------
    ValueError
        If a width is out of its range.
    """

    def __init__(self, *, addr_width: int, data_width: int) -> None:
        if not isinstance(addr_width, int) or not 1 <= addr_width <= 64:
            raise ValueError(f"AXI4-Lite address width must be an integer from 1 to 64, not {addr_width!r}")
        if data_width not in (32, 64):
            raise ValueError(f"AXI4-Lite data width must be 32 or 64, not {data_width!r}")
        self._addr_width = addr_width
        self._data_width = data_width
        super().__init__({
            "awaddr": Out(addr_width),
            "awprot": Out(3),
            "awvalid": Out(1),
            "awready": In(1),
            "wdata": Out(data_width),
            "wstrb": Out(data_width // 8),
            "wvalid": Out(1),
            "wready": In(1),
            "bresp": In(Resp),
            "bvalid": In(1),
            "bready": Out(1),
            "araddr": Out(addr_width),
            "arprot": Out(3),
            "arvalid": Out(1),
            "arready": In(1),
            "rdata": In(data_width),
            "rresp": In(Resp),
            "rvalid": In(1),
            "rready": Out(1),
        })

    @property
    def addr_width(self) -> int:
        """Width of addresses in bits."""
        return self._addr_width

    @property
    def data_width(self) -> int:
        """Width of data in bits."""
        return self._data_width

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, AxiLiteSignature) and self.addr_width == other.addr_width
                and self.data_width == other.data_width)

    def __repr__(self) -> str:
        return f"AxiLiteSignature(addr_width={self.addr_width}, data_width={self.data_width})"


class AxiStreamSignature(wiring.Signature):
    """An AXI4-Stream of packets (IHI 0051), seen from the transmitter.

    Parameters
    ----------
    data_width : int
        Width of data, a power of two from 8 to 1024.

    Members
    -------
    tdata, tkeep, tlast, tvalid : ``Out``; tready : ``In``
        Lower bytes come first. ``tkeep`` has a bit per byte; it is all ones except in the last beat, where it is
        contiguous from bit 0.
    tuser : ``Out(1)``
        In the last beat: the packet is corrupt.

    Raises
    ------
    ValueError
        If ``data_width`` is out of its range.
    """

    def __init__(self, *, data_width: int) -> None:
        if data_width not in (8, 16, 32, 64, 128, 256, 512, 1024):
            raise ValueError(f"AXI4-Stream data width must be a power of two from 8 to 1024, not {data_width!r}")
        self._data_width = data_width
        super().__init__({
            "tdata": Out(data_width), "tkeep": Out(data_width // 8), "tlast": Out(1), "tuser": Out(1),
            "tvalid": Out(1), "tready": In(1),
        })

    @property
    def data_width(self) -> int:
        """Width of data in bits."""
        return self._data_width

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AxiStreamSignature) and self.data_width == other.data_width

    def __repr__(self) -> str:
        return f"AxiStreamSignature(data_width={self.data_width})"
