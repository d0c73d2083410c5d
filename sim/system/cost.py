# SPDX-License-Identifier: Apache-2.0
"""Cost of a simulation, before it starts: the number of transfers that are simulated."""

from math import prod

from hw.errors import UserError

from .coarse import messages
from .configuration import MachineConfig
from .graph import Graph
from .operation import directions, parts_of
from .routes import program, route
from .training import count_bytes, dimensions_for
from .workloads import Exchange

__all__ = ["MOST_TRANSFERS", "TRANSFERS_PER_SECOND", "check", "seconds", "spoken", "transfers"]

TRANSFERS_PER_SECOND = 40_000
"""About what a core of a few years ago simulates; ``dmace validate --growth`` measures it."""

MOST_TRANSFERS = 60 * 60 * TRANSFERS_PER_SECOND
"""About an hour."""


def transfers(graph: Graph, config: MachineConfig) -> int:
    """Transfers over links of all collectives, on all ranks that are simulated; exact for chunks of full length."""
    total, known = 0, dict[Exchange, int]()
    for node in graph.nodes:
        if node.exchange is None:
            continue
        if node.exchange not in known:
            known[node.exchange] = _of(node.exchange, graph, config)
        total += known[node.exchange]
    total += sum(len(messages(config, node.transfer.bytes)) for node in graph.nodes if node.transfer)
    return total * (1 if graph.ranks or config.fold else config.ranks)


def _of(exchange: Exchange, graph: Graph, config: MachineConfig) -> int:
    dimensions = dimensions_for(exchange, graph, config)
    shape = tuple(config.shape[dimension] for dimension in dimensions)
    if not shape:
        return 0
    at = (0,) * len(shape)
    made = program(config, exchange.collective, shape, dimensions, at, up=True,
                   role=at if exchange.collective.info.rooted else None)
    size = count_bytes(exchange, prod(shape))
    _, longest, shard, _ = parts_of(config, made, size)
    piece = max(1, min(longest, shard))
    if piece * made.positions // config.message_bytes > MOST_TRANSFERS:
        return piece * made.positions // config.message_bytes
    grains = sum(len(leg.grains) for leg in route(config, made, piece).legs)
    chunks = sum(map(len, directions(config, made, size))) if config.most_chunks else -(-shard // piece)
    return max(1, chunks) * grains


def seconds(count: int) -> float:
    """Seconds of a core for a number of transfers, roughly."""
    return count / TRANSFERS_PER_SECOND


def spoken(count: int) -> str:
    """That time in words."""
    time = seconds(count)
    unit, factor = next(pair for pair in (("hours", 3600), ("minutes", 60), ("seconds", 1)) if time >= 2 * pair[1] or
                        pair[1] == 1)
    return f"about {max(1, round(time / factor)):,} {unit}"


def check(graph: Graph, config: MachineConfig) -> int:
    """Number of transfers.

    Raises
    ------
    UserError
        If there are more than :data:`MOST_TRANSFERS`.
    """
    count = transfers(graph, config)
    if count > MOST_TRANSFERS:
        raise UserError(f"this would simulate {count:,} transfers, {spoken(count)} of a core; at most "
                        f"{MOST_TRANSFERS:,} are simulated. Choose a larger message_bytes or chunk_bytes, a "
                        "smaller workload, fewer steps or fewer ranks.")
    return count
