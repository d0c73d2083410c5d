# SPDX-License-Identifier: Apache-2.0
"""Functional coverage of comparisons: what the golden model carries out, and what a cluster is given.

As a module of cocotb tests, it is :mod:`sim.dma.compare` and :mod:`tests.coverage.requests`, whose model counts its
requests.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from hw.dma_engine.model.engine import DmaModel
from hw.dma_engine.model.regions import present
from hw.dma_engine.words import Opcode, Status
from tests.coverage.bins import Tally, collective_bins, failure_bins, request_bins

__all__ = ["BINS", "STALLS", "counted_collectives"]

BINS, STALLS = "DMACE_COVERAGE_BINS", "DMACE_COVERAGE_STALLS"
"""Environment variables: the file to add to, and whether there are stalls."""


def _count_requests(path: Path, stalls: bool) -> None:
    tally = Tally()
    if path.is_file():
        tally.load(path)
    end, log = DmaModel._end, DmaModel._log

    def path_of(self: DmaModel, queue: int) -> str:
        q = self.queues[queue]
        return "ring" if q.ring else "ARK" if q.ark else "doorbell"

    def counted_end(self: DmaModel, queue: int, request: Any) -> None:
        word = request.word
        if request.status is Status.OK and word.opcode == Opcode.COPY:
            tally.add(request_bins(
                length=word.length, source=present(self.source(word))[0][0],
                destination=present(self.destination(word))[0][0], beat_bytes=self.config.beat_bytes,
                segment_bytes=self.config.segment_bytes, stalls=stalls, path=path_of(self, queue)))
            tally.store(path)
        end(self, queue, request)

    def counted_log(self: DmaModel, queue: int, status: Status) -> None:
        tally.add(failure_bins(status=status.name, path=path_of(self, queue)))
        tally.store(path)
        log(self, queue, status)

    mock.patch.object(DmaModel, "_end", counted_end).start()
    mock.patch.object(DmaModel, "_log", counted_log).start()


@contextmanager
def counted_collectives(tally: Tally, *, stalls: bool, faults: bool) -> Iterator[None]:
    """Count the collectives that clusters are given in this block."""
    from hw.ace.collectives import Collective
    from hw.ace.numerics.formats import DType, Reduction
    from sim.ace.cluster import Cluster

    submit = Cluster.submit

    def counted(self: Cluster, collective: Collective, inputs: Any = None, **options: Any) -> Any:
        count = options.get("count")
        if count is None:
            parts = options.get("extents")
            count = parts.count if parts is not None else 0
        tally.add(collective_bins(
            name=collective.name, count=count, dtype=options.get("dtype", DType.FP32).name,
            operation=options.get("op", Reduction.SUM).name, combines=collective.info.reduces, stalls=stalls,
            faults=faults))
        return submit(self, collective, inputs, **options)

    with mock.patch.object(Cluster, "submit", counted):
        yield


if path := os.environ.get(BINS):
    _count_requests(Path(path), os.environ.get(STALLS) == "1")
    from sim.dma.compare import compare  # noqa: F401  # a cocotb test
    from tests.coverage.requests import requests  # noqa: F401  # another one
