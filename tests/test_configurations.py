# SPDX-License-Identifier: Apache-2.0
"""Random legal configurations of both engines and of the endpoint: drawn, elaborated, linted, and compared with the
models.

The second stage elaborates three of each kind, so that each size has its minimum, a value between and its maximum,
lints one of each engine, and simulates some; ``--soak`` does so for several seeds. A failure prints the configuration.
"""

import random
import re
from argparse import Namespace
from dataclasses import fields, replace

import pytest

from hw import emit
from hw.ace import config as ace
from hw.ace.engine import AceEngine
from hw.dma_engine import config as dma
from hw.dma_engine.engine import DmaEngine
from hw.endpoint.config import EndpointConfig
from hw.endpoint.engine import Endpoint
from sim.configurations import (
    ACE_START,
    COMPARABLE,
    DMA_START,
    configuration,
    configurations,
    copies,
    endpoints,
    legal_values,
    show,
    sizes_of,
)
from sim.verilator.build import Design
from tests.test_lint import lint, lint_accelerator, lint_endpoint

ENGINES = {"dma": (DmaEngine, DMA_START), "ace": (AceEngine, ACE_START)}


@pytest.mark.parametrize("kind", ENGINES)
def test_limits_occur(kind):
    """In sixteen rounds, every size has its smallest and its largest legal value."""
    start = ENGINES[kind][1]
    made = list(configurations(start, rounds=16, seed=1))
    presets = (dma if kind == "dma" else ace).PRESETS
    for field in fields(start):
        if field.type not in (int, bool):
            continue
        values = {getattr(config, field.name) for config in made}
        limits = [value for config in (start, *presets.values()) for value in legal_values(config, field.name)]
        assert {min(limits), max(limits)} <= values, field.name
    assert len({show(config) for config in made}) == 48


def test_odd_sizes_occur():
    """Sizes that need no power of two are odd in some."""
    for start, names in ((DMA_START, ("doorbell_id_width", "word_interval")), (ACE_START, ("address_width",))):
        made = list(configurations(start, rounds=5, seed=1))
        for name in names:
            assert any(1 < getattr(config, name) < max(legal_values(start, name)) and getattr(config, name) % 2
                       for config in made)


def test_endpoints_are_legal():
    made = list(endpoints(rounds=4, seed=1))
    assert len(made) == 12 and sum(one.rdma is not None for one in made) == 4
    assert {2, 8} <= {one.trigger_blocks for one in made}


def test_choices():
    fixed = {"queues": 8, "word_interval": 3}
    for config in configurations(DMA_START, rounds=3, seed=2, fixed=fixed, least=COMPARABLE):
        assert config.queues == 8 and config.word_interval == 3 and config.pages >= 32
        assert configuration(sizes_of(config)) == config
    one, again = (list(configurations(ACE_START, rounds=2, seed=3)) for _ in range(2))
    assert one == again != list(configurations(ACE_START, rounds=2, seed=4))
    text = show(EndpointConfig(dma=dma.TINY, ace=replace(ace.TINY, link_channels=2)))
    assert text.startswith("dma=(data_width=64 queues=4 ")
    assert text.endswith(" trigger_blocks=4 pipelined=False rdma=None")


@pytest.mark.parametrize("sizes, sentence", [
    ({"queues": 3}, "Queues must be a power of two from 2 to 64, not 3"),
    ({"word_interval": 65}, "Word interval must be 1 to 64 cycles, not 65"),
])
def test_illegal_sizes_are_refused(sizes, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        configuration({**sizes_of(DMA_START), **sizes})


def _rounds(soak):
    return 10 if soak else 1


@pytest.mark.long
@pytest.mark.parametrize("kind", ["dma", "ace", "endpoint"])
def test_every_configuration_becomes_verilog(kind, seed, soak, tmp_path):
    """And one of three engines of a kind passes Verilator's lint."""
    if kind == "endpoint":
        design, made = Endpoint, endpoints(rounds=_rounds(soak), seed=seed)
    else:
        design, start = ENGINES[kind]
        made = configurations(start, rounds=_rounds(soak), seed=seed)
    for number, config in enumerate(made):
        print(show(config))
        (tmp_path / "design.v").write_text(emit.verilog(design(config), name="design", assertions=False))
        if number % 3 != seed % 3:
            continue
        assert {"dma": lint, "ace": lint_accelerator, "endpoint": lint_endpoint}[kind](tmp_path, "design.v") == []


def _sample(start, seed, soak, **limits):
    """One of three configurations, or all of ten rounds."""
    made = list(configurations(start, rounds=_rounds(soak), seed=seed, **limits))
    return made if soak else [random.Random(seed).choice(made)]


@pytest.mark.long
@pytest.mark.rtl
def test_dma_engine_and_its_model(seed, soak):
    """The random comparison, on a configuration whose tables are large enough for it."""
    from sim.dma.checked import CheckedDma
    from sim.terminal import simulate

    for config in _sample(DMA_START, seed, soak, least=COMPARABLE, fixed={"doorbell_id_width": seed % 14 + 1}):
        print(show(config))
        options = {"requests": 200, "stalls": "random", "latency": 20, "config": "random", "sizes": sizes_of(config)}
        result = simulate("dma_random", lambda config=config: Design(CheckedDma, config), "sim.dma.compare", options,
                          Namespace(seed=seed, json=None))
        assert not result["mismatches"], result["first_mismatches"]
        assert result["requests"] >= 200


@pytest.mark.long
@pytest.mark.rtl
def test_dma_engine_copies(seed, soak):
    """Copies with every byte checked, on a configuration of any size."""
    for config in _sample(DMA_START, seed, soak):
        print(show(config))
        for row in copies(config, seed=seed, requests=60):
            assert row["requests"] >= 60 and row["wrong_bytes"] == 0


@pytest.mark.long
@pytest.mark.rtl
def test_accelerators_and_their_model(seed, soak):
    from sim.ace.compare import SHAPES, compare

    # The buffers are beyond 4 GiB.
    for config in _sample(ACE_START, seed, soak, least={"address_width": 34}):
        print(show(config))
        shapes = [shape for shape in SHAPES if len(shape) <= config.dimensions][:6]
        found = compare(config, collectives=20 * len(shapes), seed=seed, faults=True, shapes=shapes)
        assert (found["mismatches"], found["hangs"]) == (0, 0), found["first_mismatches"]
        assert found["collectives"] >= 20 * len(shapes)


@pytest.mark.soak
@pytest.mark.rtl
def test_endpoints_at_work(seed):
    from sim.endpoint.soak import work

    for config in endpoints(rounds=1, seed=seed):
        print(show(config))
        found = work(config, seed=seed)
        assert found.requests == 32 and found.findings == ()
