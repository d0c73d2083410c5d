# SPDX-License-Identifier: Apache-2.0
"""Random operations on the trigger unit and on the golden model.

The model applies the operations of each source in their order, and those of different sources in the order in which
the table takes them. Each verdict, response, posted word, refusal and count is compared.
"""

import random
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, NamedTuple

from hw.triggers.config import COUNTERS_PER_BLOCK, TriggerConfig
from hw.triggers.layouts import RowLayout
from hw.triggers.model import Firing, RefusedOperation, TriggerModel, halves
from hw.triggers.words import Mode, Refusal
from sim.triggers.bench import Event, Rates, Row, TriggerBench, build_bench
from sim.triggers.probed import SOURCES
from sim.triggers.traffic import Operation, TriggerTraffic, random_rates
from sim.verilator.program import Program

__all__ = ["Mismatch", "TriggerComparison", "compare"]

_STORES, _CHAIN, _LOCAL, _REMOTE, _CLEAR, _READ = range(len(SOURCES))
_PHASE, _LIMIT, _DRAIN = 200, 20_000, 6_000
"""Items of stimulus of a phase, its most cycles, and the cycles in which everything ends."""


class Mismatch(Exception):
    """The unit and the model differ."""


class _Post(NamedTuple):
    """A word that is to be posted."""

    page: int
    word: int
    firing: Firing


class TriggerComparison:
    """The model, and the events that the unit must show next.

    Parameters
    ----------
    config : TriggerConfig
    traffic : TriggerTraffic
    """

    def __init__(self, config: TriggerConfig, traffic: TriggerTraffic) -> None:
        self.config, self.traffic = config, traffic
        self.model = TriggerModel(config)
        self.codes: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self._chains: deque[Operation] = deque()
        self._posts: deque[_Post] = deque()
        self._responses: deque[tuple[int, bool]] = deque()
        self._ports: tuple[deque[int], deque[int]] = deque(), deque()
        #: Refusals of operations and of firings that are not yet reported.
        self._refusals: tuple[deque[RefusedOperation], deque[RefusedOperation]] = deque(), deque()
        self._busy = 0
        self._selected = -1
        self._read: tuple[int, int] = -1, 0
        self._burst_refused = False

    def apply(self, row: Row) -> None:
        """Compare one event. Raises :class:`Mismatch`."""
        kind, detail, low, high = row
        if kind == Event.VERDICT:
            self._verdict(detail & 0xFF, detail >> 8 & 0xFF, detail >> 16, low)
        elif kind == Event.LEFT:
            self._left(detail)
        elif kind == Event.POSTED:
            self._posted(detail, low | high << 64)
        elif kind == Event.RESPONSE:
            self._same("the response", self._next(self._responses, "a response"), (detail & 0xFF, detail >> 8 != 0))
        elif kind == Event.PORT:
            code = self._next(self._ports[detail & 1], "a verdict")
            self._same(f"the verdict at port {SOURCES[_LOCAL + (detail & 1)]}", code, detail >> 8)
        elif kind == Event.REFUSAL:
            self._reported(RefusedOperation(detail & 0xFF, detail >> 8 & 0xFF, Refusal(detail >> 16)), low)
        elif kind == Event.BUSY:
            self._resets(low)
        elif kind == Event.PAGES:
            self.model.pages[detail] = low | high << 64
            self.counts["pages"] += 1
        elif kind == Event.SELECTED:
            self._selected = detail
        elif kind == Event.ROW:
            self._same("the selected counter", self._selected, self._read[0])
            self._same("TRIGGER_STATE and TRIGGER_REMAINING", self._read[1], low)
            self.counts["reads"] += 1
        else:
            raise Mismatch(f"A word was posted to page {detail}, whose queue is full.")

    def finish(self, ticked: int, fired: int) -> None:
        """Compare the counts, and check that nothing is outstanding."""
        outstanding: list[tuple[str, deque[Any]]] = [
            *((SOURCES[source], self.traffic.operations[source]) for source in (_STORES, _LOCAL, _REMOTE)),
            ("chain", self._chains), ("posted words", self._posts), ("responses", self._responses),
            ("refusals of operations", self._refusals[0]), ("refusals of firings", self._refusals[1])]
        for name, items in outstanding:
            if items:
                raise Mismatch(f"{len(items)} of {name} are missing at the end; the first is {items[0]}.")
        for block in range(self.config.blocks):
            self._same(f"the pending firings of block {block}", self.model.queued(block), ())
        self._same("the number of ticks", self.model.ticked, ticked)
        self._same("the number of firings", self.model.fired, fired)

    def _verdict(self, source: int, code: int, counter: int, row: int) -> None:
        if source == _CLEAR:
            if not self._busy >> counter // COUNTERS_PER_BLOCK & 1:
                raise Mismatch(f"Counter {counter} was cleared without a reset.")
            return
        if source == _READ:
            self._read_row(counter, row)
            return
        operations = self._chains if source == _CHAIN else self.traffic.operations[source]
        operation = self._next(operations, f"an operation of {SOURCES[source]}")
        expected = self._operate(operation)
        self.codes[expected.name] += 1
        if code != expected:
            state = self.model.state(operation.block, counter % COUNTERS_PER_BLOCK)
            raise Mismatch(f"The verdict on {operation} of {SOURCES[source]} is {Refusal(code).name}, not "
                           f"{expected.name}; the model is then {state}.")
        if source == _STORES:
            self._burst_refused |= code != Refusal.NONE
            if operation.response >= 0:
                self._responses.append((operation.response, self._burst_refused))
                self._burst_refused = False
        elif source != _CHAIN:
            self._ports[source - _LOCAL].append(code)

    def _operate(self, operation: Operation) -> Refusal:
        block, offset, word, strobes, _ = operation
        if not strobes:
            return Refusal.NONE
        if offset < 0:
            code, counter = self.model.tick(block, word, strobes), word % COUNTERS_PER_BLOCK
        else:
            code, counter = self.model.store_slot(block, offset, word, strobes), offset // 64
        if code is not Refusal.NONE:
            self._refusals[0].append(RefusedOperation(block, counter, code))
        return code

    def _read_row(self, counter: int, row: int) -> None:
        block, index = divmod(counter, COUNTERS_PER_BLOCK)
        self._read = counter, row
        if self._busy >> block & 1:
            return
        shown, state = RowLayout.from_bits(row), self.model.state(block, index)
        fields = (shown["mode"], shown["due"], shown["generation"], shown["remaining"])
        if state.mode is Mode.DISARM:
            self._same(f"counter {counter}, mode and due", (state.mode, state.due), fields[:2])
        else:
            self._same(f"counter {counter}", (state.mode, state.due, state.generation, state.remaining), fields)

    def _left(self, counter: int) -> None:
        block, index = divmod(counter, COUNTERS_PER_BLOCK)
        queued = self.model.queued(block)
        if not queued or queued[0] != index:
            raise Mismatch(f"A firing of counter {index} of block {block} left, but the queue is {queued}.")
        firing = self.model.post(block)
        if firing.refusal is not Refusal.NONE:
            self._refusals[1].append(RefusedOperation(block, index, firing.refusal))
            self.codes[firing.refusal.name] += 1
        for word in firing.words:
            if firing.page == self.config.tick_page(block):
                self._chains.extend(Operation(block, -1, half, enabled) for half, enabled in halves(word))
            else:
                self._posts.append(_Post(firing.page, word, firing))

    def _posted(self, detail: int, word: int) -> None:
        post = self._next(self._posts, "a posted word")
        self._same(f"a word of {post.firing}", (post.page, post.word), (detail & 0xFF, word))
        if detail >> 9:
            raise Mismatch(f"A word for page {post.page} was posted to the other engine.")
        if detail >> 8:
            self.model.queue_refused(post.firing)
            self.codes[Refusal.QUEUE.name] += 1
            self._refusals[1].append(RefusedOperation(post.firing.block, post.firing.counter, Refusal.QUEUE))

    def _reported(self, found: RefusedOperation, count: int) -> None:
        """If an operation and a firing are refused in one cycle, the operation is shown."""
        operations, firings = self._refusals
        both = count == 2
        self._same("a refusal", self._next(operations if both or operations else firings, str(found)), found)
        if both:
            self._next(firings, "a refusal of a firing")

    def _resets(self, busy: int) -> None:
        for block in range(self.config.blocks):
            if busy & ~self._busy & 1 << block:
                self.model.begin_reset(block)
                self.counts["resets"] += 1
            if self._busy & ~busy & 1 << block:
                self.model.end_reset(block)
                if any(post.firing.block == block for post in self._posts):
                    raise Mismatch(f"The reset of block {block} ended before its last word was posted.")
        self._busy = busy

    @staticmethod
    def _next(items: deque[Any], name: str) -> Any:
        if not items:
            raise Mismatch(f"The unit shows {name}, which is not expected.")
        return items.popleft()

    @staticmethod
    def _same(name: str, expected: object, found: object) -> None:
        if expected != found:
            raise Mismatch(f"Difference in {name}: {found!r}, not {expected!r}.")


