# SPDX-License-Identifier: Apache-2.0
"""Bus shares of queues whose demand exceeds the bandwidth."""

from collections.abc import Iterator, Sequence

from rich.console import Console

from .runner import Bench, Case, Row

__all__ = ["cases", "jain", "show"]


def jain(shares: Sequence[int]) -> float:
    """Jain's fairness index: 1 where all shares are equal, 1/n where one has it all."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0


def cases(bench: Bench, sizes: Sequence[int], latencies: Sequence[int]) -> Iterator[Case]:
    yield "fairness", "fairness", lambda: _equal(bench, latencies[-1])


def _equal(bench: Bench, latency: int, size: int = 1024) -> Row:
    """Jain's index over the bytes written for each of the engine's queues, all of them full."""
    count = bench.config.queues
    result = bench.run([bench.full(size, latency, count)], latency, warmup=bench.steady(latency) + 17000, window=40000)
    shares = list(result["queue_bytes"].values())
    return {"queues": count, "size": size, "latency": latency, "jain": round(jain(shares), 5),
            "least": min(shares), "most": max(shares), "bus_share": bench.share(result["window"])}


def show(result: Row, console: Console) -> None:
    for row in result["fairness"]:
        console.print(f"Fairness over {row['queues']} full queues, {row['size']} B: Jain's index {row['jain']:.4f}, "
                      f"{row['least']:,} to {row['most']:,} bytes each.", highlight=False)
