"""The benchmark's plot: share of the bus over the size of requests, beside what other open engines reach."""

__all__ = ["PEERS", "draw"]

_PEER_SIZES = (64, 256, 1024, 4096, 65536)

#: (engine and commit, shares at latency 100, shares at latency 500) for requests of 64 B, 256 B, 1, 4 and 64 KiB;
#: measured by us with the same memory model: 512 bit, aligned, back to back. None of them has queues, protection
#: or completion words.
PEERS = (
    ("pulp-platform/iDMA 2e0b0fe, raw port, 256 in flight", (1.00, 1.00, 1.00, 1.00, 1.00),
     (0.29, 1.00, 1.00, 1.00, 1.00)),
    ("pulp-platform/iDMA 2e0b0fe, desc64, one bell each", (0.04, 0.16, 0.62, 1.00, 1.00),
     (0.01, 0.03, 0.13, 0.51, 1.00)),
    ("fpganinja/taxi 2f2fe72, dma_if (half a copy)", (0.50, 1.00, 1.00, 1.00, 1.00), (0.50, 1.00, 1.00, 1.00, 1.00)),
    ("alexforencich/verilog-axi, axi_cdma", (0.02, 0.07, 0.27, 0.76, 0.77), (0.004, 0.02, 0.06, 0.23, 0.23)),
    ("analogdevicesinc/hdl, axi_dmac", (0.02, 0.07, 0.27, 0.76, 1.00), (0.004, 0.02, 0.06, 0.23, 0.81)),
    ("ZipCPU/wb2axip, axidma", (0.005, 0.02, 0.07, 0.19, 0.37), (0.001, 0.004, 0.02, 0.06, 0.11)),
)
_PEER_LATENCIES = (100, 500)
_MARKERS = "s^DvP*"


def draw(result, path):
    """Write the plot of a result of :meth:`sim.bench.Bench.run` to ``path`` as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    latencies = list(dict.fromkeys(row["latency"] for row in result["results"]))
    figure, axes = pyplot.subplots(1, len(latencies), figsize=(1.5 + 4.2 * len(latencies), 6.2), sharey=True,
                                   squeeze=False)
    for axis, latency in zip(axes[0], latencies, strict=True):
        rows = sorted((row for row in result["results"] if row["latency"] == latency), key=lambda row: row["size"])
        sizes = [row["size"] for row in rows]
        axis.plot(sizes, [row["bus_share"] for row in rows], "o-", color="black", linewidth=2,
                  label=f"dmace {result.get('config', '')}, {result['queues']} queues, SC and RC on".replace(" ,", ","))
        axis.plot(sizes, [row["closed_loop"]["bus_share"] for row in rows], ".:", color="black",
                  label="the same, threads wait for SC before they post more")
        if latency in _PEER_LATENCIES:
            for (name, *shares), marker in zip(PEERS, _MARKERS, strict=True):
                axis.plot(_PEER_SIZES, shares[_PEER_LATENCIES.index(latency)], marker, alpha=0.8, label=name)
        axis.set_xscale("log", base=2)
        axis.set_title(f"memory latency {latency} cycles", fontsize=10)
        axis.set_xlabel("bytes per request")
        axis.set_ylim(0, 1.05)
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("share of the data bus")
    labels = {}
    for axis in axes[0]:
        labels |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    shifted = ", unaligned" if result["source_shift"] or result["destination_shift"] else ""
    figure.suptitle(f"Copies, {result['data_width']} bit{shifted} (other engines: 512 bit, aligned, same memory model)",
                    fontsize=11)
    figure.legend(labels.values(), labels.keys(), loc="lower center", ncols=min(2, len(latencies)), fontsize=8)
    figure.tight_layout(rect=(0, 0.06 + 0.03 * -(-len(labels) // min(2, len(latencies))), 1, 1))
    figure.savefig(path, dpi=120, metadata={"Software": None})
    pyplot.close(figure)
