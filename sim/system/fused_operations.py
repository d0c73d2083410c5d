# SPDX-License-Identifier: Apache-2.0
"""Operations that can be fused, from their shapes.

========================  =======================================================================
embedding + all-to-all    pooled rows of tables go to the ranks of their samples: memory-bound
GEMM + all-to-all         tokens go back from experts to their ranks: compute-bound
GEMV + all-reduce         a token's tensor-parallel layer: memory-bound, a small all-reduce
GEMM + reduce-scatter     a tensor-parallel layer of a transformer: compute-bound
experts                   tokens to experts, two matrices, and back
DLRM                      a training step or a pass around the first of these
========================  =======================================================================
"""

from collections.abc import Callable

from hw.ace.words import Collective
from hw.errors import UserError

from .configuration import Npu
from .dlrm_step import Dlrm
from .moe import Moe
from .slices import Fused
from .workloads import shapes

__all__ = ["OPERATIONS", "dlrm", "embedding", "gemm", "gemv", "moe", "tp_gemm"]


def embedding(npu: Npu, ranks: int, *, batch: int = 1024, tables: int = 64, width: int = 92, pooling: int = 70,
              element: int = 4) -> Fused:
    """Pooled embeddings of ``batch`` samples for the ``tables`` tables of a rank. Defaults of width and pooling are
    recalled from the paper's DLRM. ``npu``: :class:`Npu`."""
    rows = batch * tables * pooling
    return Fused(name="embedding + all-to-all", arithmetic=2 * rows * width / npu.flops,
                 memory_bytes=rows * width * element, output_bytes=batch * tables * width * element,
                 collective=Collective.ALL_TO_ALL)


def gemm(npu: Npu, ranks: int, *, tokens: int = 4096, width: int = 4096, hidden: int = 14336,
         element: int = 2) -> Fused:
    """Second matrix of an expert: ``tokens`` from ``hidden`` to ``width``, which return to the ranks they came from."""
    return Fused(name="GEMM + all-to-all", arithmetic=2 * tokens * width * hidden / npu.flops,
                 memory_bytes=element * (tokens * (width + hidden) + width * hidden),
                 output_bytes=tokens * width * element, collective=Collective.ALL_TO_ALL)


def gemv(npu: Npu, ranks: int, *, width: int = 8192, hidden: int = 28672, tokens: int = 8, element: int = 2) -> Fused:
    """Second matrix of a layer that ``ranks`` share, for ``tokens`` tokens; each has ``hidden / ranks`` of the rows."""
    mine = -(-hidden // ranks)
    return Fused(name="GEMV + all-reduce", arithmetic=2 * tokens * width * mine / npu.flops,
                 memory_bytes=element * (width * mine + tokens * (width + mine)), output_bytes=tokens * width * element,
                 collective=Collective.ALL_REDUCE)


def tp_gemm(npu: Npu, ranks: int, *, tokens: int = 8192, width: int = 4096, hidden: int = 16384,
            element: int = 2) -> Fused:
    """Second matrix of a transformer's layer that ``ranks`` share. Each has ``hidden / ranks`` of its rows, and a sum
    of all ``tokens`` vectors of ``width`` results, of which each rank gets a part. The shapes are inputs."""
    mine = -(-hidden // ranks)
    return Fused(name="GEMM + reduce-scatter", arithmetic=2 * tokens * width * mine / npu.flops,
                 memory_bytes=element * (tokens * (width + mine) + width * mine),
                 output_bytes=tokens * width * element, collective=Collective.REDUCE_SCATTER)


def moe(npu: Npu, ranks: int, *, tokens: int = 4096, width: int = 4096, hidden: int = 14336, experts: int = 2,
        imbalance: float = 0.0, element: int = 2) -> Moe:
    """An expert on each rank, of two matrices. Each of a rank's ``tokens`` goes to ``experts`` experts, and its results
    come back. ``imbalance``: the expert of the first rank has ``1 - imbalance`` times the mean load, that of the last
    ``1 + imbalance`` times, with equal steps between."""
    if not 0 <= imbalance <= 1:
        raise UserError(f"operation.imbalance must be from 0 to 1, not {imbalance!r}.")
    vectors = tokens * experts
    loads = tuple(1 + imbalance * (2 * rank / (ranks - 1) - 1) for rank in range(ranks)) if imbalance else ()
    return Moe(name="all-to-all + experts + all-to-all", arithmetic=4 * vectors * width * hidden / npu.flops,
               memory_bytes=element * (2 * vectors * (width + hidden) + 2 * width * hidden),
               dispatch_bytes=vectors * width * element, output_bytes=vectors * width * element,
               collective=Collective.ALL_TO_ALL, loads=loads)


def dlrm(npu: Npu, ranks: int, *, batch: int = 256, tables: int = 1, width: int = 92, pooling: int = 70,
         layers: int = 43, hidden: int = 682, bottom: int = 0, element: int = 4, training: bool = True) -> Dlrm:
    """A training step of DLRM, or with ``training=False`` a pass of inference: each rank has ``batch`` samples, and
    ``tables`` tables for the samples of all. ``layers`` layers of ``hidden`` vectors, of which the first ``bottom`` do
    not need the embeddings. Width, pooling, ``layers`` and ``hidden`` are recalled from the paper; batch, tables and
    ``bottom`` are assumptions."""
    if bottom > layers:
        raise UserError(f"operation.bottom must be at most operation.layers, {layers}, not {bottom}.")
    pooled = embedding(npu, ranks, batch=batch * ranks, tables=tables, width=width, pooling=pooling, element=element)
    passes = []
    for work in shapes.dense(batch, hidden, hidden, element):
        passes.append((work.flops / npu.flops, work.memory_bytes))
    return Dlrm(name="DLRM, training step" if training else "DLRM, inference", arithmetic=pooled.arithmetic,
                memory_bytes=pooled.memory_bytes, output_bytes=pooled.output_bytes, collective=pooled.collective,
                layers=layers, bottom=bottom, training=training, passes=tuple(passes),
                gradient_bytes=(hidden + 1) * hidden * element,
                # Rows are read, changed and written back.
                update_bytes=3 * pooled.memory_bytes)


OPERATIONS: dict[str, Callable[..., Fused]] = {"embedding": embedding, "gemm": gemm, "gemv": gemv, "tp-gemm": tp_gemm,
                                               "moe": moe, "dlrm": dlrm}
