# SPDX-License-Identifier: Apache-2.0
"""A testbench in Verilog for a DMA engine: registers, stores, a memory, and checks for X.

::

    result = simulate(icarus, without_initial_values(text), Script(TINY), folder)
    assert not result.findings

After reset, no ``valid``, ``ready`` or interrupt is X in any cycle; while a ``valid`` is 1, no bit of its payload is X,
but for W data without a strobe. A checksum covers all of them in all cycles: it is equal for equal behaviour. At the
end the copied bytes and the completion words are as they should be.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from dmace.drivers.dma import DmaDriver
from dmace.drivers.registers import wait
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.words import Command, NativeWord
from sim.four_state.icarus import Icarus

__all__ = ["Finding", "Result", "Script", "simulate"]

_BASE, _SOURCE, _DESTINATION, _WORDS, _SIZE = 1 << 32, 0, 0x4000, 0x8000, 1 << 16
_DOMAIN, _QUEUE = 3, 1


class Finding(NamedTuple):
    """A line of the testbench: simulated time in ns, and what is X or wrong."""

    time: int
    what: str


class Result(NamedTuple):
    """At most 400 findings, none if all is well, and the checksum of all valid outputs."""

    findings: list[Finding]
    checksum: str


class _Recorder:
    """A bus of which writes are recorded and which reads 0."""

    def __init__(self) -> None:
        self.writes: list[tuple[int, int]] = []

    async def read(self, offset: int) -> int:
        return 0

    async def write(self, offset: int, value: int) -> None:
        self.writes.append((offset, value))


class Script:
    """Configuration of a queue, and copies of it.

    Parameters
    ----------
    config : DmaConfig
    lengths : sequence of int
        Bytes of the copies, from and to odd addresses; at most 2048.
    """

    def __init__(self, config: DmaConfig, lengths: Sequence[int] = (1, 8, 61, 300, 1100)) -> None:
        bus = _Recorder()
        driver = DmaDriver(bus, config)
        wait(driver.define_region(2, base=_BASE + _SOURCE, length=0x4000, domain=_DOMAIN, writable=False))
        wait(driver.define_region(3, base=_BASE + _DESTINATION, length=0x4000, domain=_DOMAIN, readable=False))
        wait(driver.configure_queue(_QUEUE, domain=_DOMAIN, sc=_BASE + _WORDS, rc=_BASE + _WORDS + 8))
        wait(driver.command(_QUEUE, Command.START))
        self.writes = bus.writes
        self.moves = [(2049 * number % 0x3000 + 5, 2100 * number + 3, length) for number, length in enumerate(lengths)]

    def words(self) -> Iterator[int]:
        """The native words to store, one after the other."""
        for source, destination, length in self.moves:
            yield NativeWord.copy(src=(2, source), dst=(3, destination), length=length).pack()


def simulate(icarus: Icarus, text: str, script: Script, folder: Path, *, top: str = "dma_engine",
             cycles: int = 4_000) -> Result:
    """Findings of the script on an engine.

    Parameters
    ----------
    icarus : Icarus
    text : str
        Verilog of the engine; its top module is ``top``.
    script : Script
    folder : Path
        For the simulator's files.
    cycles : int
        After these without an end there is a finding.

    Raises
    ------
    UserError
        If Icarus refuses the text.
    """
    lines = icarus.run(text + _testbench(_ports(text, top), script, top, cycles), folder)
    found = [Finding(int(time), what) for line in lines for time, what in re.findall(r"^FINDING (\d+) (.*)", line)]
    if not found and lines[-1:] != ["END"]:
        found.append(Finding(0, f"the simulation did not end: {lines[-1:]}"))
    return Result(found, next((line.removeprefix("SUM ") for line in lines if line.startswith("SUM ")), ""))


def _ports(text: str, top: str) -> list[tuple[str, str, int]]:
    """Direction, name and width of each port."""
    body = re.search(rf"^module {top}\(.*?^endmodule", text, flags=re.MULTILINE | re.DOTALL)
    if body is None:
        raise RuntimeError(f"There is no module {top}.")
    return [(direction, name, int(high or 0) + 1) for direction, high, name in re.findall(
        r"^  (input|output)(?: reg)?(?: wire)? (?:\[(\d+):0\] )?(\w+);", body[0], flags=re.MULTILINE)]


def _testbench(ports: Sequence[tuple[str, str, int]], script: Script, top: str, cycles: int) -> str:
    width = next(bits for _, name, bits in ports if name == "m_axi__wdata") // 8
    driven = {"clk", "rst"}
    declared = "".join(f"  {'wire' if direction == 'output' or name in _MEMORY else 'reg'} [{width - 1}:0] {name}"
                       f"{'' if direction == 'output' or name in _MEMORY else ' = 0'};\n"
                       for direction, name, width in ports if name not in driven)
    connected = ", ".join(f".{name}({name})" for _, name, _ in ports)
    stores = "".join(f"    store(14'h{_QUEUE << 12:x}, 128'h{word:x});\n" for word in script.words())
    writes = "".join(f"    access(12'h{offset:x}, 32'h{value:x});\n" for offset, value in script.writes)
    expected = "".join(
        f"    for (k = 0; k < {length}; k = k + 1)\n"
        f"      if (mem[{_DESTINATION + destination} + k] !== mem[{_SOURCE + source} + k]) found(\"a copied byte\");\n"
        for source, destination, length in script.moves)
    count = len(script.moves)
    return f"""
