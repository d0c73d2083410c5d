# SPDX-License-Identifier: Apache-2.0
"""Steps of transformers against closed forms: parameters, operations, bytes of each kind of parallelism, bubbles, and a
pipeline of two stages by hand."""

from dataclasses import replace

import pytest

from hw.errors import UserError
from sim.system.configuration import LinkConfig, MachineConfig, Npu
from sim.system.experiment import Experiment
from sim.system.graph import Kind
from sim.system.machine import Machine
from sim.system.schedule import bubble, order
from sim.system.training import train
from sim.system.transformer_step import _Builder, graph
from sim.system.workloads import MODELS, described
from sim.system.workloads.parallel import Plan, stages
from sim.system.workloads.transformer import Model

SMALL = Model(name="small", layers=8, hidden=64, heads=4, kv_heads=4, head=16, ffn=256, vocabulary=512)
EXPERTS = replace(SMALL, experts=8, top_k=2, expert_ffn=128, ffn=128)
PLAN = Plan(sequence=64, batch=2, micro_batches=4, bucket_bytes=100_000, clip=False)
TOKENS = 128
LINK = LinkConfig(bytes_per_s=1e9, latency_s=1e-6)


def sent(model, plan, shape, endpoint="ideal"):
    """``(stage, dimension) -> payload`` bytes that a rank sends in a step, and the run."""
    made = graph(model, plan, shape, 1)
    config = MachineConfig(shape=shape, endpoint=endpoint, links=(LINK,) * len(shape), distinct=made.distinct or ())
    machine = Machine(config)
    run = train(made, machine)
    stage = {rank: number for number, rank in enumerate(machine.ranks.representatives)}
    bytes_of = {(one, dimension): 0 for one in stage.values() for dimension in range(len(shape))}
    for link in run.statistics["links"]:
        bytes_of[stage[link["rank"]], link["port"] // 2] += link["payload_bytes"]
    return bytes_of, run


def test_parameters():
    """Counts that the models' authors publish; DeepSeek's without 256 router biases in each of 58 layers."""
    assert {name: model.parameters() for name, model in MODELS.items()} == {
        "llama-70b": 68_976_648_192, "mixtral-8x7b": 46_702_792_704, "deepseek-v3": 671_026_419_200 - 58 * 256}


def test_operations():
    """6 N for each token, besides attention, the rows of the embedding and the normalisations, which are not products.
    """
    llama = MODELS["llama-70b"]
    products = llama.parameters() - 32_000 * 8192 - (2 * 80 + 1) * 8192
    assert llama.operations(4096) == 6 * products + 80 * 6 * 4096 * 8192
    # A token of Mixtral uses 2 of 8 experts.
    mixtral = MODELS["mixtral-8x7b"]
    unused = 32 * 6 * 3 * 4096 * 14336
    assert mixtral.operations(1) == pytest.approx(6 * (mixtral.parameters() - unused), rel=0.02)


@pytest.mark.parametrize(("model", "shape", "plan"), [
    (SMALL, (2, 2, 2), PLAN), (SMALL, (4, 2, 2), replace(PLAN, sequence_parallel=False)),
    (EXPERTS, (4, 2, 2), PLAN), (SMALL, (8,), replace(PLAN, map="dp"))])
def test_operations_of_a_step(model, shape, plan):
    """All ranks together do what the model needs for all tokens; recomputation does the forward passes again."""
    def flops(plan):
        made = graph(model, plan, shape, 1)
        builder = _Builder(model, plan, shape)
        alike = builder.tp * builder.sizes["replica"] * (builder.pp if not made.ranks else 1)
        return alike * sum(node.work.flops for node in made.nodes), builder.sizes["replica"]

    total, replicas = flops(plan)
    tokens = TOKENS * plan.micro_batches * replicas
    assert total == tokens * model.operations(64)
    head = model.output()
    blocks = model.all_blocks(64)
    again = sum(2 * block.used + block.core for block in blocks) - 2 * head.used
    assert flops(replace(plan, recompute="full"))[0] == total + tokens * again
    cores = sum(block.core for block in blocks)
    assert flops(replace(plan, recompute="selective"))[0] == total + tokens * cores


def tensor_bytes(stage, pp, t, m, *, layers, hidden=64, again=False):
    """Sequence parallelism: all-gather and reduce-scatter twice forward; two more all-gathers backward."""
    part = TOKENS * hidden * 2 // t
    each = 10 + 4 * again
    ends = (2 if stage == 0 else 0) + (3 if stage == pp - 1 else 0)
    loss = 3 * 2 * (t - 1) * (4 * TOKENS // t) if stage == pp - 1 else 0
    return m * ((each * layers + ends) * (t - 1) * part + loss)


def parameters(stage, pp, t, layers):
    layer = (4 * 64 * 64 + 3 * 64 * 256) // t + 2 * 64
    return layers * layer + (stage == 0) * 512 * 64 // t + (stage == pp - 1) * (512 * 64 // t + 64)


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize("zero", [0, 1, 3])
def test_bytes_of_tensor_data_and_pipeline(zero, schedule):
    shape, t, d, p, m = (4, 2, 2), 4, 2, 2, 4
    found, _ = sent(SMALL, replace(PLAN, zero=zero, schedule=schedule), shape)
    for stage in range(p):
        assert found[stage, 0] == tensor_bytes(stage, p, t, m, layers=4)
        own = parameters(stage, p, t, 4)
        layers = 4 * ((4 * 64 * 64 + 3 * 64 * 256) // t + 2 * 64)
        whole = {0: 2 * 2 * own, 1: 2 * own + 2 * own, 3: m * 2 * (own + 2 * layers)}[zero]
        assert found[stage, 1] == whole * (d - 1) // d
        assert found[stage, 2] == m * (TOKENS * 64 * 2 // t)


def test_bytes_without_sequence_parallelism():
    t, m = 4, 4
    found, _ = sent(SMALL, replace(PLAN, sequence_parallel=False), (4, 2, 2))
    whole, ring = TOKENS * 64 * 2, 2 * (t - 1) / t
    # All-reduces: two forward and two backward in each layer, of the embedding, and of the last gradient.
    assert found[0, 0] == m * ring * whole * (4 * 4 + 1)
    assert found[1, 0] == m * ring * (whole * (4 * 4 + 1) + 3 * 4 * TOKENS)


def test_bytes_with_recomputation():
    found, _ = sent(SMALL, replace(PLAN, recompute="full"), (4, 2, 2))
    assert [found[stage, 0] for stage in range(2)] == [
        tensor_bytes(stage, 2, 4, 4, layers=4, again=True) for stage in range(2)]


def test_bytes_of_experts():
    """Two all-to-alls forward and two backward in each layer, of two experts' tokens; a ring of n ranks forwards
    n (n - 1) / 2 blocks. Experts have d copies, all else e * d."""
    e, d, p, m = 4, 2, 2, 4
    found, _ = sent(EXPERTS, PLAN, (e, d, p))
    tokens = TOKENS * 2 * 64 * 2
    dense = [4 * (4 * 64 * 64 + 64 + 64 + 64 * 8) + 512 * 64 + (64 if stage else 0) for stage in range(p)]
    experts = 4 * (8 // e) * 3 * 64 * 128
    for stage in range(p):
        # Gradients and weights of 2 bytes, first along dimension 0, the parts then along dimension 1.
        replica = 2 * 2 * dense[stage] * (e - 1) // e, 2 * 2 * dense[stage] // e * (d - 1) // d
        assert found[stage, 0] == m * 4 * 4 * (tokens // e * e * (e - 1) // 2) + replica[0]
        assert found[stage, 1] == 2 * 2 * experts * (d - 1) // d + replica[1]
        assert found[stage, 2] == m * TOKENS * 64 * 2


@pytest.mark.parametrize("zero", [0, 1, 3])
def test_memory_of_updates(zero):
    """Adam's 24 bytes, the gradient and the weight of each parameter that a rank updates: with ZeRO its part."""
    made = graph(SMALL, replace(PLAN, zero=zero), (2, 4), 1)
    own = 8 * ((4 * 64 * 64 + 3 * 64 * 256) // 2 + 2 * 64) + 2 * 512 * 64 // 2 + 64
    updates = [node.work.memory_bytes for node in made.nodes if node.part == "update" and node.kind == Kind.COMPUTE]
    assert updates == [-(-own // (4 if zero else 1)) * 28]


def test_gradients_of_tokens_return_before_the_weight_gradient():
    """Behind attention without a tensor group, the all-to-all of the layer below needs the input gradient only."""
    made = graph(EXPERTS, PLAN, (4, 2), 1)
    nodes = {(node.layer, node.part, node.kind): node for node in made.nodes if node.micro == 0}
    exchange = next(node for node in made.nodes if node.micro == 0 and node.layer == "layer 3 experts"
                    and node.part == "input_grad" and node.kind == Kind.COLLECTIVE)
    assert exchange.after == (nodes["layer 4 attention", "input_grad", Kind.COMPUTE].number,)


def test_schedules():
    assert order("1f1b", 1, 3, 4) == [("F", 0), ("F", 1), ("B", 0), ("F", 2), ("B", 1), ("F", 3), ("B", 2), ("B", 3)]
    assert order("1f1b", 0, 4, 2) == order("gpipe", 0, 4, 2) == [("F", 0), ("F", 1), ("B", 0), ("B", 1)]
    assert [len(one) for one in stages(61, 16)] == [3] * 3 + [4] * 13 and stages(61, 16)[-1][-1] == 60


def machine_without_communication(shape, distinct):
    fast = LinkConfig(bytes_per_s=1e18, latency_s=0.0)
    return Machine(MachineConfig(shape=shape, endpoint="ideal", links=(fast,) * len(shape), distinct=distinct,
                                 npu=Npu(memory_bytes_per_s=1e18, memory_latency_s=0.0)))


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize(("p", "m"), [(2, 3), (4, 4), (4, 12)])
def test_bubble(p, m, schedule):
    """Equal stages: no embedding or output to speak of."""
    model = replace(SMALL, vocabulary=1, hidden=1024, heads=8, kv_heads=8, head=128, ffn=4096)
    plan = replace(PLAN, micro_batches=m, schedule=schedule, map="pp")
    run = train(graph(model, plan, (p,), 1), machine_without_communication((p,), (0,)))
    assert run.exposed / run.seconds == pytest.approx(bubble(p, m), abs=2e-3)


def test_two_stages_by_hand():
    """One micro-batch: each pass after the other, and two sends."""
    plan = replace(PLAN, micro_batches=1, map="pp", zero=0)
    made = graph(SMALL, plan, (2,), 1)
    config = MachineConfig(shape=(2,), endpoint="ideal", links=LINK, distinct=(0,), header_bytes=0)
    run = train(made, Machine(config))
    npu = config.npu
    seconds = {}
    for node in made.nodes:
        if node.kind == Kind.COMPUTE:
            time = max(node.work.flops / npu.flops, node.work.memory_bytes / npu.memory_bytes_per_s)
            seconds[node.rank, node.layer, node.part] = time
    path = sum(time for key, time in seconds.items() if key != (1, "stage 1", "update"))
    sends = 2 * (1e-6 + TOKENS * 64 * 2 / 1e9)
    assert run.seconds == pytest.approx(path + sends, rel=1e-6)
    assert len([node for node in made.nodes if node.kind == Kind.SEND]) == 2


def test_steps_follow_each_other():
    """The second step's passes wait for the first one's update."""
    made = graph(SMALL, replace(PLAN, clip=True), (2, 2, 2), 2)
    run = train(made, Machine(MachineConfig(shape=(2, 2, 2), distinct=(2,))))
    for rank in made.ranks:
        mine = [span for span in run.spans if span.node.rank == rank]
        updated = max(span.end for span in mine if span.node.part == "update" and span.node.step == 0
                      and span.node.kind == Kind.COMPUTE)
        assert min(span.begin for span in mine if span.node.step == 1) >= updated
    # Clipping makes all stages wait for the slowest.
    ends = [span.end for span in run.spans if span.node.exchange and span.node.exchange.group == "pipeline"]
    assert len(ends) == 4 and ends[0] == pytest.approx(ends[1], abs=1e-6)


@pytest.mark.parametrize(("shape", "settings", "sentence"), [
    ((8, 8, 4), {"tp": 8, "pp": 3}, "tp 8 x pp 3 are 24 ranks, which must divide the 256 of 8x8x4."),
    ((8, 8, 4), {"tp": 8, "pp": 4, "dp": 4}, "tp 8 x dp 4 x pp 4 are 128 ranks, which must be the 256 of 8x8x4."),
    ((8, 8, 4), {"tp": 4}, "tp 4 must be whole dimensions of 8x8x4, in the order tp, ep, dp, pp, which has 8 there; "
                           "choose other --nodes, or map."),
    ((8, 8, 4), {"tp": 4, "map": "tp-dp-pp"}, "tp must be 8, the ranks of 8x8x4 along the dimensions that map=tp-dp-pp "
                                              "gives to it, not 4."),
    ((8, 8), {"map": "tp-dp-pp"}, "map must have a kind of parallelism for each of the 2 dimensions of 8x8, not 3: "
                                  "tp-dp-pp."),
    ((8, 8), {"map": "tp+dp"}, "map of a transformer must be names of tp, ep, dp, pp with - between them, not "
                               "'tp+dp'."),
    ((16, 4), {"tp": 16}, "tp must divide kv_heads, which is 8 of llama-70b, not 16."),
    ((4, 4), {"ep": 4}, "ep must be 1, as llama-70b has no experts, not 4."),
    ((4, 4), {"zero": 2}, "zero of a transformer must be one of 0, 1, 3, not 2."),
    ((4, 4), {"schedule": "2f2b"}, "schedule of a transformer must be one of 1f1b, gpipe, not '2f2b'."),
    ((4, 4), {"micro_batches": 0}, "micro_batches of a transformer must be an integer from 1 to 1,048,576, not 0."),
    ((4, 4), {"layers": -1}, "layers of the workload llama-70b must be an integer from 1 to 16,777,216, not -1."),
    ((4, 4), {"kv_heads": 7}, "kv_heads of the workload llama-70b must divide its 64 heads, not 7."),
    ((4, 4), {"clip": 1}, "clip of a transformer must be true or false, not 1."),
    ((2, 4), {"pp": 4, "layers": 2}, "pp must be at most the 2 layers of llama-70b, not 4."),
    ((4, 4), {"fold": False, "pp": 4}, "fold=false simulates every rank, but this workload is made of one rank of each "
                                       "stage; leave out fold."),
])
def test_errors(shape, settings, sentence):
    with pytest.raises(UserError) as caught:
        Experiment(workload="llama-70b", shape=shape, steps=1, settings={
            name if name == "fold" else f"workload.{name}": value for name, value in settings.items()}).check()
    assert str(caught.value) == sentence


def test_unknown_setting():
    with pytest.raises(UserError, match=r"^the workload llama-70b has no setting 'tq'; it has layers, hidden, "):
        described("llama-70b", {"tq": 8})


@pytest.mark.long
def test_llama_on_1024_ranks():
    """Bytes of each dimension are the closed forms'; two million transfers, less than a minute of a core."""
    experiment = Experiment(workload="llama-70b", shape=(8, 32, 4), endpoint="ideal", steps=1,
                            settings={"workload.tp": 8, "workload.pp": 4, "workload.clip": False})
    assert experiment.check() < 2_500_000
    run = experiment.run()
    sent_bytes = {}
    for link in run.statistics["links"]:
        key = link["rank"], link["port"] // 2
        sent_bytes[key] = sent_bytes.get(key, 0) + link["payload_bytes"]
    m, part, layer = 8, 4096 * 8192 * 2 // 8, (2 * 8192**2 + 2 * 8192 * 1024 + 3 * 8192 * 28672) // 8 + 2 * 8192
    for stage in range(4):
        ends = (2 if stage == 0 else 0) + (3 if stage == 3 else 0)
        loss = m * 3 * 2 * 7 * (4 * 4096 // 8) if stage == 3 else 0
        assert sent_bytes[stage, 0] == m * (10 * 20 + ends) * 7 * part + loss
        own = 20 * layer + (32_000 * 1024 if stage in (0, 3) else 0) + (8192 if stage == 3 else 0)
        assert sent_bytes[stage, 1] == (2 + 2) * own * 31 // 32
        assert sent_bytes[stage, 2] == m * part * (1 if stage in (0, 3) else 2)
    assert 0 < run.exposed < run.seconds
