# SPDX-License-Identifier: Apache-2.0
"""A large all-reduce: how often memory is read, how near to the links' bandwidth, and what is busy how long."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from rich.console import Console
from rich.table import Table

from hw.ace.config import WIRE_HEADER_BYTES, AceConfig
from sim.ace.bench.operating_points import bus_bandwidth
from sim.ace.bench.runner import Bench, Found
from sim.ace.bench.traffic import conventional_ratio, limit

__all__ = ["measure", "show", "summary"]


def measure(bench: Bench, shape: Sequence[int], size: int) -> dict[str, Any]:
    """Everything that is counted of one all-reduce, as ``--json`` has it."""
    return summary(bench.config, shape, size, bench.bound(shape, size),
                   bench.run(shape, size, timeline=True))


def summary(config: AceConfig, shape: Sequence[int], size: int, bounds: Sequence[float],
            found: Found) -> dict[str, Any]:
    """The same of what :meth:`Bench.run` found."""
    ranks, cycles, beat = prod(shape), found["cycles"], config.beat_bytes
    total = {name: sum(counters[name] for counters in found["counters"]) for name in found["counters"][0]}
    links = [[link for link in found["links"] if link["port"] // 2 == dimension] for dimension in range(len(shape))]
    payload, header, data = (sum(link[name] for link in found["links"])
                             for name in ("payload_bytes", "header_bytes", "data"))
    conventional = (2 * total["reduced_beats"] + total["copied_beats"]) * beat
    data_header = WIRE_HEADER_BYTES * data
    least, resource = limit(config, bounds, size)

    def busy(count: float) -> float:
        return round(count / ranks / cycles, 4)

    return {
        "cycles": cycles,
        "bound_cycles": round(least),
        "bound_by": resource,
        "bound_cycles_by_dimension": [round(part) for part in bounds],
        "bound_share": round(least / cycles, 4),
        "bus_bytes_per_cycle": round(bus_bandwidth(shape, size, cycles), 2),
        "memory_read_ratio": round(conventional / total["read_bytes"], 4),
        "memory_read_ratio_closed_form": round(conventional_ratio(shape), 4),
        "read_per_byte": round(total["read_bytes"] / ranks / size, 4),
        "written_per_byte": round(total["write_bytes"] / ranks / size, 4),
        "conventional_read_bytes": conventional,
        "counted": {
            "by": f"COUNT_* registers, sum of {ranks} endpoints",
            "read_bytes": total["read_bytes"], "write_bytes": total["write_bytes"],
            "reduced_bytes": total["reduced_beats"] * beat, "copied_bytes": total["copied_beats"] * beat,
            "sent_bytes": sum(total[f"sent_beats_{port}"] for port in range(config.ports)) * beat,
            "chunks": total["chunks"], "active_cycles": total["active_cycles"],
            "starved_cycles": total["starved_cycles"],
        },
        "witnesses": {
            "by": "the models of memories and links",
            "read_bytes": sum(memory["read_beats"] for memory in found["memories"]) * beat,
            "write_bytes": sum(memory["write_bytes"] for memory in found["memories"]),
            "payload_bytes": payload, "header_bytes": header, "data_packets": data,
            "grant_packets": sum(link["grants"] for link in found["links"]),
            "credit_packets": sum(link["credits"] for link in found["links"]),
        },
        "header_share": round(data_header / (data_header + payload), 4),
        "header_share_with_grants_and_credits": round(header / (header + payload), 4),
        "busy": {
            "links": [round(sum(link["busy"] for link in part) / len(part) / cycles, 4) if part else 0.0
                      for part in links],
            "receive": busy(total["reduced_beats"] + total["copied_beats"]),
            "transmit": busy(sum(total[f"sent_beats_{port}"] for port in range(config.ports))),
            "memory_read": busy(total["read_bytes"] / beat),
            "memory_write": busy(total["write_bytes"] / beat),
        },
        **({"links_over_time": found["timeline"]} if "timeline" in found else {}),
    }


def show(result: Mapping[str, Any], console: Console) -> None:
    ratio, closed = result["memory_read_ratio"], result["memory_read_ratio_closed_form"]
    console.print(f"Memory is read {ratio:.2f} times less than by an endpoint with partial sums in memory "
                  f"(closed form {closed:.2f}): {result['read_per_byte']:.2f} bytes read and "
                  f"{result['written_per_byte']:.2f} written for each of the buffer.", highlight=False)
    console.print(f"{result['cycles']:,} cycles, {result['bound_share']:.3f} of what the bandwidth of the "
                  f"{result['bound_by']} allows ({result['bound_cycles']:,}). Headers of data are "
                  f"{result['header_share']:.3f} of what links carry; with GRANTs and credits "
                  f"{result['header_share_with_grants_and_credits']:.3f}.",
                  highlight=False)
    table = Table(title="Share of cycles in which it is busy")
    table.add_column("what")
    table.add_column("busy", justify="right")
    for dimension, share in enumerate(result["busy"]["links"]):
        table.add_row(f"links of dimension {dimension}", f"{share:.3f}")
    for name in ("receive", "transmit", "memory_read", "memory_write"):
        table.add_row(name.replace("_", " "), f"{result['busy'][name]:.3f}")
    console.print(table)
