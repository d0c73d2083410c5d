# SPDX-License-Identifier: Apache-2.0
"""PyTorch's execution traces: a recording by its own observer, and files like it that are written by hand.

``recordings/step.*.json.gz`` are what ``python examples/torch_trace.py step --gzip`` wrote with PyTorch 2.13: two
pipeline stages of two replicas, gloo.
"""

import gzip
import importlib.util
import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hw.ace.words import Collective
from hw.errors import UserError
from sim.system import chakra
from sim.system.experiment import Experiment
from sim.system.graph import Kind
from sim.system.workloads import Processor

ROOT = Path(__file__).parents[2]
RECORDED = Path(__file__).parent / "recordings" / "step"

WIDTH, HIDDEN, BATCH = 64, 128, 8
PARAMETERS = 2 * WIDTH * HIDDEN + WIDTH + HIDDEN
ACTIVATION = BATCH * WIDTH * 4


def check_step(prefix, measured):
    """Check the steps of the script, in any recording of it: bytes and groups by hand, and products of each stage."""
    graph = chakra.read(f"pytorch:{prefix}", (2, 2))
    exchanges = [(node.rank, node.exchange.collective, node.exchange.bytes, node.exchange.ranks)
                 for node in graph.nodes if node.exchange]
    assert {node.exchange.root for node in graph.nodes if node.exchange and node.exchange.ranks == (2, 3)} == {2, None}
    for rank in range(4):
        replicas = (0, 1) if rank < 2 else (2, 3)
        mine = [one[1:] for one in exchanges if one[0] == rank]
        # DDP rebuilds its buckets in the second step, for which it broadcasts their indices and sizes.
        assert mine == [(Collective.BROADCAST, 20, replicas), (Collective.BROADCAST, 4, replicas),
                        (Collective.ALL_REDUCE, 4 * PARAMETERS, replicas), (Collective.ALL_REDUCE, 4, ())]
        products = [node for node in graph.nodes if node.rank == rank and node.work.flops]
        # Forward two products, backward two for each layer; the first stage needs no gradient of its input.
        one = 2 * BATCH * WIDTH * HIDDEN
        assert sum(node.work.flops for node in products) == one * (5 if rank < 2 else 6)
    assert {(node.rank, node.transfer.target, node.transfer.bytes) for node in graph.nodes if node.transfer} == {
        (0, 2, ACTIVATION), (1, 3, ACTIVATION), (2, 0, ACTIVATION), (3, 1, ACTIVATION)}
    # The gradients' all-reduce holds the copies of the bucket, which use its storage.
    reduced = next(node for node in graph.nodes if node.exchange and node.exchange.bytes == 4 * PARAMETERS)
    users = [node for node in graph.nodes if reduced.number in node.after]
    assert [node.layer for node in users] == ["torch.distributed.ddp.reducer::copy_bucket_to_grad"]
    assert all((node.work.seconds is not None) == measured for node in graph.nodes if node.kind == Kind.COMPUTE)
    return graph


def test_the_recording(tmp_path):
    graph = check_step(RECORDED, measured=True)
    times = json.loads(gzip.decompress(Path(f"{RECORDED}.0.kineto.json.gz").read_bytes()))["traceEvents"]
    linear = [event["dur"] for event in times if event.get("name") == "aten::linear"]
    assert [node.work.seconds for node in graph.nodes if node.rank == 0 and node.layer == "aten::linear"] == [
        pytest.approx(duration / 1e6, rel=1e-9) for duration in linear]
    run = Experiment(workload=f"pytorch:{RECORDED}", shape=(2, 2), endpoint="ideal").run()
    # One chain of work: stage 0 forward, stage 1, stage 0 backward.
    assert run.seconds > max(run.busy().values())
    again = tmp_path / "copy"
    chakra.write(graph, again, (2, 2), Processor())
    copied = Experiment(workload=f"chakra:{again}", shape=(2, 2), endpoint="ideal").run()
    assert copied.seconds == pytest.approx(run.seconds, rel=1e-9)


