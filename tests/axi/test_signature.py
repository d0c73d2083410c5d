# SPDX-License-Identifier: Apache-2.0
import re

import pytest
from amaranth.hdl import Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiLiteSignature, AxiSignature, Burst, Resp
from hw.emit import pins

AXI = dict(addr_width=64, data_width=512, id_width=6)
LITE = dict(addr_width=16, data_width=32)


def _constant(component):
    """A module that drives all outputs of ``component`` with 0."""
    m = Module()
    m.d.comb += [Value.cast(value).eq(0) for _, member, value in component.signature.flatten(component)
                 if member.flow is Out]
    return m


class Tied(wiring.Component):
    """A top with a bus of each kind and side."""

    m_axi: Out(AxiSignature(**AXI))
    s_axil: In(AxiLiteSignature(**LITE))

    def elaborate(self, platform):
        return _constant(self)


def test_flat_ports():
    listed = {pin["name"]: (pin["direction"], pin["width"]) for pin in pins(Tied())["pins"]}
    address = {"id": 6, "addr": 64, "len": 8, "size": 3, "burst": 2, "cache": 4, "prot": 3, "qos": 4,
               "valid": 1}
    outputs = {f"aw{pin}": width for pin, width in address.items()}
    outputs |= {f"ar{pin}": width for pin, width in address.items()}
    outputs |= {"wdata": 512, "wstrb": 64, "wlast": 1, "wvalid": 1, "bready": 1, "rready": 1}
    inputs = {"awready": 1, "arready": 1, "wready": 1, "bid": 6, "bresp": 2, "bvalid": 1,
              "rid": 6, "rdata": 512, "rresp": 2, "rlast": 1, "rvalid": 1}
    expected = {f"m_axi__{pin}": ("output", width) for pin, width in outputs.items()}
    expected |= {f"m_axi__{pin}": ("input", width) for pin, width in inputs.items()}
    # The subordinate's side is the other way round.
    outputs = {"awaddr": 16, "awprot": 3, "awvalid": 1, "wdata": 32, "wstrb": 4, "wvalid": 1, "bready": 1,
               "araddr": 16, "arprot": 3, "arvalid": 1, "rready": 1}
    inputs = {"awready": 1, "wready": 1, "bresp": 2, "bvalid": 1, "arready": 1, "rdata": 32, "rresp": 2,
              "rvalid": 1}
    expected |= {f"s_axil__{pin}": ("input", width) for pin, width in outputs.items()}
    expected |= {f"s_axil__{pin}": ("output", width) for pin, width in inputs.items()}
    assert listed == expected


def test_no_id_pins():
    members = AxiSignature(addr_width=32, data_width=64, id_width=0)

    class NoId(wiring.Component):
        m_axi: Out(members)

        def elaborate(self, platform):
            return _constant(self)

    assert not {f"m_axi__{channel}id" for channel in ("aw", "b", "ar", "r")} & {
        pin["name"] for pin in pins(NoId())["pins"]}


def test_parameters():
    axi = AxiSignature(**AXI)
    assert (axi.addr_width, axi.data_width, axi.id_width) == (64, 512, 6)
    assert repr(axi) == "AxiSignature(addr_width=64, data_width=512, id_width=6)"
    lite = AxiLiteSignature(**LITE)
    assert (lite.addr_width, lite.data_width) == (16, 32)
    assert repr(lite) == "AxiLiteSignature(addr_width=16, data_width=32)"


def test_equality():
    axi, lite = AxiSignature(**AXI), AxiLiteSignature(**LITE)
    assert axi == AxiSignature(**AXI)
    assert axi != AxiSignature(**AXI | {"addr_width": 32})
    assert axi != AxiSignature(**AXI | {"data_width": 64})
    assert axi != AxiSignature(**AXI | {"id_width": 5})
    assert lite == AxiLiteSignature(**LITE)
    assert lite != AxiLiteSignature(**LITE | {"addr_width": 32})
    assert lite != AxiLiteSignature(**LITE | {"data_width": 64})
    assert axi != lite
    assert lite != axi


def test_enums():
    assert [(resp.name, resp.value) for resp in Resp] == [
        ("OKAY", 0), ("EXOKAY", 1), ("SLVERR", 2), ("DECERR", 3)]
    assert [(burst.name, burst.value) for burst in Burst] == [("FIXED", 0), ("INCR", 1), ("WRAP", 2)]


@pytest.mark.parametrize("parameter, value, sentence", [
    ("addr_width", 11, "AXI4 address width must be an integer from 12 to 64, not 11"),
    ("addr_width", 65, "AXI4 address width must be an integer from 12 to 64, not 65"),
    ("addr_width", "32", "AXI4 address width must be an integer from 12 to 64, not '32'"),
    ("data_width", 48, "AXI4 data width must be a power of two from 8 to 1024, not 48"),
    ("data_width", 2048, "AXI4 data width must be a power of two from 8 to 1024, not 2048"),
    ("id_width", -1, "AXI4 ID width must be an integer from 0 to 32, not -1"),
    ("id_width", 33, "AXI4 ID width must be an integer from 0 to 32, not 33"),
])
def test_axi_wrong(parameter, value, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        AxiSignature(**AXI | {parameter: value})


@pytest.mark.parametrize("parameter, value, sentence", [
    ("addr_width", 0, "AXI4-Lite address width must be an integer from 1 to 64, not 0"),
    ("addr_width", 65, "AXI4-Lite address width must be an integer from 1 to 64, not 65"),
    ("data_width", 128, "AXI4-Lite data width must be 32 or 64, not 128"),
])
def test_lite_wrong(parameter, value, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        AxiLiteSignature(**LITE | {parameter: value})
