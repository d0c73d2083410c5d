# SPDX-License-Identifier: Apache-2.0
"""Steps of a transformer as a graph: what each stage of the pipeline computes, exchanges and sends.

All ranks of a stage do the same, so a graph has the nodes of one rank of each stage. A block (attention, perceptron,
experts) is one computation in each pass, between the collectives of its tensor and expert groups; in the backward pass
the weight gradient overlaps with the exchange of the input gradient. Gradients are reduced in buckets during the last
backward pass of a stage. Loads of experts are equal.
"""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from hw.ace.words import Collective

from .graph import URGENT, Graph, Kind, Node, Transfer
from .schedule import order
from .workloads import Exchange, Work
from .workloads.parallel import Plan, stages
from .workloads.transformer import Block, Model

__all__ = ["graph"]

C = Collective

LOSS_BYTES = 4
"""Bytes of a token in each of three all-reduces: maximum, sum and the wanted word's output."""

OPTIMISER_BYTES = 24
"""Reads and writes of Adam for a parameter: FP32 weight and two moments; besides gradient and weight."""


def graph(model: Model, plan: Plan, shape: Sequence[int], steps: int) -> Graph:
    """:class:`Graph` of ``steps`` iterations on a machine of this shape.

    Raises
    ------
    UserError
        If the plan does not fit the shape or the model.
    """
    return _Builder(model, plan, shape).run(steps)