def test_durations_from_shapes(tmp_path):
    for rank in range(4):
        shutil.copy(f"{RECORDED}.{rank}.json.gz", tmp_path)
    graph = check_step(tmp_path / "step", measured=False)
    experiment = Experiment(workload=f"pytorch:{RECORDED}", shape=(2, 2), settings={"workload.durations": "shapes"})
    assert experiment.graph().nodes == graph.nodes
    with pytest.raises(UserError, match=r"^there is no .*step\.0\.kineto\.json with the durations of rank 0\.$"):
        chakra.read(f"pytorch:{tmp_path / 'step'}", durations="recorded")
    shutil.copy(f"{RECORDED}.1.kineto.json.gz", tmp_path / "step.0.kineto.json.gz")
    with pytest.raises(UserError, match=r"^there is no .*step\.1\.kineto\.json with the durations of rank 1\.$"):
        chakra.read(f"pytorch:{tmp_path / 'step'}")
    for rank in (1, 2, 3):
        shutil.copy(f"{RECORDED}.{rank}.kineto.json.gz", tmp_path)
    with pytest.raises(UserError, match=r"^.*step\.0\.kineto\.json\.gz is of rank 1, and the trace beside it of rank "):
        chakra.read(f"pytorch:{tmp_path / 'step'}")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_recorded_again(tmp_path):
    subprocess.run([sys.executable, str(ROOT / "examples" / "torch_trace.py"), str(tmp_path / "new")], check=True,
                   timeout=300, capture_output=True)
    check_step(tmp_path / "new", measured=True)


def tensor(storage, *shape, element=4):
    return [storage + 100, storage, 0, 1, element, "cuda:0"], list(shape), "Tensor(float)"


def listed(*tensors):
    values, shapes, kinds = zip(*tensors, strict=True)
    return list(values), list(shapes), f"GenericList[{','.join(kinds)}]"


def plain(value, kind):
    return value, [], kind


class Host:
    """An execution trace, written call by call."""

    def __init__(self, groups='[{"pg_name": "0", "ranks": []}, {"pg_name": "3", "ranks": [0, 1]}]'):
        self.nodes = []
        self.call("[pytorch|profiler|execution_trace|process]", 1)
        self.call("[pytorch|profiler|execution_trace|thread]", 1)
        self.call("## process_group:init ##", inputs=[plain(groups, "String")])

    def call(self, name, parent=2, inputs=(), outputs=(), schema="", scope=0, **attributes):
        number = len(self.nodes) + 1
        sides = [{"values": [one[0] for one in side], "shapes": [one[1] for one in side],
                  "types": [one[2] for one in side]} for side in (inputs, outputs)]
        attributes |= {"rf_id": number - 2, "op_schema": schema, "scope": 7 if name.startswith("[") else scope}
        self.nodes.append({"id": number, "name": name, "ctrl_deps": parent, "inputs": sides[0], "outputs": sides[1],
                           "attrs": [{"name": key, "type": "", "value": value} for key, value in attributes.items()]})
        return number

    def matmul(self, left, right, result, parent=2):
        return self.call("aten::mm", parent, [left, right], [result], "aten::mm(Tensor self, Tensor mat2) -> Tensor")

    def reduced(self, one, asynchronous, parent=2):
        return self.call("c10d::allreduce_", parent,
                         [listed(one), plain("<Object>", "Object"), plain(asynchronous, "Bool")], [],
                         "c10d::allreduce_(Tensor[] tensors, __torch__.torch.classes.c10d.ProcessGroup process_group, "
                         "bool async_op=True) -> (Tensor[], __torch__.torch.classes.c10d.Work)")

    def write(self, path, **more):
        path.write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": self.nodes} | more))


def pair(folder, host, **more):
    """Traces of two ranks that do the same."""
    for rank in range(2):
        host.write(folder / f"h.{rank}.json", **more)
    return f"pytorch:{folder / 'h'}"


def test_collectives_as_nccl_records_them(tmp_path):
    """The group is in a ``record_param_comms`` inside; the call that waits is the one that uses the tensor."""
    host = Host()
    host.matmul(tensor(1, 8, 16), tensor(2, 16, 4), tensor(3, 8, 4))
    call = host.reduced(tensor(3, 8, 4), True)
    host.call("record_param_comms", call, pg_name="3", collective_name="allreduce", in_msg_nelems=32)
    host.matmul(tensor(1, 8, 16), tensor(2, 16, 4), tensor(4, 8, 4))
    host.matmul(tensor(3, 8, 4), tensor(5, 4, 2), tensor(6, 8, 2))
    call = host.reduced(tensor(6, 8, 2), False)
    host.call("record_param_comms", call, pg_name="0")
    host.matmul(tensor(1, 8, 16), tensor(2, 16, 4), tensor(7, 8, 4))
    graph = chakra.read(pair(tmp_path, host), (2,))
    # Both groups are both ranks, and both do the same: a node stands for all.
    assert [node.kind.value for node in graph.nodes] == [
        "compute", "collective", "compute", "compute", "collective", "compute"]
    assert [node.exchange.bytes for node in graph.nodes if node.exchange] == [128, 64]
    assert [node.needs for node in graph.nodes] == [(), (0,), (0,), (2, 1), (3,), (3, 4)]
    assert graph.nodes[0].work.flops == 2 * 8 * 16 * 4
    assert graph.nodes[0].work.memory_bytes == 4 * (8 * 16 + 16 * 4 + 8 * 4)


