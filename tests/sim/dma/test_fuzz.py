# SPDX-License-Identifier: Apache-2.0
"""``dmace soak fuzz``: no finding on the engine, a finding with the shortest job on a flawed one, and the verb."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import connect, flipped

from dmace import cli
from hw.dma_engine.config import TINY, DmaConfig
from hw.dma_engine.engine import DmaEngine
from sim.cpp.fuzz import run_fuzz
from sim.dma.fuzz import build_fuzz
from sim.verilator.design import Design
from tests.harness.fuzz_jobs import check_finding, check_job, check_wrong_lines

JOB = """# A copy between two arbitrary words, while a read fails.
memory 5 100 20
anchor
store 0x2 0x21946a4561575b10 0xf6067b30ba2038a3 0xffff
fail_read 0x2
anchor
write 0x90 0x402
rst
anchor
revoke 0x1
wait 0x40
"""


class Flawed(wiring.Component):
    """An engine with a flaw outside.

    Parameters
    ----------
    config : DmaConfig
    flaw : str
        "address": from the 60th write on, bit 13 of its address is inverted; "response": the 60th response to a write
        does not reach the engine.
    """

    def __init__(self, config: DmaConfig, flaw: str) -> None:
        self._engine, self._flaw = DmaEngine(config), flaw
        super().__init__(self._engine.signature)

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = engine = self._engine
        for name in self.signature.members:
            if name not in ("irq", "m_axi"):
                connect(m, flipped(getattr(self, name)), getattr(engine, name))
        m.d.comb += self.irq.eq(engine.irq)
        count, inner, outer = Signal(16), engine.m_axi, self.m_axi
        for path, member, value in inner.signature.flatten(inner):
            port = getattr(outer, path[0])
            m.d.comb += port.eq(value) if member.flow == wiring.Out else value.eq(port)
        event = outer.awvalid & outer.awready if self._flaw == "address" else outer.bvalid & outer.bready
        with m.If(event):
            m.d.sync += count.eq(count + 1)
        if self._flaw == "address":
            m.d.comb += outer.awaddr.eq(inner.awaddr ^ ((count >= 60) << 13))
        else:
            m.d.comb += inner.bvalid.eq(outer.bvalid & (count != 60))
        return m


@pytest.mark.long
@pytest.mark.rtl
def test_no_finding(seed, soak, tmp_path):
    program = build_fuzz(TINY)
    result = run_fuzz(program, seed=seed, runs=50_000 if soak else 500)
    assert not result["finding"], result["job"]
    assert result["stores"] > 10 * result["runs"] and result["checked"] > 12 * result["runs"]
    assert result["kept"] > 20 and result["features"] > 100
    assert check_job(program, JOB, tmp_path)["checked"] > 12
    check_wrong_lines(program, tmp_path)


@pytest.mark.long
@pytest.mark.rtl
@pytest.mark.parametrize("flaw, sentence", [
    ("address", "where no queue may write"), ("response", "requests"),
])
def test_a_flaw_is_found(flaw, sentence, seed, tmp_path):
    """Within 123 jobs with twenty seeds; and its job, of 5 to 29 lines with these, replays it."""
    program = build_fuzz(TINY, engine=Design(Flawed, TINY, flaw))
    result = run_fuzz(program, seed=seed, runs=2000)
    assert sentence in result["finding"]
    check_finding(program, result, tmp_path)


def test_small_engines_are_refused():
    with pytest.raises(ValueError, match=r"^The fuzzer needs 4 queues and 16 regions, not 2 and 16$"):
        build_fuzz(DmaConfig(data_width=64, queues=2, queue_depth=4, entries=64, window=4, regions=16, pages=4, tags=4,
                             buffer_beats=128, segment_bytes=64, extended=2, ring_depth=4, connections=2))


@pytest.mark.parametrize(("options", "sentence"), [
    (["fuzz", "--runs", "0"], "--runs must be from 1 to 100,000,000, not 0."),
    (["fuzz", "--engine", "ace", "--config", "tiny"],
     "soak fuzz takes --config for the DMA engine only; other sizes are fixed."),
    (["fuzz", "--job", "/no/such/file"], "--job: there is no file /no/such/file."),
    (["fuzz", "--output", "/no/such/folder/a"], "--output: there is no folder /no/such/folder."),
    (["all", "--ace-jobs", "-1"], "--ace-jobs must be from 0 to 1,000,000,000, not -1."),
    (["all", "--pcie-jobs", "-1"], "--pcie-jobs must be from 0 to 1,000,000,000, not -1."),
    (["all", "--workers", "0"], "--workers must be from 1 to 1,024, not 0."),
    (["all", "--requests", "-1"], "--requests must be from 0 to 1,000,000,000, not -1."),
])
def test_wrong_options_are_reported(capsys, options, sentence):
    assert cli.main(["soak", *options]) == 2
    assert capsys.readouterr().err == f"dmace: {sentence}\n"
