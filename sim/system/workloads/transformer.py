# SPDX-License-Identifier: Apache-2.0
"""Transformer models from a small description: parameters and operations of their blocks.

Presets, from the models' published configurations:

* ``llama-70b``: Touvron et al., "Llama 2", arXiv 2307.09288, and its ``config.json``: 68,976,648,192 parameters.
* ``mixtral-8x7b``: Jiang et al., "Mixtral of Experts", arXiv 2401.04088, table 1: 46,702,792,704 parameters.
* ``deepseek-v3``: "DeepSeek-V3 Technical Report", arXiv 2412.19437, section 4.2: 671,026,404,352 parameters without the
  router's biases and without multi-token prediction, which is left out here.
"""

from dataclasses import dataclass, fields

from hw.errors import UserError

__all__ = ["MODELS", "Block", "Model"]


@dataclass(frozen=True, kw_only=True)
class Block:
    """A block of a layer, for one token, on all ranks of a tensor group together.

    Parameters
    ----------
    name : str
        ``attention``, ``mlp``, ``experts``, ``embedding`` or ``head``.
    parameters : int
        Of its matrices: a token takes two operations for each that it uses.
    used : int
        Parameters that a token uses: fewer than all with experts.
    norms : int
        Parameters that every rank of a tensor group has: normalisation and router.
    core : int
        Forward operations beside the matrices': scores and values of attention, whose causal half is computed.
    width : int
        Elements of a token that the block writes and reads again between its kernels.
    """

    name: str
    parameters: int
    used: int
    norms: int = 0
    core: int = 0
    width: int = 0