def compare(config: TriggerConfig, *, ticks: int, seed: int, program: Program | None = None,
            progress: Callable[[int, int], object] | None = None) -> dict[str, Any]:
    """Compare the unit with its model over N random ticks, and all that comes with them.

    Parameters
    ----------
    config : TriggerConfig
    ticks : int
        N, the least number.
    seed : int
    program : Program or None
        The bench, if it is not that of the unit as it is.
    progress : callable or None
        Receives the ticks and the firings so far.

    Returns
    -------
    dict
        ``ticks`` offered, ``firings``, ``cycles``, ``seconds``; ``codes``: operations and firings by their verdicts;
        ``resets``, ``pages``, ``reads``: numbers of settings; ``mismatches``, 0 or 1, and ``first_mismatches``:
        sentences. It ends at a mismatch.
    """
    rng = random.Random(seed)
    traffic = TriggerTraffic(config, rng)
    comparison = TriggerComparison(config, traffic)
    cycles, begun, sentences = 0, time.monotonic(), list[str]()
    with TriggerBench(program or build_bench(config), config, seed=rng.getrandbits(32),
                      capacity=rng.choice((4, 5, 8, 100))) as bench:
        bench.feed(traffic.all_pages())
        try:
            while traffic.ticks < ticks:
                traffic.begin_phase(comparison.model)
                rates = random_rates(rng)
                bench.set_rates(rates)
                bench.feed(traffic.items(_PHASE))
                bench.feed(traffic.settings(2000))
                cycles += bench.run(_LIMIT, 40)
                for event in bench.events():
                    comparison.apply(event)
                if progress:
                    progress(traffic.ticks, comparison.model.fired)
            bench.set_rates(Rates())
            for least in (1, 0):
                cycles += bench.run(_LIMIT * 10 if least else _DRAIN, least)
                for event in bench.events():
                    comparison.apply(event)
            comparison.finish(bench.ticked, bench.fired)
        except Mismatch as difference:
            sentences.append(f"Before cycle {cycles:,}: {difference}")
    return {"ticks": traffic.ticks, "firings": comparison.model.fired, "cycles": cycles,
            "seconds": round(time.monotonic() - begun, 1), "codes": dict(comparison.codes),
            **{name: comparison.counts[name] for name in ("resets", "pages", "reads")},
            "mismatches": len(sentences), "first_mismatches": sentences}
