# SPDX-License-Identifier: Apache-2.0
"""The top of a Vivado project in simulation: copies and interrupts, with the model of the hard block at the IP's ports.

The bench has the pins that the model of the hard block drives and reads. An empty IP below the top joins them to its
ports by the names of PG213.
"""

import warnings

import pytest

from fpga.vivado.hard_block import LANES, MODULE, ports
from fpga.vivado.top import top
from hw import emit
from sim.pcie.dma_card import DmaCard, small_dma
from sim.verilator.build import build_text
from sim.verilator.design import Design, verilog_of

pytestmark = [pytest.mark.rtl, pytest.mark.long]
warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"cocotbext\.")

_CELLS = """
module IBUFDS_GTE4 #(parameter [1:0] REFCLK_HROW_CK_SEL = 0) (input I, input IB, input CEB, output O, output ODIV2);
    assign {O, ODIV2} = {I, I};
endmodule
"""


def _port(pin):
    """Port of the IP that a pin of the model is for."""
    bus, _, name = pin.partition("__")
    return name if bus == "cfg" else f"{'s' if bus in ('rq', 'cc') else 'm'}_axis_{bus}_{name}"


def _range(width):
    return f"[{width - 1}:0] " if width > 1 else ""


def _bench(pins, width):
    """Verilog of the bench, and of the IP."""
    listed = ports(width, LANES[width])
    sizes = {port.name: port.width for port in listed}
    packets = [pin for pin in pins["pins"] if pin["name"] not in ("clk", "rst")]
    inwards = "\n".join(f"    assign {_port(pin['name'])} = {{{sizes[_port(pin['name'])] // pin['width']}"
                        f"{{bench.{pin['name']}}}}};" for pin in packets if pin["direction"] == "input")
    outwards = "\n".join(f"    assign {pin['name']} = dut.pcie.{_port(pin['name'])};"
                         for pin in packets if pin["direction"] == "output")
    outer = ",\n".join(f"    {pin['direction']} {_range(pin['width'])}{pin['name']}" for pin in pins["pins"])
    inner = ",\n".join(f"    {port.direction} {_range(port.width)}{port.name}" for port in listed)
    return f"""
module bench (
{outer}
);
    top dut (.pcie_rxp(0), .pcie_rxn(0), .pcie_txp(), .pcie_txn(), .pcie_refclk_p(clk), .pcie_refclk_n(~clk),
             .pcie_perst_n(~rst));
{outwards}
endmodule

module {MODULE} (
{inner}
);
    assign user_clk = sys_clk;
    assign user_reset = ~sys_reset;
{inwards}
endmodule
"""


@pytest.mark.parametrize("width", [128, 512])
def test_copies_and_interrupts(seed, waves, width):
    design = Design(DmaCard, *small_dma(width))
    text = verilog_of(design, name="card")
    pins = {"module": "card", **emit.pins(design.component(), text=text)}
    made = build_text("\n".join([text, top(pins, lanes=LANES[width]), _bench(pins, width), _CELLS]), name="bench",
                      waves=waves)
    made.run("tests.pcie.test_card", seed=seed, testcase="copy")
    made.run("tests.pcie.test_card_interrupts", seed=seed)