@dataclass(frozen=True, kw_only=True)
class Model:
    """A decoder-only transformer with gated perceptrons, RMS normalisation and an output matrix of its own.

    Parameters
    ----------
    name, source : str
    layers, hidden, heads, kv_heads, vocabulary : int
    head, value_head : int
        Elements of a head's keys and of its values.
    ffn : int
        Inner width of a layer's perceptron.
    experts, top_k, expert_ffn, shared_experts : int
        Experts of a layer, those that a token uses, their inner width, and experts that all tokens use; 0 experts:
        none.
    dense_layers : int
        First layers that have a perceptron in a model with experts.
    q_rank, kv_rank, rope : int
        Ranks of low-rank queries and of keys and values (multi-head latent attention), and elements of a head with
        positions, which all heads share; 0: plain projections.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head: int
    ffn: int
    vocabulary: int
    value_head: int = 0
    experts: int = 0
    top_k: int = 0
    expert_ffn: int = 0
    shared_experts: int = 0
    dense_layers: int = 0
    q_rank: int = 0
    kv_rank: int = 0
    rope: int = 0
    source: str = ""

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            least = 1 if one.name in ("layers", "hidden", "heads", "kv_heads", "head", "ffn", "vocabulary") else 0
            if one.type is int and not (isinstance(value, int) and not isinstance(value, bool)
                                        and least <= value <= 1 << 24):
                raise UserError(f"{one.name} of the workload {self.name} must be an integer from {least} to "
                                f"{1 << 24:,}, not {value!r}.")
        if self.layers > 1000:
            raise UserError(f"layers of the workload {self.name} must be from 1 to 1,000, not {self.layers:,}.")
        if self.heads % self.kv_heads:
            raise UserError(f"kv_heads of the workload {self.name} must divide its {self.heads} heads, not "
                            f"{self.kv_heads}.")
        if self.experts and not 1 <= self.top_k <= self.experts:
            raise UserError(f"top_k of the workload {self.name} must be from 1 to its {self.experts} experts, not "
                            f"{self.top_k}.")
        if self.experts and not self.expert_ffn:
            raise UserError(f"expert_ffn of the workload {self.name} must be 1 or more with experts, not 0.")

    def blocks(self, layer: int, sequence: int) -> tuple[Block, Block]:
        """Attention and perceptron of a layer, for sequences of this number of tokens."""
        return self.attention(sequence), self.experts_block() if self.has_experts(layer) else self.mlp()

    def has_experts(self, layer: int) -> bool:
        """Whether a layer, counted from 0, has experts."""
        return bool(self.experts) and layer >= self.dense_layers

    def attention(self, sequence: int) -> Block:
        """Projections, and scores and values of half of a sequence on average."""
        h, heads, value = self.hidden, self.heads, self.value_head or self.head
        norms = h
        if self.kv_rank:
            queries = h * self.q_rank + self.q_rank * heads * self.head if self.q_rank else h * heads * self.head
            matrices = (queries + h * (self.kv_rank + self.rope)
                        + self.kv_rank * heads * (self.head - self.rope + value) + heads * value * h)
            norms += self.q_rank + self.kv_rank
            width = heads * (2 * self.head + 2 * value)
        else:
            matrices = h * heads * self.head + h * self.kv_heads * (self.head + value) + heads * value * h
            width = heads * (self.head + value) + self.kv_heads * (self.head + value)
        return Block(name="attention", parameters=matrices, used=matrices, norms=norms,
                     core=sequence * heads * (self.head + value), width=width)

    def mlp(self) -> Block:
        """Two inner products, gate and activation, and the product back."""
        matrices = 3 * self.hidden * self.ffn
        return Block(name="mlp", parameters=matrices, used=matrices, norms=self.hidden, width=3 * self.ffn)

    def experts_block(self) -> Block:
        """Router, experts, and experts that all tokens use; ``parameters`` and ``used`` without the latter's."""
        one = 3 * self.hidden * self.expert_ffn
        return Block(name="experts", parameters=self.experts * one, used=self.top_k * one,
                     norms=self.hidden + self.hidden * self.experts, width=3 * self.top_k * self.expert_ffn)

    def shared(self) -> Block:
        """Experts that all tokens use."""
        matrices = 3 * self.hidden * self.expert_ffn * self.shared_experts
        return Block(name="shared", parameters=matrices, used=matrices, width=3 * self.shared_experts * self.expert_ffn)

    def embedding(self) -> Block:
        """A table; a token uses a row of it, and computes nothing."""
        return Block(name="embedding", parameters=self.vocabulary * self.hidden, used=0, width=self.hidden)

    def output(self) -> Block:
        """Last normalisation and matrix, whose outputs are in FP32: two elements."""
        matrices = self.vocabulary * self.hidden
        return Block(name="head", parameters=matrices, used=matrices, norms=self.hidden, width=2 * self.vocabulary)

    def all_blocks(self, sequence: int) -> list[Block]:
        """Blocks of the whole model."""
        made = [self.embedding()]
        for layer in range(self.layers):
            made += self.blocks(layer, sequence)
            if self.has_experts(layer) and self.shared_experts:
                made.append(self.shared())
        return [*made, self.output()]

    def parameters(self) -> int:
        """Parameters of the model."""
        return sum(block.parameters + block.norms for block in self.all_blocks(1))

    def operations(self, sequence: int) -> int:
        """Operations for a token of a sequence, forward and backward, without recomputation: six for each matrix
        element that it uses, and three times the scores and values of attention."""
        return sum(6 * block.used + 3 * block.core for block in self.all_blocks(sequence))


MODELS = {model.name: model for model in (
    Model(name="llama-70b", layers=80, hidden=8192, heads=64, kv_heads=8, head=128, ffn=28672, vocabulary=32_000,
          source="Llama 2 70B, arXiv 2307.09288"),
    Model(name="mixtral-8x7b", layers=32, hidden=4096, heads=32, kv_heads=8, head=128, ffn=14336, vocabulary=32_000,
          experts=8, top_k=2, expert_ffn=14336, source="Mixtral 8x7B, arXiv 2401.04088"),
    Model(name="deepseek-v3", layers=61, hidden=7168, heads=128, kv_heads=128, head=192, value_head=128, ffn=18432,
          vocabulary=129_280, experts=256, top_k=8, expert_ffn=2048, shared_experts=1, dense_layers=3, q_rank=1536,
          kv_rank=512, rope=64, source="DeepSeek-V3, arXiv 2412.19437, without multi-token prediction"),
)}
"""Presets by name."""