def test_waiting_that_nccl_records(tmp_path):
    """A record names a call by its sequence number: what follows waits, whatever tensors it uses."""
    host = Host('[{"pg_name": "0", "ranks": []}]')
    for number in (1, 2):
        call = host.reduced(tensor(number, 8), True)
        host.call("record_param_comms", call, [listed(tensor(number, 8)), plain(number, "Int"), plain(7, "Int")])
    host.matmul(tensor(5, 2, 2), tensor(6, 2, 2), tensor(7, 2, 2))
    host.call("record_param_comms", 2, [plain(1, "Int"), plain(0, "Int"), plain(0, "Int"), plain("wait", "String")])
    host.matmul(tensor(5, 2, 2), tensor(6, 2, 2), tensor(7, 2, 2))
    assert [node.needs for node in chakra.read(pair(tmp_path, host)).nodes] == [(), (), (), (2, 0)]


def test_groups_of_functional_collectives_and_annotations(tmp_path):
    host = Host()
    outer = host.call("_c10d_functional::all_reduce", 2, [tensor(1, 4), plain("sum", "String"), plain("3", "String")],
                      [], "_c10d_functional::all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor")
    host.reduced(tensor(1, 4), True, outer)
    annotation = host.call("pg_name:3", 2, scope=7)
    host.reduced(tensor(1, 8), True, annotation)
    traces = chakra.pytorch.read_pytorch(Path(pair(tmp_path, host).removeprefix("pytorch:")))
    assert [(event.pg_name, event.bytes) for event in traces[0].events] == [("3", 16), ("3", 32)]
    host.reduced(tensor(1, 8), True)
    with pytest.raises(UserError) as caught:
        chakra.read(pair(tmp_path, host))
    assert re.fullmatch(r".*h\.0\.json: node 8, c10d::allreduce_: its backend does not record the process group, and "
                        r"rank 0 is in several \(0, 3\); put the call into record_function\('pg_name:NAME'\)\.",
                        str(caught.value))


def test_work_of_operators(tmp_path):
    """Convolution, attention and element-wise operators by hand; views and allocations move nothing."""
    host = Host()
    image, weight, result = tensor(1, 2, 3, 8, 8), tensor(2, 16, 3, 3, 3), tensor(3, 2, 16, 8, 8)
    host.call("aten::convolution", 2, [image, weight, plain("<None>", "None"), plain(False, "Bool")], [result],
              "aten::convolution(Tensor input, Tensor weight, Tensor? bias, bool transposed) -> Tensor")
    host.call("aten::convolution_backward", 2, [result, image, weight, plain(False, "Bool"),
                                                plain([False, True, True], "GenericList[Bool,Bool,Bool]")], [weight],
              "aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, bool transposed, "
              "bool[3] output_mask) -> (Tensor, Tensor, Tensor)")
    query, key = tensor(4, 2, 4, 10, 16), tensor(5, 2, 4, 20, 16)
    host.call("aten::_scaled_dot_product_flash_attention", 2, [query, key, key], [query],
              "aten::_scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value) -> Tensor")
    host.call("aten::relu", 2, [tensor(6, 100)], [tensor(7, 100)], "aten::relu(Tensor self) -> Tensor")
    host.call("aten::t", 2, [tensor(6, 100)], [tensor(6, 100)], "aten::t(Tensor(a) self) -> Tensor(a)")
    host.call("aten::empty", 2, [], [tensor(8, 100)], "aten::empty.memory_format(SymInt[] size) -> Tensor")
    half = tensor(9, 100, element=2)
    host.call("aten::add_", 2, [half, half], [half], "aten::add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)")
    works = [node.work for node in chakra.read(pair(tmp_path, host)).nodes]
    assert [work.flops for work in works] == [
        2 * (2 * 16 * 64) * 27, 2 * (2 * 16 * 64) * 27, 2 * (2 * 4 * 10) * 20 * 32, 0, 0]
    assert [work.memory_bytes for work in works[3:]] == [800, 600]


