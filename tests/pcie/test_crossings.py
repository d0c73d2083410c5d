# SPDX-License-Identifier: Apache-2.0
"""Every path between clock domains goes through a known crossing, and the constraints name its cells."""

import re

import pytest
from amaranth.hdl import DomainRenamer, Module, ResetSignal, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from fpga.clock_domains import find_crossings, flat_netlist
from fpga.crossings import illegal, known_crossings, xdc
from hw import emit
from hw.axi import AxiLiteSignature, AxiSignature
from hw.pcie.crossing import AxiCrossing, AxiLiteCrossing
from hw.stream import AsyncQueue, LevelCrossing, PulseCrossing, ValueCrossing
from sim.pcie.dma_card import DmaCard, small_dma

pytestmark = pytest.mark.long

BUS = AxiSignature(addr_width=16, data_width=32, id_width=2)
LITE = AxiLiteSignature(addr_width=14, data_width=32)
DOMAINS = {"i_domain": "engine", "o_domain": "pcie"}
BACK = {"i_domain": "pcie", "o_domain": "engine"}


class _Design(wiring.Component):
    """All kinds of crossings between ``engine`` and ``pcie``."""

    m_axi: Out(BUS)
    s_axil: In(LITE)
    s_axi: In(BUS)
    m_axil: Out(LITE)
    irq: Out(1)
    sample: In(4)
    shown: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = requests = AxiCrossing(BUS, manager_domain="engine", subordinate_domain="pcie")
        connect(m, flipped(self.s_axi), requests.manager)
        connect(m, requests.subordinate, flipped(self.m_axi))
        # Its own domain is renamed, as that of an adapter is.
        registers = AxiLiteCrossing(LITE, manager_domain="sync", subordinate_domain="engine", depth=4,
                                    stages=3)
        m.submodules.registers = DomainRenamer("pcie")(registers)
        connect(m, flipped(self.s_axil), registers.manager)
        connect(m, registers.subordinate, flipped(self.m_axil))
        m.submodules.level = level = LevelCrossing(1, **DOMAINS)
        m.submodules.pulse = pulse = PulseCrossing(**DOMAINS)
        m.submodules.value = value = ValueCrossing(4, **BACK)
        m.d.comb += [level.i.eq(self.sample[0]), pulse.i.eq(self.sample[1]), self.irq.eq(level.o ^ pulse.o),
                     value.i.eq(self.sample), self.shown.eq(value.o)]
        return m


class _Flawed(wiring.Component):
    """A path from one domain to the other, beside a level that crosses as it should."""

    sample: In(4)
    shown: Out(4)

    def __init__(self, flaw):
        self.flaw = flaw
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.level = level = LevelCrossing(4, **DOMAINS)
        engine, pcie, other = (Signal(4, name=name) for name in ("engine", "pcie", "other"))
        m.d.engine += engine.eq(engine + 1)
        m.d.pcie += pcie.eq(pcie + 1)
        m.d.comb += [level.i.eq(~engine), self.shown.eq(level.o ^ pcie ^ other)]
        self._add_flaw(m, engine, pcie, other)
        return m

    def _add_flaw(self, m, engine, pcie, other):
        match self.flaw:
            case "to pcie":
                m.d.pcie += other.eq(engine)
            case "to engine":
                m.d.engine += other.eq(other ^ (pcie & self.sample))
            case "one bit":
                m.d.pcie += other.eq(pcie ^ (engine[2] << 3))
            case "enable":
                with m.If(engine[0]):
                    m.d.pcie += other.eq(1)
            case "reset":
                with m.If(ResetSignal("pcie")):
                    m.d.engine += other.eq(1)
            case "read address" | "write data" | "contents" | "asynchronous read":
                m.submodules.rows = rows = memory.Memory(shape=4, depth=16, init=[])
                w_port = rows.write_port(domain="engine")
                r_port = rows.read_port(domain="comb" if self.flaw == "asynchronous read" else "pcie")
                m.d.comb += [w_port.en.eq(1), w_port.addr.eq(engine),
                             w_port.data.eq(pcie if self.flaw == "write data" else engine),
                             r_port.addr.eq(engine if self.flaw == "read address" else pcie)]
                m.d.pcie += other.eq(r_port.data)
            case "a synchroniser of its own":
                first = Signal(4, attrs={"ASYNC_REG": "TRUE"})
                m.d.pcie += [first.eq(engine), other.eq(first)]
            case "logic before a synchroniser":
                m.submodules.glitch = glitch = _Glitch(4, **DOMAINS)
                m.d.comb += [glitch.i.eq(~engine), other.eq(glitch.o)]


