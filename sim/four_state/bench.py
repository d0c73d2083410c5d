# SPDX-License-Identifier: Apache-2.0
"""A testbench in Verilog for a DMA engine, or for a ring of accelerators: registers, stores, memories, checks for X.

::

    text = without_initial_values(verilog_of(Design(DmaEngine, TINY), name="dma_engine"))
    assert simulate(icarus, text, [copies(TINY)], folder, top="dma_engine") == []

In reset and after it, no output without a ``valid``, no ``valid`` and no ``ready`` is X in any cycle; while a ``valid``
is 1, no bit of its payload is X, but for W data without a strobe. At the end all bytes of memory are as they should be.
Payloads of inputs are X while their ``valid`` is 0.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from sim.four_state.icarus import Icarus
from sim.four_state.start import started
from sim.four_state.work import SIZE, Work

__all__ = ["Finding", "simulate"]

_MOST = 100
_STREAM = ("payload", "valid", "ready")


class Finding(NamedTuple):
    """A line of the testbench: simulated time in ns, the engine's number, and what is X or wrong."""

    time: int
    engine: int
    what: str


class _Port(NamedTuple):
    """A port of the engine."""

    direction: str
    name: str
    width: int

    @property
    def range(self) -> str:
        return f"[{self.width - 1}:0]"


def simulate(icarus: Icarus, text: str, works: Sequence[Work], folder: Path, *, top: str,
             cycles: int = 4_000) -> list[Finding]:
    """Findings; none if all is well. One engine's 100th finding ends the simulation.

    Parameters
    ----------
    icarus : Icarus
    text : str
        Verilog of the engine; its top module is ``top``.
    works : sequence of Work
        One for each engine. Engines with links are a ring.
    folder : Path
        For the simulator's files.
    cycles : int
        After these without an end there is a finding.

    Raises
    ------
    UserError
        If Icarus refuses the text.
    """
    for number, work in enumerate(works):
        for name, memory in (("before", work.before), ("after", work.after)):
            (folder / f"{name}_{number}.hex").write_text(memory.hex("\n"), encoding="utf-8")
    ports = _ports(text, top)
    lines = icarus.run("".join(("`timescale 1ns/1ps\n", started(text), _unit(ports, top),
                                _testbench(ports, works, cycles))), folder)
    found = [Finding(int(time), int(engine), what) for line in lines
             for time, engine, what in re.findall(r"^FINDING (\d+) (\d+) (.*)", line)]
    if not found and lines[-1:] != ["END"]:
        found.append(Finding(0, 0, f"the simulation did not end: {lines[-1:]}"))
    return found


def _ports(text: str, top: str) -> list[_Port]:
    body = re.search(rf"^module {top}\(.*?^endmodule", text, flags=re.MULTILINE | re.DOTALL)
    if body is None:
        raise RuntimeError(f"There is no module {top}.")
    return [_Port(direction, name, int(high or 0) + 1) for direction, high, name in re.findall(
        r"^  (input|output)(?: reg)?(?: wire)? (?:\[(\d+):0\] )?(\w+);", body[0], flags=re.MULTILINE)]


def _links(ports: Sequence[_Port]) -> list[_Port]:
    """The ports of links."""
    return [port for port in ports if port.name.startswith(("tx__", "rx__"))]


def _unit(ports: Sequence[_Port], top: str) -> str:
    """A module with an engine, its memory, its software's accesses, and the checks."""
    width = next(port.width for port in ports if port.name == "m_axi__wdata") // 8
    wide = next(port.width for port in ports if port.name == "s_axi_db__awaddr")
    outside = {"clk", "rst", *(port.name for port in _links(ports))}
    declared = "".join(map(_declared, (port for port in ports if port.name not in outside)))
    linked = "".join(f", {port.direction} {port.range} {port.name}" for port in _links(ports))
    connected = ", ".join(f".{port.name}({port.name})" for port in ports)
    return f"""
module unit #(parameter NUMBER = 0)(input clk, input rst, input checking{linked});
{declared}
  {top} dut({connected});
  localparam BYTES = {width};
  integer findings = 0, k;
  task found(input [255:0] what);
    begin
      findings = findings + 1;
      $display("FINDING %0d %0d %0s", $time, NUMBER, what);
      if (findings == {_MOST}) $finish;
    end
  endtask
{_MEMORY_TEXT}
  always @(posedge clk) if (checking) begin
{"".join(_checks(ports))}  end
  task write(input [11:0] address, input [31:0] value);
    begin
      s_axil__awaddr = address;
      s_axil__awprot = 0;
      s_axil__wdata = value;
      s_axil__wstrb = 15;
{_transfer("s_axil")}    end
  endtask
  task read(input [11:0] address);
    begin
      s_axil__araddr = address;
      s_axil__arprot = 0;
      s_axil__arvalid = 1;
      @(posedge clk);
      while (!s_axil__arready) @(posedge clk);
      #1 s_axil__arvalid = 0;
      s_axil__araddr = 'bx;
      @(posedge clk);
      while (!s_axil__rvalid) @(posedge clk);
      #1;
    end
  endtask
  task store(input [{wide - 1}:0] address, input [127:0] word);
    begin
      s_axi_db__awaddr = address;
      s_axi_db__awid = 0;
      s_axi_db__awlen = 0;
      s_axi_db__awsize = 4;
      s_axi_db__awburst = 1;
      s_axi_db__awcache = 0;
      s_axi_db__awprot = 0;
      s_axi_db__awqos = 0;
      s_axi_db__wdata = word;
      s_axi_db__wstrb = 16'hFFFF;
      s_axi_db__wlast = 1;
{_transfer("s_axi_db")}    end
  endtask
  initial begin
    s_axil__rready = 1;
    s_axil__bready = 1;
    s_axi_db__rready = 1;
    s_axi_db__bready = 1;
  end
endmodule
"""


