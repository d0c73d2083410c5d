# SPDX-License-Identifier: Apache-2.0
"""The given tables against a systolic array, layer by layer, and the memory traffic of their shapes."""

from dataclasses import replace

import pytest

from sim.system.workloads import Processor, load
from sim.system.workloads.decoded import DLRM, LONGER, RESNET50, Shape, array_cycles, with_traffic
from sim.system.workloads.layer import PASSES

RESNET_TABLE, DLRM_TABLE = ({layer.name: layer for layer in load(name).layers} for name in ("resnet50", "dlrm"))


def given(layer):
    """Cycles of the three passes in the table; None for the first layer's input gradient, which is left out."""
    return [round(layer[name].work.seconds * 1e9) or None for name in PASSES]


def equal(shapes, table, **options):
    """Number of passes whose time is the array's."""
    return sum(one == other for name, shape in shapes.items()
               for one, other in zip(given(table[name]), array_cycles(shape, **options), strict=True))


@pytest.mark.parametrize("name", RESNET50)
def test_layers_of_resnet50(name):
    cycles = dict(zip(PASSES, array_cycles(RESNET50[name]), strict=True))
    for which, found in zip(PASSES, given(RESNET_TABLE[name]), strict=True):
        if (name, which) in LONGER:
            assert cycles[which] < found < 5 * cycles[which]
        elif found is not None:
            assert found == cycles[which]
    assert RESNET_TABLE[name].weight_grad.exchange.bytes == 4 * RESNET50[name].weights


@pytest.mark.parametrize("name", DLRM)
def test_layers_of_dlrm(name):
    assert given(DLRM_TABLE[name]) == list(array_cycles(DLRM[name].exchanged()))
    assert DLRM_TABLE[name].weight_grad.exchange.bytes == 2 * DLRM[name].weights


def test_how_many_are_equal():
    """The given input gradient of ``conv1`` (12,864 cycles) is the 137th; it is not part of the table here."""
    assert list(RESNET50) == list(RESNET_TABLE) and set(DLRM) == set(DLRM_TABLE) - {"Embedding"}
    assert equal(RESNET50, RESNET_TABLE) == 136 == 3 * 54 - 1 - len(LONGER)
    assert array_cycles(RESNET50["conv1"])[1] == 12_864
    assert array_cycles(RESNET50["fc1000"])[0] == 32 * 513 == 16_416


@pytest.mark.parametrize("array", [128, 255, 512])
def test_other_arrays_do_not_fit(array):
    assert equal(RESNET50, RESNET_TABLE, array=array) < 10
    assert equal({name: shape.exchanged() for name, shape in DLRM.items()}, DLRM_TABLE, array=array) == 0


@pytest.mark.parametrize("times", [0.5, 2, 4])
def test_other_batches_do_not_fit(times):
    def batch(shapes, *, exchanged):
        scaled = {name: replace(shape, rows=round(shape.rows * times)) for name, shape in shapes.items()}
        return {name: shape.exchanged() for name, shape in scaled.items()} if exchanged else scaled
    assert equal(batch(RESNET50, exchanged=False), RESNET_TABLE) < 10
    assert equal(batch(DLRM, exchanged=True), DLRM_TABLE) == 0
    assert sum(equal({name: shape}, DLRM_TABLE) for name, shape in DLRM.items()) < 21


@pytest.mark.parametrize("element", [2, 4])
def test_traffic_by_hand(element):
    resnet, dlrm = load(f"resnet50-fp{8 * element}"), load(f"dlrm-fp{8 * element}")
    layer = next(layer for layer in resnet.layers if layer.name == "layer_512_1_conv2")
    expected = element * (7 * 7 * 9 * 512 + 9 * 512 * 512 + 7 * 7 * 512)
    assert [one.work.memory_bytes for _, one in layer.passes()] == [expected] * 3
    layer = next(layer for layer in dlrm.layers if layer.name == "MLP_Top_0")
    assert layer.forward.work.memory_bytes == element * (128 * 1040 + 1040 * 512 + 128 * 512)
    first = dlrm.layers[0]
    assert [one.work.memory_bytes for _, one in first.passes()] == [98_304 * element, 0, 3 * 98_304 * element // 2]
    assert resnet.layers[0].input_grad.work.memory_bytes == 0


@pytest.mark.parametrize("name", ["resnet50", "dlrm"])
def test_nothing_else_changes(name):
    table = load(name)
    for element in (2, 4):
        made = load(f"{name}-fp{8 * element}")
        for before, after in zip(table.layers, made.layers, strict=True):
            for (_, one), (_, other) in zip(before.passes(), after.passes(), strict=True):
                assert other.work.seconds == one.work.seconds and (other.exchange, other.other) == (
                    one.exchange, one.other)
        # With all of the memory bandwidth, hardly any pass waits for it.
        assert 1 <= made.seconds(Processor()) / table.seconds(Processor()) < 1.06


def test_elements_of_a_pass():
    shape = Shape(rows=4, inputs=3, outputs=5, kernel=9)
    assert shape.weights == 135 and shape.elements == 108 + 135 + 20
    table = load("resnet50")
    assert with_traffic(table, {}, 2).layers[1].forward.work.memory_bytes == 0
