# SPDX-License-Identifier: Apache-2.0
"""Orders of the micro-batches of a pipeline."""

__all__ = ["bubble", "order"]

Task = tuple[str, int]
"""``F`` or ``B`` (forward or backward), and the number of a micro-batch."""


def order(schedule: str, stage: int, stages: int, micro_batches: int) -> list[Task]:
    """Tasks of a stage in the order of its processor.

    ``1f1b``: as many forward passes as there are later stages, then one of each in turn, then the remaining backward
    passes. ``gpipe``: all forward passes, then all backward passes.
    """
    first = micro_batches if schedule == "gpipe" else min(stages - 1 - stage, micro_batches)
    tasks = [("F", number) for number in range(first)]
    for number in range(first, micro_batches):
        tasks += [("F", number), ("B", number - first)]
    return tasks + [("B", number) for number in range(micro_batches - first, micro_batches)]


def bubble(stages: int, micro_batches: int) -> float:
    """Share of a step in which a processor waits, for equal stages and no communication, with either schedule."""
    return (stages - 1) / (micro_batches + stages - 1)
