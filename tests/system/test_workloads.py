# SPDX-License-Identifier: Apache-2.0
"""Workloads: tables against their published totals, generated ones against counts by hand, files written and read."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hw.ace.words import Collective
from hw.errors import UserError
from sim.system.workloads import LAYERED, Exchange, Layer, Pass, Processor, Work, Workload, csv_file, load

PASSES = ("forward", "input_grad", "weight_grad")


@pytest.mark.parametrize("name, layers, nanoseconds, reduced", [
    ("resnet50", 54, (380_038, 377_463 - 12_864, 337_813), 102_011_648),
    ("dlrm", 8, (19_020, 19_014 - 300, 13_644), 3_191_808),
    ("transformer", 57, (199_371_180, 186_727_713, 162_843_649), 2_434_351_104),
])
def test_totals_of_the_tables(name, layers, nanoseconds, reduced):
    workload = load(name)
    assert len(workload.layers) == layers
    for which, total in zip(PASSES, nanoseconds, strict=True):
        assert workload.seconds(Processor(), which) * 1e9 == pytest.approx(total)
    assert workload.bytes(Collective.ALL_REDUCE, "weight_grad") == reduced


def test_exchanges_of_the_transformer():
    workload = load("transformer")
    assert workload.model_parallel == 4
    assert [workload.bytes(Collective.ALL_REDUCE, one) for one in PASSES[:2]] == [100_663_296, 109_051_904]
    assert [workload.bytes(Collective.ALL_GATHER, one) for one in PASSES[:2]] == [82_116_608, 805_306_368]
    groups = {(name, one.exchange.group) for layer in workload.layers for name, one in layer.passes() if one.exchange}
    assert groups == {("forward", "model"), ("input_grad", "model"), ("weight_grad", "data")}


def test_resnet50_from_shapes():
    """25,557,032 parameters, and 4.09 billion multiplications in the convolutions of a forward pass."""
    workload = load("resnet50-shapes", batch=1, element=4)
    assert workload.bytes() == 4 * 25_557_032
    multiplications = sum(layer.forward.work.flops for layer in workload.layers) / 2
    assert multiplications == 4_089_184_256


def test_gnmt_from_shapes():
    """Parameters: two embeddings and a softmax of 32,000, 17 LSTMs, an attention."""
    workload = load("gnmt", element=2)
    lstm = 4 * 1024 * (sum((1024, 1024, 2048, *6 * (1024,), *8 * (2048,))) + 17 * 1025)
    expected = 2 * 32_000 * 1024 + 32_000 * 1025 + lstm + 2 * 1024**2 + 1024
    assert workload.bytes() == 2 * expected
    # Each weight of a matrix is multiplied once for each token.
    layer = next(layer for layer in workload.layers if layer.name == "decoder_1")
    assert layer.forward.work.flops == 2 * 128 * 25 * 4 * 1024 * 3072


def test_recurrent_weights_that_stay():
    streamed, resident = (load("gnmt", resident=resident) for resident in (False, True))
    saved = sum(a.forward.work.memory_bytes - b.forward.work.memory_bytes
                for a, b in zip(streamed.layers, resident.layers, strict=True))
    assert saved == 17 * 24 * 4 * 1024 * 1024 * 2


def test_dlrm_from_shapes():
    workload = load("dlrm-shapes", batch=512, element=2)
    assert workload.layers[0].forward.exchange.bytes == 512 * 26 * 128 * 2
    bottom = 14 * 512 + 513 * 256 + 257 * 128
    top = 480 * 1024 + 1025 * 1024 + 1025 * 512 + 513 * 256 + 257
    assert workload.bytes(Collective.ALL_REDUCE) == 2 * (bottom + top)


@pytest.mark.parametrize("batch", [1, 7])
def test_work_grows_with_the_batch(batch):
    for name in ("gnmt", "resnet50-shapes", "dlrm-shapes"):
        once, more = (load(name, batch=size) for size in (batch, 2 * batch))
        assert once.bytes(Collective.ALL_REDUCE) == more.bytes(Collective.ALL_REDUCE)
        for a, b in zip(once.layers, more.layers, strict=True):
            for (_, one), (_, two) in zip(a.passes(), b.passes(), strict=True):
                assert two.work.flops == 2 * one.work.flops
                assert one.work.memory_bytes <= two.work.memory_bytes <= 2 * one.work.memory_bytes


def test_roofline():
    processor = Processor(flops=100e12, memory=1e12, efficiency=0.5)
    assert Work(flops=100 * 10**12, memory_bytes=10**12).alone(processor) == 2
    assert Work(flops=10**12, memory_bytes=3 * 10**12).alone(processor) == 3
    assert Work(seconds=5).alone(processor) == 5


@pytest.mark.parametrize("name", LAYERED)
def test_files_written_and_read(name, tmp_path):
    workload = load(name)
    csv_file.write(workload, tmp_path / "one.csv")
    assert load(str(tmp_path / "one.csv")) == workload


_numbers = st.integers(0, 10**12)
_exchanges = st.builds(Exchange, collective=st.sampled_from(list(Collective)), bytes=st.integers(1, 10**12),
                       group=st.sampled_from(("all", "model", "data")))
_works = st.one_of(st.builds(Work, flops=_numbers, memory_bytes=_numbers),
                   st.builds(Work, seconds=_numbers.map(lambda value: value / 1e9), memory_bytes=_numbers))
_passes = st.builds(Pass, work=_works, exchange=st.none() | _exchanges)


@settings(deadline=None, max_examples=50)
@given(passes=st.lists(st.tuples(_passes, _passes, _passes, _numbers), min_size=1, max_size=3))
def test_any_workload_written_and_read(tmp_path_factory, passes):
    workload = Workload(name="any", backward="input-first", model_parallel=3, layers=tuple(
        Layer(name=f"layer {number}", forward=a, input_grad=b, weight_grad=c, update=update / 1e9)
        for number, (a, b, c, update) in enumerate(passes)))
    path = tmp_path_factory.getbasetemp() / "any.csv"
    csv_file.write(workload, path)
    assert csv_file.read(path) == workload


@pytest.mark.parametrize("text, sentence", [
    ("", r"the workload .* needs a line of columns and a line for each layer\."),
    ("layer,speed\na,1\n", r"the workload .* has a column 'speed'; it can have layer, .*update_ns\."),
    ("forward_ns\n1\n", r"the workload .* must have a column 'layer', and no column twice\."),
    ("layer,forward_ns\na,1,2\n", r".*line 2: 3 fields where there are 2 columns\."),
    ("layer,forward_ns\na,soon\n", r".*line 2: forward_ns must be a number from 0 to 1e18, not 'soon'\."),
    ("layer,forward_ns\na,nan\n", r".*line 2: forward_ns must be a number from 0 to 1e18, not 'nan'\."),
    ("layer,forward_collective,forward_bytes\na,all_reduce,1.5\n",
     r".*line 2: forward_bytes must be an integer from 0 to 1e18, not '1\.5'\."),
    ("layer,forward_bytes\na,5\n", r".*line 2: forward_bytes needs a forward_collective\."),
    ("layer,forward_collective\na,all_reduce\n", r".*line 2: an exchange must have 1 byte or more, not 0\."),
    ("layer,forward_collective,forward_bytes\na,sum,4\n", r".*line 2: forward_collective must be one of all_reduce, "
     r".*, not 'sum'\."),
    ("layer,forward_ns,forward_flops\na,1,1\n", r".*line 2: forward has both forward_ns and forward_flops; "
     r"give one\."),
    ("# model_parallel: many\nlayer,forward_ns\na,1\n", r"model_parallel must be an integer from 0 to 1e18, "
     r"not 'many'\."),
    ("# backward: later\nlayer,forward_ns\na,1\n", r"the workload .*: backward must be one of weight-first, "
     r"input-first, not 'later'\."),
    ("layer,forward_ns\na,1\na,2\n", r"the workload one has two layers 'a'\."),
    ("layer,forward_layer\na,b\n", r"the workload one: forward of a names a layer 'b', which it does not have\."),
    ("layer,forward_layer\na,\nb,a\n", r"the workload one: forward of b cannot name a; only .* a later layer\."),
])
def test_bad_files(tmp_path, text, sentence):
    path = tmp_path / "one.csv"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        load(str(path))
    assert re.fullmatch(sentence, str(caught.value))


@pytest.mark.parametrize("name, settings, sentence", [
    ("resnet", {}, r"a workload must be one of .*resnet50.* or a file that ends in \.csv, not 'resnet'\."),
    ("missing.csv", {}, r"there is no workload file missing\.csv\."),
    ("resnet50", {"batch": 3}, r"the workload resnet50 is a table and has no settings, so not batch either\."),
    ("gnmt", {"heads": 3}, r"the workload gnmt has no setting 'heads'; it has batch, .*\."),
    ("gnmt", {"batch": 0}, r"batch of the workload gnmt must be 1 or more, not 0\."),
    ("gnmt", {"batch": "many"}, r"batch of the workload gnmt must be like 128, not 'many'\."),
    ("gnmt", {"batch": 1.5}, r"batch of the workload gnmt must be like 128, not 1\.5\."),
    ("gnmt", {"batch": None}, r"batch of the workload gnmt must be like 128, not None\."),
    ("gnmt", {"resident": 3}, r"resident of the workload gnmt must be like False, not 3\."),
])
def test_bad_names(name, settings, sentence):
    with pytest.raises(UserError) as caught:
        load(name, **settings)
    assert re.fullmatch(sentence, str(caught.value))