class _Builder:
    def __init__(self, model: Model, plan: Plan, shape: Sequence[int]) -> None:
        self.model, self.plan = model, plan
        kinds = plan.dimensions(model, shape)
        self.groups = {"tensor": kinds["tp"], "expert": kinds["ep"], "pipeline": kinds["pp"],
                       "expert-data": kinds["dp"], "replica": tuple(sorted((*kinds["ep"], *kinds["dp"])))}
        self.sizes = {name: prod(shape[number] for number in dimensions) for name, dimensions in self.groups.items()}
        self.tp, self.ep, self.pp = self.sizes["tensor"], self.sizes["expert"], self.sizes["pipeline"]
        self.stages = stages(model.layers, self.pp)
        self.ranks = _ranks_of_stages(shape, kinds["pp"])
        self.distinct = tuple(number for number in kinds["pp"] if shape[number] > 1)
        self.tokens = plan.batch * plan.sequence
        self.nodes: list[Node] = []
        # By stage: its last computation, and what the next one must wait for.
        self.last: list[int | None] = [None] * self.pp
        self.held: list[set[int]] = [set() for _ in range(self.pp)]
        self.sent: dict[tuple[str, int, int], int] = {}
        self.buckets: list[dict[str, int]] = [{} for _ in range(self.pp)]
        self.reduced: list[set[int]] = [set() for _ in range(self.pp)]
        self.step = self.micro = 0

    def run(self, steps: int) -> Graph:
        for self.step in range(steps):
            todo = [order(self.plan.schedule, stage, self.pp, self.plan.micro_batches) for stage in range(self.pp)]
            while any(todo):
                for stage, tasks in enumerate(todo):
                    while tasks and self.can(stage, *tasks[0]):
                        what, self.micro = tasks.pop(0)
                        (self.forward if what == "F" else self.backward)(stage)
            self.sent.clear()
            for stage in range(self.pp):
                self.update(stage)
        plan, name = self.plan, self.model.name
        kinds = {"tp": "tensor", "ep": "expert", "dp": "expert-data", "pp": "pipeline"}
        spread = ", ".join(f"{kind} {self.sizes[group]} in {_named(self.groups[group])}"
                           for kind, group in kinds.items() if self.sizes[group] > 1)
        source = (f"{self.model.source}; {spread}; {plan.micro_batches} micro-batches of {plan.batch} x "
                  f"{plan.sequence:,} tokens, {plan.schedule}, recomputation {plan.recompute}, ZeRO {plan.zero}, "
                  f"elements of {plan.element} bytes, gradients of {plan.gradient_element}")
        return Graph(name=f"{name}: {spread}", nodes=tuple(self.nodes), steps=steps, source=source, groups=self.groups,
                     distinct=self.distinct if self.pp > 1 else None)

    def can(self, stage: int, what: str, micro: int) -> bool:
        """Whether the results that the task needs from another stage have been added."""
        other = stage - 1 if what == "F" else stage + 1
        return not 0 <= other < self.pp or (what, other, micro) in self.sent

    # -- Nodes

    def add(self, kind: Kind, stage: int, layer: str, part: str, after: Iterable[int], **more: Any) -> int:
        number = len(self.nodes)
        self.nodes.append(Node(
            number=number, kind=kind, step=self.step, micro=self.micro, layer=layer, part=part,
            after=tuple(sorted(set(after))), rank=self.ranks[stage] if self.pp > 1 else None, **more))
        return number

    def compute(self, stage: int, layer: str, part: str, work: Work, after: Iterable[int] | None = None) -> None:
        """``after``: instead of what is held, which then remains."""
        last = self.last[stage]
        needs = self.held[stage] if after is None else after
        self.last[stage] = self.add(Kind.COMPUTE, stage, layer, part, (one for one in needs if one != last),
                                    previous=last, work=work)
        if after is None:
            self.held[stage] = set()

    def ready(self, stage: int) -> set[int]:
        """Nodes that an exchange of the latest result must wait for."""
        last = self.last[stage]
        return set(self.held[stage]) or (set() if last is None else {last})

    def exchange(self, stage: int, layer: str, part: str, collective: Collective, size: int, group: str, *,
                 priority: int = URGENT, hold: bool = True, after: Iterable[int] | None = None) -> set[int]:
        """A collective, which holds the next computation; none in a group of one rank."""
        if self.sizes[group] == 1 or not size:
            return set()
        made = self.add(Kind.COLLECTIVE, stage, layer, part, self.ready(stage) if after is None else after,
                        exchange=Exchange(collective=collective, bytes=size, group=group), priority=priority)
        if hold:
            self.held[stage] = {made}
        return {made}

    def send(self, stage: int, to: int, what: str) -> None:
        size = self.tokens * self.model.hidden * self.plan.element // self.tp
        self.sent[what, stage, self.micro] = self.add(
            Kind.SEND, stage, f"stage {stage}", "activation" if what == "F" else "gradient", self.ready(stage),
            transfer=Transfer(target=self.ranks[to], bytes=size))

    # -- Tensor and expert groups

    def bytes_of(self, block: Block) -> int:
        """Bytes of the vectors of all tokens of a micro-batch that enter or leave a block."""
        copies = self.model.top_k if block.name == "experts" else 1
        return self.tokens * copies * self.model.hidden * self.plan.element

    def gather(self, stage: int, layer: str, part: str, block: Block, *, hold: bool = True) -> set[int]:
        if not self.plan.sequence_parallel:
            return set()
        return self.exchange(stage, layer, part, C.ALL_GATHER, self.bytes_of(block) // self.tp, "tensor", hold=hold)

    def scatter(self, stage: int, layer: str, part: str, block: Block) -> None:
        kind = C.REDUCE_SCATTER if self.plan.sequence_parallel else C.ALL_REDUCE
        self.exchange(stage, layer, part, kind, self.bytes_of(block), "tensor")

    def route(self, stage: int, layer: str, part: str, block: Block) -> None:
        """Tokens to their experts, or back."""
        if block.name == "experts":
            self.exchange(stage, layer, part, C.ALL_TO_ALL, self.bytes_of(block) // self.tp, "expert")

    # -- Blocks

    def works(self, block: Block) -> tuple[Work, Work, Work]:
        """Forward pass, input gradient and weight gradient of a block, on one rank."""
        plan, tokens, tp = self.plan, self.tokens, self.tp
        weights = self.parameters(block) - block.norms
        ends, inner = 2 * self.bytes_of(block), plan.element * tokens * block.width // tp
        norm = 4 * plan.element * tokens * self.model.hidden // tp if block.norms else 0
        products, core = 2 * tokens * block.used // tp, tokens * block.core // tp
        memory = ends + 2 * inner + plan.element * weights + norm
        again = core if plan.recompute == "selective" else 0
        return (Work(flops=products + core, memory_bytes=memory),
                Work(flops=products + 2 * core + again, memory_bytes=memory),
                Work(flops=products, memory_bytes=ends + inner + 2 * plan.gradient_element * weights))

    def parameters(self, block: Block) -> int:
        """Parameters of a block on one rank."""
        parts = self.tp * (self.ep if block.name == "experts" else 1)
        return block.parameters // parts + block.norms

    def blocks(self, layer: int) -> list[Block]:
        made = list(self.model.blocks(layer, self.plan.sequence))
        if self.model.has_experts(layer) and self.model.shared_experts:
            made.insert(1, self.model.shared())
        return made

    def forward_block(self, stage: int, name: str, block: Block, part: str = "forward") -> None:
        self.route(stage, name, part, block)
        self.gather(stage, name, part, block)
        self.compute(stage, name, part, self.works(block)[0])
        self.scatter(stage, name, part, block)
        self.route(stage, name, part, block)

    def backward_block(self, stage: int, name: str, block: Block) -> None:
        _, input_grad, weight_grad = self.works(block)
        self.route(stage, name, "input_grad", block)
        # The block's input is gathered again for the weight gradient, beside the gradient of its output.
        again = self.gather(stage, name, "weight_grad", block, hold=False)
        if block.name != "head":
            # Each rank has the gradient of its own words' outputs.
            self.gather(stage, name, "input_grad", block)
        self.compute(stage, name, "input_grad", input_grad)
        needs = self.ready(stage)
        self.scatter(stage, name, "input_grad", block)
        self.route(stage, name, "input_grad", block)
        self.held[stage] = self.held[stage] or needs
        self.compute(stage, name, "weight_grad", weight_grad, again)
        self.keep(stage, block)

    # -- Passes of a stage

    def turn(self, stage: int) -> None:
        """A stage issues in the order of its tasks, so none of a task's exchanges precedes the task before."""
        last = self.last[stage]
        self.held[stage] |= set() if last is None else {last}

    def forward(self, stage: int) -> None:
        self.turn(stage)
        if stage:
            self.held[stage].add(self.sent["F", stage - 1, self.micro])
        else:
            embedding = self.model.embedding()
            self.compute(stage, "embedding", "forward", Work(memory_bytes=2 * self.bytes_of(embedding) // self.tp))
            self.scatter(stage, "embedding", "forward", embedding)
        layers = self.stages[stage]
        weights = self.weights(stage, layers[0], "forward")
        for layer in layers:
            self.held[stage] |= weights
            weights = self.weights(stage, layer + 1, "forward") if layer + 1 in layers else set()
            for block in self.blocks(layer):
                self.forward_block(stage, f"layer {layer} {block.name}", block)
        if stage + 1 < self.pp:
            self.send(stage, stage + 1, "F")
            self.held[stage] = set()
            return
        head = self.model.output()
        self.gather(stage, "head", "forward", head)
        self.compute(stage, "head", "forward", self.works(head)[0])
        for _ in range(3):
            self.exchange(stage, "head", "forward", C.ALL_REDUCE, LOSS_BYTES * self.tokens, "tensor")

    def backward(self, stage: int) -> None:
        self.turn(stage)
        if stage + 1 < self.pp:
            self.held[stage].add(self.sent["B", stage + 1, self.micro])
        else:
            self.backward_block(stage, "head", self.model.output())
        layers = self.stages[stage]
        weights = self.weights(stage, layers[-1], "input_grad")
        for layer in reversed(layers):
            self.held[stage] |= weights
            weights = self.weights(stage, layer - 1, "input_grad") if layer - 1 in layers else set()
            if self.plan.recompute == "full":
                for block in self.blocks(layer):
                    self.forward_block(stage, f"layer {layer} {block.name}", block, "recompute")
            for block in reversed(self.blocks(layer)):
                self.backward_block(stage, f"layer {layer} {block.name}", block)
            self.reduce(stage, f"layer {layer}", self.plan.bucket_bytes)
        if stage:
            self.turn(stage)
            self.send(stage, stage - 1, "B")
        else:
            embedding = self.model.embedding()
            self.gather(stage, "embedding", "weight_grad", embedding)
            self.compute(stage, "embedding", "weight_grad", Work(
                memory_bytes=2 * self.bytes_of(embedding) // self.tp
                + self.plan.gradient_element * self.parameters(embedding)))
            self.keep(stage, embedding)
        self.held[stage] = set()
        self.reduce(stage, f"stage {stage}", 1)

    # -- Copies of weights

    def weights(self, stage: int, layer: int, part: str) -> set[int]:
        """Gather the weights of a layer, with ZeRO 3."""
        if self.plan.zero != 3:
            return set()
        made: set[int] = set()
        for group, size in self.weights_of(self.blocks(layer)).items():
            made |= self.exchange(stage, f"layer {layer} weights", part, C.ALL_GATHER,
                                  -(-size * self.plan.element // self.sizes[group]), group, hold=False)
        return made

    def weights_of(self, blocks: Iterable[Block]) -> dict[str, int]:
        """Parameters on one rank, by the group that has copies of them."""
        made = {"replica": 0, "expert-data": 0}
        for block in blocks:
            own = block.norms if block.name == "experts" else self.parameters(block)
            made["replica"] += own
            made["expert-data"] += self.parameters(block) - own
        return made

    def keep(self, stage: int, block: Block) -> None:
        """Gradients of a block are complete, after its last micro-batch or, with ZeRO 3, after each."""
        if self.plan.zero == 3 or self.micro == self.plan.micro_batches - 1:
            for group, size in self.weights_of([block]).items():
                self.buckets[stage][group] = self.buckets[stage].get(group, 0) + size * self.plan.gradient_element

    def reduce(self, stage: int, name: str, least: int) -> None:
        """Reduce gradients of which there are at least ``least`` bytes."""
        last = self.last[stage]
        after = set() if last is None else {last}
        for group, size in self.buckets[stage].items():
            if size >= (1 if self.plan.zero == 3 else least):
                self.buckets[stage][group] = 0
                self.reduced[stage] |= self.exchange(
                    stage, f"{name} gradients", "weight_grad", C.REDUCE_SCATTER if self.plan.zero else C.ALL_REDUCE,
                    size, group, priority=0, hold=False, after=after)

    def update(self, stage: int) -> None:
        """Update a stage's weights, and gather them with ZeRO 1."""
        name, plan = f"stage {stage}", self.plan
        self.held[stage], self.reduced[stage] = self.reduced[stage], set()
        if plan.clip:
            for group in ("tensor", "replica", "pipeline"):
                self.exchange(stage, name, "update", C.ALL_REDUCE, 4, group)
        sizes = self.weights_of(self.blocks_of(stage))
        shards = {group: -(-size // (self.sizes[group] if plan.zero else 1)) for group, size in sizes.items()}
        self.compute(stage, name, "update", Work(
            memory_bytes=sum(shards.values()) * (OPTIMISER_BYTES + plan.gradient_element + plan.element)))
        if plan.zero == 1:
            updated, gathered = self.ready(stage), set[int]()
            for group, size in shards.items():
                gathered |= self.exchange(stage, f"{name} weights", "update", C.ALL_GATHER, size * plan.element, group,
                                          hold=False, after=updated)
            self.held[stage] = gathered

    def blocks_of(self, stage: int) -> list[Block]:
        made = [block for layer in self.stages[stage] for block in self.blocks(layer)]
        return [*([] if stage else [self.model.embedding()]), *made,
                *([self.model.output()] if stage == self.pp - 1 else [])]


def _ranks_of_stages(shape: Sequence[int], dimensions: Sequence[int]) -> list[int]:
    """The rank of each stage whose other coordinates are 0; the stages count the last of the dimensions fastest."""
    made = [0]
    for number in dimensions:
        stride = prod(shape[number + 1:])
        made = [rank + at * stride for rank in made for at in range(shape[number])]
    return made


def _named(dimensions: Sequence[int]) -> str:
    return f"dimension{'s' if len(dimensions) > 1 else ''} {' and '.join(map(str, dimensions))}"