class _Glitch(LevelCrossing):
    def elaborate(self, platform):
        m = Module()
        source, stage0, stage1 = (Signal(4, name=name) for name in ("source", "stage0", "stage1"))
        m.d.engine += source.eq(self.i)
        m.d.pcie += [stage0.eq(source ^ source[1:]), stage1.eq(stage0)]
        m.d.comb += self.o.eq(stage1)
        return m


def _netlist(design, name="top"):
    return flat_netlist(emit.verilog(design, name=name), top=name)


def _illegal(flaw):
    found = find_crossings(_netlist(_Flawed(flaw)))
    return [(path.source, path.target, path.clocks) for path in illegal(found, known_crossings(_Flawed(flaw)))]


TO_PCIE, TO_ENGINE = ("engine_clk", "pcie_clk"), ("pcie_clk", "engine_clk")


@pytest.mark.parametrize("flaw, expected", [
    ("to pcie", {("engine", "other", TO_PCIE)}),
    ("to engine", {("pcie", "other", TO_ENGINE)}),
    ("one bit", {("engine", "other", TO_PCIE)}),
    ("enable", {("engine", "other", TO_PCIE)}),
    ("reset", {("pcie_rst", "other", TO_ENGINE)}),
    # A registered read has a register of this name in the Verilog.
    ("read address", {("engine", "_0_", TO_PCIE), ("rows", "_0_", TO_PCIE)}),
    ("write data", {("pcie", "rows", TO_ENGINE), ("rows", "_0_", TO_PCIE)}),
    ("contents", {("rows", "_0_", TO_PCIE)}),
    ("asynchronous read", {("rows", "other", TO_PCIE)}),
    ("a synchroniser of its own", {("engine", "first", TO_PCIE)}),
    ("logic before a synchroniser", {("glitch.source", "glitch.stage0", TO_PCIE)}),
])
def test_illegal_paths_are_found(flaw, expected):
    assert set(_illegal(flaw)) == expected


@pytest.fixture(scope="module")
def design():
    """Text with a module for each instance, netlist and known crossings of a design with all kinds."""
    text = emit.verilog(_Design(), name="top", shared=False)
    return text, flat_netlist(emit.verilog(_Design(), name="top"), top="top"), known_crossings(_Design())


def test_known_crossings_are_legal(design):
    _, netlist, known = design
    found = find_crossings(netlist)
    assert not illegal(found, known)
    # Each component is found with its path, and each is a crossing.
    levels = {one.name("source") for one in known if isinstance(one.part, LevelCrossing)}
    queues = {one.name("rows.storage") for one in known if isinstance(one.part, AsyncQueue)}
    assert {path.source for path in found} == levels | queues
    assert (len(queues), len(levels)) == (11, 11 * 4 + 2)


def test_inputs_with_a_clock(design):
    _, netlist, known = design
    found = find_crossings(netlist, inputs={"sample": "engine_clk"})
    assert {(path.source, path.target, path.clocks) for path in illegal(found, known)} == {
        ("sample", "value.samples.rows.storage", TO_PCIE)}


def _registers(text):
    """Registers of the Verilog by Vivado's names: ``path/name`` -> its width, attributes and clock."""
    found = {}
    for module in re.findall(r"^module .*?^endmodule", text, flags=re.MULTILINE | re.DOTALL):
        path = re.match(r"module \\?top\.?(\S*)", module)[1].replace(".", "/")
        clocks = {name: clock for clock, name in re.findall(
            r"^  always @\(posedge (\w+)\)\n    (\w+) <= ", module, flags=re.MULTILINE)}
        for attributes, width, name in re.findall(
                r"^((?:  \(\* .* \*\)\n)*)(?:  output .*\n)?  reg (?:\[(\d+):0\] )?(\w+)(?: = .*)?;", module,
                flags=re.MULTILINE):
            if name in clocks:
                found[f"{path}/{name}"] = int(width or 0) + 1, attributes, clocks[name]
    return found


def _named(text):
    """Vivado's patterns in constraints, without what it adds to a register's name, and whether they name many cells."""
    return {(name, bits == "[*]", bits == "[0]") for name, bits in re.findall(
        r"get_(?:cells|pins) \{(\S+)_reg(\[\*\]|\[0\])?(?:/C)?\}", text)}