def test_arguments_by_name():
    """Commas also separate values of defaults; ``*`` is no argument."""
    call = chakra.pytorch.Call(
        id=1, parent=1, name="aten::x", values=(1, [2, 2], 3, 4), types=("Int",) * 4, inputs=((),) * 4, outputs=(),
        attributes={"op_schema": "aten::x(Tensor(a!) self, int[2] stride=[1, 1], *, Scalar beta=1, Scalar alpha=1) -> "
                                 "(Tensor(a!), Tensor)"})
    assert [call.argument(name) for name in ("self", "stride", "beta", "alpha", "gamma")] == [1, [2, 2], 3, 4, None]


def kineto(path, events, **more):
    path.write_text(json.dumps({"traceEvents": [{"ph": "X", **event} for event in events], **more}))


def test_durations_of_kernels(tmp_path):
    """On a GPU the kernels count, by the call that started them; those of NCCL are no computation."""
    host = Host()
    outer = host.call("aten::linear", 2, [tensor(1, 8, 16)], [tensor(3, 8, 4)], "aten::linear(Tensor input) -> Tensor")
    inner = host.matmul(tensor(1, 8, 16), tensor(2, 16, 4), tensor(3, 8, 4), outer)
    reduced = host.reduced(tensor(3, 8, 4), True)
    host.call("record_param_comms", reduced, pg_name="0")
    events = [{"name": name, "cat": "cpu_op", "ts": 1000 + 10 * number, "dur": 9,
               "args": {"External id": 50 + number, "Record function id": number - 2}}
              for name, number in (("aten::linear", outer), ("aten::mm", inner), ("c10d::allreduce_", reduced))]
    events += [{"name": "gemm", "cat": "kernel", "ts": 2000, "dur": 12.5, "args": {"External id": 50 + inner}},
               {"name": "splitK", "cat": "kernel", "ts": 2020, "dur": 0.25, "args": {"External id": 50 + inner}},
               {"name": "bias", "cat": "kernel", "ts": 2030, "dur": 1, "args": {"External id": 50 + outer}},
               {"name": "ncclDevKernel_AllReduce", "cat": "kernel", "ts": 2040, "dur": 900,
                "args": {"External id": 50 + reduced}}]
    name = pair(tmp_path, host)
    for rank in range(2):
        kineto(tmp_path / f"h.{rank}.kineto.json", events)
    first, second = chakra.read(name, (2,)).nodes
    assert first.work.seconds == pytest.approx(13.75e-6, rel=1e-12) and second.kind == Kind.COLLECTIVE
    bad = {
        r".*h\.1\.kineto\.json is of another run than the execution trace beside it: call \d+ is 'aten::mul', and "
        r"there 'aten::mm'\.": [{**event, "name": event["name"].replace("mm", "mul")} for event in events],
        r".*h\.1\.kineto\.json has no call of the execution trace beside it\.": [],
        r".*: dur of event 'aten::linear' must be a number from 0 to 1e\+12 us, not -1\.": [{**events[0], "dur": -1}],
        r".*: dur of event 'aten::linear' must be a number from 0 to 1e\+12 us, not 'x'\.": [{**events[0], "dur": "x"}],
        r".*: ts of event 'aten::linear' must be a number from 0 to inf us, not nan\.":
            [{**events[0], "ts": float("nan")}],
    }
    for sentence, wrong in bad.items():
        kineto(tmp_path / "h.1.kineto.json", wrong)
        with pytest.raises(UserError) as caught:
            chakra.read(name, (2,))
        assert re.fullmatch(sentence, str(caught.value)), str(caught.value)


def test_files_that_are_no_execution_trace(tmp_path):
    host = Host()
    host.matmul(tensor(1, 8, 16), tensor(2, 16, 4), tensor(3, 8, 4))
    name = pair(tmp_path, host)
    path = tmp_path / "h.1.json"
    good = path.read_bytes()
    what = r".*h\.1\.json is not an execution trace of PyTorch: "
    cases = {
        what + r"it is cut off\.": good[:-30],
        what + r"it is not JSON \(line 1: Expecting value\)\.": b"hello",
        what + r"its gzip data is cut off or damaged\.": gzip.compress(good)[:-20],
        what + r"it has no schema and no nodes\.": b"[]",
        r".*h\.1\.json is a trace of torch\.profiler\.profile; besides it, the file of an ExecutionTraceObserver is "
        r"needed\.": b'{"traceEvents": []}',
        r".*h\.1\.json has the schema '2\.0'; 1\.0\.2-chakra\.0\.0\.4 to 1\.1\.1-chakra\.0\.0\.4 can be read\.":
            b'{"schema": "2.0", "nodes": []}',
        r".*h\.1\.json has no calls\.": b'{"schema": "1.1.1-chakra.0.0.4", "nodes": []}',
        r".*h\.1\.json: node 0 of the list is not as the observer writes it \(KeyError: 'inputs'\)\.":
            b'{"schema": "1.1.1-chakra.0.0.4", "nodes": [{"id": 1}]}',
        r".*h\.1\.json: node 4 is part of a node 77, which is not in the trace\.":
            good.replace(b'"name": "aten::mm", "ctrl_deps": 2', b'"name": "aten::mm", "ctrl_deps": 77'),
        r".*h\.1\.json: node 3 of the list is not as the observer writes it \(ValueError: a tensor has the shape "
        r"\[-8, 16\]\)\.": good.replace(b"[8, 16]", b"[-8, 16]"),
    }
    for sentence, data in cases.items():
        path.write_bytes(data)
        with pytest.raises(UserError) as caught:
            chakra.read(name)
        assert re.fullmatch(sentence, str(caught.value)), str(caught.value)
    path.unlink()
    host.write(tmp_path / "h.2.json")
    with pytest.raises(UserError, match=r"^there is no trace .*h\.1\.json, but one of rank 2\.$"):
        chakra.read(name)