def _declared(port: _Port) -> str:
    """A wire, or a register of what the testbench drives."""
    if port.direction == "output" or port.name in _MEMORY:
        return f"  wire {port.range} {port.name};\n"
    return f"  reg {port.range} {port.name}{' = 0' if port.name.endswith('valid') else ''};\n"


def _transfer(bus: str) -> str:
    """A write with the payload that is there: AW and W in any order, and B."""
    return f"""      fork
        begin
          {bus}__awvalid = 1;
          @(posedge clk);
          while (!{bus}__awready) @(posedge clk);
          #1 {bus}__awvalid = 0;
          {bus}__awaddr = 'bx;
        end
        begin
          {bus}__wvalid = 1;
          @(posedge clk);
          while (!{bus}__wready) @(posedge clk);
          #1 {bus}__wvalid = 0;
          {bus}__wdata = 'bx;
        end
        begin @(posedge clk); while (!{bus}__bvalid) @(posedge clk); #1; end
      join
"""


def _testbench(ports: Sequence[_Port], works: Sequence[Work], cycles: int) -> str:
    """Clock, reset, engines, links, and the order of accesses."""
    units, links = "", ""
    for number in range(len(works)):
        linked = "".join(f", .{port.name}({_wire(number, port.name)})" for port in _links(ports))
        units += f"  unit #({number}) unit_{number}(.clk(clk), .rst(rst), .checking(checking){linked});\n"
        links += "".join(f"  wire {port.range} {_wire(number, port.name)};\n" for port in _links(ports))
    if _links(ports):
        width = next(port.width for port in ports if port.name == "tx__0__payload")
        for number in range(len(works)):
            for to, sent, received in ((number + 1, 0, 1), (number - 1, 1, 0)):
                pins = ", ".join(_wire(at, f"{port}__{pin}") for at, port in (
                    (number, f"tx__{sent}"), (to % len(works), f"rx__{received}")) for pin in _STREAM)
                links += f"  link #({width}) link_{number}_{sent}(clk, rst, {pins});\n"
    software = "".join(f"      begin\n{''.join(_software(number, work))}      end\n"
                       for number, work in enumerate(works))
    return f"""
module link #(parameter WIDTH = 1)(input clk, input rst, input [WIDTH-1:0] i, input i_valid, output i_ready,
                                   output [WIDTH-1:0] o, output reg o_valid, input o_ready);
  reg [WIDTH-1:0] kept;
  assign i_ready = ~o_valid, o = o_valid ? kept : 'bx;
  always @(posedge clk)
    if (rst) o_valid <= 0;
    else if (o_valid) o_valid <= ~o_ready;
    else if (i_valid) begin o_valid <= 1; kept <= i; end
endmodule
module tb;
  reg clk = 0, rst = 0, checking = 0;
  integer cycle = 0;
  always #5 clk = ~clk;
{links}{units}  always @(posedge clk) begin
    cycle = cycle + 1;
    if (cycle > {cycles}) begin
      unit_0.found("no end");
      $finish;
    end
  end
  initial begin
    repeat (4) @(posedge clk);
    #1 rst = 1;
    repeat (4) @(posedge clk);
    #1 checking = 1;
    repeat (4) @(posedge clk);
    #1 rst = 0;
    @(posedge clk);
    fork
{software}    join
    $display("END");
    $finish;
  end
endmodule
"""


def _wire(number: int, name: str) -> str:
    """The wire at an engine's port of a link."""
    return f"wire_{number}_{name}"


