"""What the DMA engine's benchmark measures: runs of the fast harness, and the figures made of them.

The memory answers L cycles after AR and L cycles after the last W beat, never pauses and has any bandwidth, as for the
peers in ``sim/bench_plot.py``. Every run checks every byte.
"""

from collections.abc import Callable

from sim.fast import Flow, Target

__all__ = ["UNALIGNED", "Bench", "jain"]

#: Bytes beyond alignment of source and destination.
UNALIGNED = (3, 17)
_LOADS = (0.5, 0.8, 0.9)
_LOAD_BYTES = 1024


def jain(shares):
    """Jain's fairness index: 1 where all shares are equal, 1/n where one has it all."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0


class Bench:
    """Measures one engine.

    Parameters
    ----------
    harness : :class:`sim.fast.Harness`
        Around the engine.
    queues : int
        Queues that are posted to, where a measurement does not say otherwise.
    seed : int
        Of all that is random.
    shifts : (int, int)
        Bytes by which source and destination miss alignment.
    """

    def __init__(self, harness, *, queues, seed=1, shifts=(0, 0)):
        self.harness, self.config, self.queues, self.seed = harness, harness.config, queues, seed
        self.shifts = tuple(shift % self.config.beat_bytes for shift in shifts)
        self.cycles, self.seconds = 0, 0.0

    def run(self, sizes, latencies, *, progress: Callable[[str], None] = lambda what: None):
        """Measure everything and return it as what ``--json`` writes."""
        results, singles, behind, load = [], [], [], []
        for latency in latencies:
            for size in sizes:
                progress(f"{size} B, latency {latency}")
                results.append(self.point(size, latency))
            progress(f"single requests, latency {latency}")
            singles.append(self.single(latency))
            behind.append(self.behind(latency))
            load += [self.load(latency, share) for share in _LOADS]
        progress("fairness")
        fairness = self.fairness(latencies[-1])
        return {
            "data_width": self.config.data_width, "queues": self.queues, "seed": self.seed,
            "source_shift": self.shifts[0], "destination_shift": self.shifts[1],
            "results": results, "single": singles[-1], "single_by_latency": singles,
            "behind": behind, "load": load, "fairness": fairness,
            "cycles": self.cycles, "cycles_per_second": round(self.cycles / max(self.seconds, 1e-9)),
        }

    @staticmethod
    def steps(sizes, latencies):
        """How often :meth:`run` tells its progress."""
        return len(latencies) * (len(sizes) + 1) + 1

    def point(self, size, latency):
        """Share of the bus with requests of one size.

        Once with all queues kept full, and once by threads that post only what they know to fit, because they have
        seen SC; that is bounded by words per queue times queues over the time until SC is seen.
        """
        full = self._run([self._full(size, latency, self.queues)], latency, warmup=6 * latency + 3000, window=12000)
        window = full["window"]
        depth = self._thread_depth(size, latency)
        rounds = 2 * self.queues * depth * self._beats(size)
        closed = self._run([self._flow(size, count=self.queues, depth=depth)], latency, warmup=6 * latency + 3000,
                           window=min(max(12000, rounds), 150_000))
        return {
            "size": size, "latency": latency, "queues": self.queues,
            "bus_share": self._share(window),
            "read_share": round(window["read_beats"] / window["cycles"], 4),
            "completion_share": round(window["completion_words"] / window["cycles"], 4),
            "requests_per_cycle": round(window["payload_bytes"] / size / window["cycles"], 4),
            "closed_loop": {"depth": depth, "bus_share": self._share(closed["window"]), **closed["latency"]},
        }

    def single(self, latency, size=64):
        """One request in an idle engine. Cycles start with the doorbell's W handshake."""
        request, = self._run([self._flow(size, requests=1)], latency)["requests"]
        return {
            "latency": latency, "size": size,
            "doorbell_to_first_ar": request["to_read"],
            "doorbell_to_done": request["to_done"],
            "overhead": request["to_done"] - 2 * latency - self._beats(size),
            "done_to_rc": request["done_to_rc"],
            "done_to_sc": request["done_to_sc"],
            "doorbell_to_seen": request["to_seen"],
        }

    def behind(self, latency, small=64, large=65536):
        """A small request right behind a large one on another queue; and one among queues full of large ones."""
        result = self._run([self._flow(large, requests=1), self._flow(small, first=1, requests=1, start=1)], latency)
        alone = next(request for request in result["requests"] if request["queue"] == 1)
        begin = 6 * latency + 3000
        others = self.queues - 1
        busy = self._run([self._full(large, latency, others),
                          self._flow(small, first=others, requests=1, start=begin)], latency, warmup=begin + 1)
        among = next(request for request in busy["requests"] if request["queue"] == others)
        return {"latency": latency, "small": small, "large": large, "done": alone["to_done"], "seen": alone["to_seen"],
                "bound": 2 * latency + 100, "among": others, "done_among": among["to_done"],
                "seen_among": among["to_seen"]}

    def load(self, latency, share, size=_LOAD_BYTES):
        """Latency where requests come evenly and ask for ``share`` of the bus."""
        flow = self._flow(size, count=self.queues, depth=self.config.queue_depth,
                          rate=share * self.config.beat_bytes / size)
        result = self._run([flow], latency, warmup=6 * latency + 3000, window=20000)
        return {"latency": latency, "size": size, "asked": share, "bus_share": self._share(result["window"]),
                **result["latency"]}

    def fairness(self, latency, size=1024):
        """Jain's index over the bytes written for each of the engine's queues, all of them full."""
        count = self.config.queues
        result = self._run([self._full(size, latency, count)], latency, warmup=6 * latency + 20000, window=40000)
        shares = list(result["queue_bytes"].values())
        return {"queues": count, "size": size, "latency": latency, "jain": round(jain(shares), 5),
                "least": min(shares), "most": max(shares), "bus_share": self._share(result["window"])}

    def _run(self, flows, latency, **options):
        target = Target(read_latency=latency, write_latency=latency)
        result = self.harness.run(flows, [target], seed=self.seed, **options)
        self.cycles += result["cycles"]
        self.seconds += result["seconds"]
        return result

    def _flow(self, size, **options):
        return Flow(size=size, source_shift=self.shifts[0], destination_shift=self.shifts[1], **options)

    def _full(self, size, latency, count):
        """Requests enough that no queue ever runs empty, in the engine and on the way."""
        config = self.config
        waiting = 2 if size >= 8192 else min(config.queue_depth, 32)
        in_flight = 2 + -(-config.window * config.segment_bytes // size)
        unseen = -(-(6 * latency + 2000) * config.beat_bytes // size)
        depth = waiting + min(8 * config.window, in_flight + unseen)
        return self._flow(size, count=count, waiting=waiting, depth=depth)

    def _thread_depth(self, size, latency):
        """Words that threads keep posted per queue: enough for the round trip if the queue holds as many."""
        cycles = 2 * (3 * latency + 200)
        return min(self.config.queue_depth, 1 + -(-cycles // (self.queues * self._beats(size))))

    def _beats(self, size):
        return -(-(self.shifts[1] + size) // self.config.beat_bytes)

    def _share(self, window):
        return round(window["payload_bytes"] / window["cycles"] / self.config.beat_bytes, 4)