def test_calls_deep_inside_each_other(tmp_path):
    host = Host('[{"pg_name": "0", "ranks": []}]')
    inside = 2
    for _ in range(1200):
        inside = host.call("aten::outer", inside, [tensor(1, 2)], [tensor(2, 2)], "aten::outer(Tensor self) -> Tensor")
    host.matmul(tensor(1, 8, 16), tensor(2, 16, 4), tensor(3, 8, 4), inside)
    graph = chakra.read(pair(tmp_path, host))
    assert [node.work.flops for node in graph.nodes] == [1024]


def _leaves(value, path=()):
    """Paths of all values inside, also of lists and objects."""
    yield path
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _leaves(part, (*path, key))


@pytest.mark.parametrize("kind", ["json", "kineto.json"])
def test_values_of_any_kind(tmp_path, seed, kind):
    """Two ranks with a value replaced by another: a graph or a sentence."""
    random.seed(seed)
    host = Host()
    first = host.matmul(tensor(1, 8, 16), tensor(2, 16, 4), tensor(3, 8, 4))
    call = host.reduced(tensor(3, 8, 4), True)
    host.call("record_param_comms", call, [listed(tensor(3, 8, 4)), plain(5, "Int")], pg_name="3")
    host.call("record_param_comms", 2, [plain(5, "Int"), plain("wait", "String")])
    host.call("aten::relu", 2, [tensor(3, 8, 4)], [tensor(4, 8, 4)], "aten::relu(Tensor self) -> Tensor")
    name = pair(tmp_path, host)
    events = [{"name": "aten::mm", "cat": "cpu_op", "ts": 1, "dur": 9,
               "args": {"External id": 5, "Record function id": first - 2}}]
    for rank in range(2):
        kineto(tmp_path / f"h.{rank}.kineto.json", events, distributedInfo={"rank": rank})
    path = tmp_path / f"h.1.{kind}"
    good = json.loads(path.read_text())
    paths = list(_leaves(good))[1:]
    refused = 0
    for _ in range(200):
        made = json.loads(json.dumps(good))
        *where, last = random.choice(paths)
        at = made
        for key in where:
            at = at[key]
        at[last] = random.choice([None, -1, 0, 7, 1 << 70, 1.5, 1e300, float("nan"), "x", [], [1], {}, True])
        path.write_text(json.dumps(made))
        try:
            chakra.read(name, (2,))
        except UserError:
            refused += 1
    assert 20 < refused


def test_calls_that_cannot_be_run(tmp_path):
    schema = "c10d::{}(Tensor[] tensors, ProcessGroup process_group, int {}, int tag) -> Work"
    for call, argument, value, sentence in (
            ("gather_", "root_rank", 0, r"there is no such collective in the simulator\."),
            ("recv_any_source_", "x", 0, r"there is no such collective in the simulator\."),
            ("send", "dst", 9, r"its process group of 2 ranks has no rank 9\."),
            ("send", "other", 1, r"its dst must be an integer, not None\.")):
        host = Host('[{"pg_name": "0", "ranks": []}]')
        host.call(f"c10d::{call}", 2, [listed(tensor(1, 4)), plain("<Object>", "Object"), plain(value, "Int"),
                                       plain(0, "Int")], [], schema.format(call, argument))
        with pytest.raises(UserError) as caught:
            chakra.read(pair(tmp_path, host))
        assert re.fullmatch(rf".*h\.0\.json: node 4, c10d::{call}: {sentence}", str(caught.value)), str(caught.value)