def test_constraints_name_registers(design):
    text, _, known = design
    registers, constraints = _registers(text), xdc(known)
    named = _named(constraints)
    for name, *several in named:
        width, _, _ = registers[name]
        assert any(several) == (width > 1), f"{name} has {width} bits"
    assert {name for name, *_ in named} == {name for name, (_, attributes, _) in registers.items() if (
        "ASYNC_REG" in attributes or "DONT_TOUCH" in attributes or name.endswith("rows/payload"))}


def test_constraints_bound_each_crossing(design):
    text, netlist, known = design
    registers, constraints = _registers(text), xdc(known)
    bounded = set(re.findall(r"^set_max_delay -datapath_only -from \[get_cells \{(\S+)_reg\S*\}\] "
                             r"-to \[get_cells \{(\S+)_reg\S*\}\] \$bound$", constraints, flags=re.MULTILINE))
    skewed = set(re.findall(r"^set_bus_skew -from \[get_cells \{(\S+)_reg\S*\}\] "
                            r"-to \[get_cells \{(\S+)_reg\S*\}\] \$bound$", constraints, flags=re.MULTILINE))
    rows = set(re.findall(r"^set source_clock .*\{(\S+)/written/source_reg\[0\]/C\}\]\]\n"
                          r"set target_clock .*\nset bound .*\n"
                          r"set_max_delay -datapath_only -from \$source_clock -to \[get_cells "
                          r"\{\1/rows/payload_reg\[\*\]\}\] \$bound$", constraints, flags=re.MULTILINE))
    paths = {tuple(name.replace(".", "/") for name in (path.source, path.target)): path.clocks
             for path in find_crossings(netlist)}
    assert set(paths) == bounded | {(f"{name}/rows/storage", f"{name}/rows/payload") for name in rows}
    assert skewed == {(source, target) for source, target in bounded if registers[source][0] > 1}
    for (source, target), (writer, reader) in paths.items():
        assert registers[target][2] == reader
        assert registers[source.replace("rows/storage", "written/source")][2] == writer


def test_attributes(design):
    text, _, known = design
    registers = _registers(text)
    for one in known:
        if isinstance(one.part, LevelCrossing):
            path = "/".join(one.path)
            assert 'DONT_TOUCH = "TRUE"' in registers[f"{path}/source"][1]
            for stage in range(one.part.stages):
                assert 'ASYNC_REG = "TRUE"' in registers[f"{path}/stage{stage}"][1]


def test_constraints_are_tcl(design):
    """With stubs of Vivado's commands, periods of 4 ns at the engine's clock and 5 at the hard block's."""
    text, _, known = design
    tkinter = pytest.importorskip("tkinter")
    interpreter, registers, bounds = tkinter.Tcl(), _registers(text), set()
    pin = re.compile(r"shell/(\S+)_reg(?:\[0\])?/C")
    interpreter.createcommand("get_pins", lambda name: registers[pin.fullmatch(name)[1]][2])
    interpreter.createcommand("get_cells", lambda name: name)
    interpreter.createcommand("get_clocks", lambda of, clock: clock)
    interpreter.createcommand("get_property", lambda low, name, clock: {"engine_clk": 4.0, "pcie_clk": 5.0}[clock])
    interpreter.createcommand("set_property", lambda *words: None)
    for command in ("set_max_delay", "set_bus_skew"):
        interpreter.createcommand(command, lambda *words: bounds.add(words[-1]))
    interpreter.eval(xdc(known, below="shell/"))
    assert bounds == {"4.0"}


def test_card_with_two_clocks():
    """Between the hard block's clock and the engine's there are known crossings only, each on the expected bus."""
    card = DmaCard(*small_dma(128, two_clocks=True))
    known = known_crossings(card)
    found = find_crossings(_netlist(card))
    assert found and illegal(found, known) == []
    assert {path.clocks for path in found} == {("clk", "engine_clk"), ("engine_clk", "clk")}
    paths = {one.path[2:] for one in known}
    assert {one.path[:2] for one in known} == {("adapter", "crossing")}
    buses = {path[:2] for path in paths if path[0] in ("memory", "registers", "doorbells", "queues")}
    assert buses == {*(("memory", channel) for channel in ("aw", "w", "ar", "b", "r")),
                     *(("registers", channel) for channel in ("aw", "w", "ar", "b", "r")),
                     *(("doorbells", channel) for channel in ("aw", "w", "b")),
                     ("queues", "written"), ("queues", "completed")}
    assert {path[0] for path in paths} == {"memory", "registers", "doorbells", "queues", "interrupt", "resets"}
    text = xdc(known)
    assert "adapter/crossing/memory/r/rows/payload_reg[*]" in text and "adapter/crossing/interrupt/stage0_reg" in text
