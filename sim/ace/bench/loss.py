"""Throughput over the share of packets that links lose."""

from rich.table import Table

from sim.ace.faults import Faults, counted

__all__ = ["RATES", "cases", "show"]

RATES = (0, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2)


def cases(bench, shape, size, *, rates=RATES):
    """``(note, case)`` for each share of packets; ``case()`` is a row."""
    for rate in rates:
        yield f"loss of {rate:g}", lambda rate=rate: _point(bench, shape, size, rate)


def _point(bench, shape, size, rate):
    found = bench.run(shape, size, faults=Faults(loss=rate))
    return {"nodes": list(shape), "bytes": size, "loss": rate, "cycles": found["cycles"],
            "bound_share": round(max(bench.bound(shape, size)) / found["cycles"], 4),
            "lost_packets": counted(found)["lost"], "payload_bytes": sum(link["payload_bytes"]
                                                                         for link in found["links"])}


def show(result, console):
    table = Table(title="Links that lose packets")
    for name in ("share lost", "packets lost", "cycles", "share of the bound", "bytes sent, over those without loss"):
        table.add_column(name, justify="right")
    least = result["loss"][0]["payload_bytes"]
    for row in result["loss"]:
        table.add_row(f"{row['loss']:g}", f"{row['lost_packets']:,}", f"{row['cycles']:,}", f"{row['bound_share']:.3f}",
                      f"{row['payload_bytes'] / least:.3f}")
    console.print(table)