def _software(number: int, work: Work) -> Iterator[str]:
    """Statements of one engine's software."""
    unit = f"        unit_{number}."
    for offset in work.first:
        yield f"{unit}read(12'h{offset:x});\n"
    for offset, value in work.writes:
        yield f"{unit}write(12'h{offset:x}, 32'h{value:x});\n"
    for address, data in work.stores:
        yield f"{unit}store('h{address:x}, 128'h{int.from_bytes(data, 'little'):x});\n"
    ends = " || ".join(f"unit_{number}.mem[{at}] !== {work.after[at]}" for at in work.words)
    yield f"        while ({ends}) @(posedge clk);\n        repeat (50) @(posedge clk);\n"
    for offset in work.last:
        yield f"{unit}read(12'h{offset:x});\n"
    yield f"{unit}compare;\n"


_MEMORY = {f"m_axi__{name}" for name in ("arready", "rvalid", "rid", "rdata", "rresp", "rlast", "awready", "wready",
                                         "bvalid", "bid", "bresp")}
"""Inputs of the engine that the memory drives."""

_MEMORY_TEXT = f"""
  reg [7:0] mem [0:{SIZE - 1}], after [0:{SIZE - 1}];
  initial begin
    $readmemh($sformatf("before_%0d.hex", NUMBER), mem);
    $readmemh($sformatf("after_%0d.hex", NUMBER), after);
  end
  task compare;
    for (k = 0; k < {SIZE}; k = k + 1) if (mem[k] !== after[k]) found("a byte of memory");
  endtask
  reg reading = 0, writing = 0, responding = 0;
  reg [63:0] raddr = 0, waddr = 0;
  reg [7:0] rleft = 0;
  reg [15:0] rid_ = 0, wid_ = 0;
  integer i;
  assign m_axi__arready = ~reading, m_axi__rvalid = reading, m_axi__rid = reading ? rid_ : 'bx;
  assign m_axi__rresp = reading ? 0 : 'bx, m_axi__rlast = reading ? rleft == 0 : 'bx;
  assign m_axi__awready = ~writing, m_axi__wready = writing & ~responding;
  assign m_axi__bvalid = responding, m_axi__bid = responding ? wid_ : 'bx, m_axi__bresp = responding ? 0 : 'bx;
  genvar g;
  generate for (g = 0; g < BYTES; g = g + 1) begin : lanes
    assign m_axi__rdata[8 * g +: 8] = reading ? mem[raddr[15:0] / BYTES * BYTES + g] : 'bx;
  end endgenerate
  always @(posedge clk) if (!rst && checking) begin
    if (m_axi__arvalid === 1 && m_axi__arready) begin
      reading <= 1; raddr <= m_axi__araddr; rleft <= m_axi__arlen; rid_ <= m_axi__arid;
    end
    if (m_axi__rvalid && m_axi__rready === 1) begin
      raddr <= (raddr / BYTES + 1) * BYTES;
      rleft <= rleft - 1;
      if (m_axi__rlast) reading <= 0;
    end
    if (m_axi__awvalid === 1 && m_axi__awready) begin
      writing <= 1; waddr <= m_axi__awaddr / BYTES * BYTES; wid_ <= m_axi__awid;
    end
    if (m_axi__wvalid === 1 && m_axi__wready) begin
      for (i = 0; i < BYTES; i = i + 1)
        if (m_axi__wstrb[i]) mem[waddr[15:0] + i] <= m_axi__wdata[8 * i +: 8];
      waddr <= waddr + BYTES;
      if (m_axi__wlast) responding <= 1;
    end
    if (m_axi__bvalid && m_axi__bready === 1) begin responding <= 0; writing <= 0; end
  end
"""


def _checks(ports: Sequence[_Port]) -> Iterator[str]:
    """Statements that find X: in payloads while their valid is 1, in all other outputs always."""
    outputs = sorted(port.name for port in ports if port.direction == "output")
    groups = {name: name.removesuffix("valid") for name in outputs if name.endswith("valid")}
    for name in outputs:
        owner = next((valid for valid, group in groups.items() if name.startswith(group)), name)
        if owner == name or name.endswith("ready"):
            yield f'    if (^{name} === 1\'bx) found("{name}");\n'
        elif name == "m_axi__wdata":
            yield (f"    if ({owner} === 1) for (k = 0; k < BYTES; k = k + 1)\n"
                   f'      if (m_axi__wstrb[k] === 1 && ^{name}[8 * k +: 8] === 1\'bx) found("{name}");\n')
        else:
            yield f'    if ({owner} === 1 && ^{name} === 1\'bx) found("{name}");\n'