`timescale 1ns/1ps
module tb;
  reg clk = 0, rst = 0;
  always #5 clk = ~clk;
{declared}
  {top} dut({connected});
  localparam BYTES = {width};
  integer findings = 0, cycle = 0, k;
  reg checking = 0;
  reg [63:0] sum = 0;
  task found(input [255:0] what);
    begin
      findings = findings + 1;
      if (findings <= 400) $display("FINDING %0t %0s", $time, what);
    end
  endtask
{_MEMORY_TEXT}
  always @(posedge clk) begin
    cycle = cycle + 1;
    if (cycle > {cycles}) begin
      found("no end");
      $finish;
    end
    if (checking) begin
{"".join(_checks(ports))}    end
  end
  task access(input [11:0] address, input [31:0] value);
    begin
      s_axil__awaddr = address;
      s_axil__wdata = value;
      s_axil__wstrb = 15;
      s_axil__bready = 1;
      fork
        begin
          s_axil__awvalid = 1;
          @(posedge clk);
          while (!s_axil__awready) @(posedge clk);
          #1 s_axil__awvalid = 0;
        end
        begin
          s_axil__wvalid = 1;
          @(posedge clk);
          while (!s_axil__wready) @(posedge clk);
          #1 s_axil__wvalid = 0;
        end
        begin @(posedge clk); while (!s_axil__bvalid) @(posedge clk); #1; end
      join
    end
  endtask
  task store(input [13:0] address, input [127:0] word);
    begin
      s_axi_db__awaddr = address;
      s_axi_db__awsize = 4;
      s_axi_db__awburst = 1;
      s_axi_db__wdata = word;
      s_axi_db__wstrb = 16'hFFFF;
      s_axi_db__wlast = 1;
      s_axi_db__bready = 1;
      fork
        begin
          s_axi_db__awvalid = 1;
          @(posedge clk);
          while (!s_axi_db__awready) @(posedge clk);
          #1 s_axi_db__awvalid = 0;
        end
        begin
          s_axi_db__wvalid = 1;
          @(posedge clk);
          while (!s_axi_db__wready) @(posedge clk);
          #1 s_axi_db__wvalid = 0;
        end
        begin @(posedge clk); while (!s_axi_db__bvalid) @(posedge clk); #1; end
      join
    end
  endtask
  initial begin
    for (k = 0; k < {_SIZE}; k = k + 1) mem[k] = k < {_DESTINATION} ? k * 7 + k / 256 : 0;
    repeat (4) @(posedge clk);
    #1 rst = 1;
    repeat (4) @(posedge clk);
    #1 checking = 1;
    repeat (4) @(posedge clk);
    #1 rst = 0;
    @(posedge clk);
{writes}{stores}    while (mem[{_WORDS}] != {count} || mem[{_WORDS + 8}] != {count}) @(posedge clk);
    repeat (50) @(posedge clk);
{expected}    $display("SUM %h", sum);
    $display("END");
    $finish;
  end
endmodule
"""


_MEMORY = {f"m_axi__{name}" for name in ("arready", "rvalid", "rid", "rdata", "rresp", "rlast", "awready", "wready",
                                         "bvalid", "bid", "bresp")}
"""Inputs of the engine that the memory drives."""

_MEMORY_TEXT = f"""
  reg [7:0] mem [0:{_SIZE - 1}];
  reg reading = 0, writing = 0, responding = 0;
  reg [63:0] raddr = 0, waddr = 0;
  reg [7:0] rleft = 0;
  reg [15:0] rid_ = 0, wid_ = 0;
  integer i;
  assign m_axi__arready = ~reading, m_axi__rvalid = reading, m_axi__rid = rid_, m_axi__rresp = 0;
  assign m_axi__rlast = rleft == 0, m_axi__awready = ~writing, m_axi__wready = writing & ~responding;
  assign m_axi__bvalid = responding, m_axi__bid = wid_, m_axi__bresp = 0;
  genvar g;
  generate for (g = 0; g < BYTES; g = g + 1) begin : lanes
    assign m_axi__rdata[8 * g +: 8] = mem[raddr[15:0] / BYTES * BYTES + g];
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


def _checks(ports: Sequence[tuple[str, str, int]]) -> Iterator[str]:
    """Statements that find X: in handshakes always, in payloads while their valid is 1."""
    outputs = sorted(name for direction, name, _ in ports if direction == "output")
    groups = {name: name.removesuffix("valid") for name in outputs if name.endswith("valid")}
    for name in outputs:
        if re.search(r"(valid|ready|irq)$", name):
            yield f'      if (^{name} === 1\'bx) found("{name}");\n      sum = {{sum[62:0], sum[63]}} ^ {name};\n'
            continue
        owner = next(valid for valid, group in groups.items() if name.startswith(group))
        lanes = "if (m_axi__wstrb[k] === 1) " if name == "m_axi__wdata" else ""
        value = f"{name}[8 * k +: 8]" if lanes else name
        yield (f"      if ({owner} === 1) for (k = 0; k < {'BYTES' if lanes else 1}; k = k + 1) {lanes}begin\n"
               f'        if (^{value} === 1\'bx) found("{name}");\n'
               f"        sum = {{sum[62:0], sum[63]}} ^ {value};\n      end\n")
