# SPDX-License-Identifier: Apache-2.0
"""The requester transport, its buffers, a network and a peer for each queue pair, with the rules that always hold."""

import random
from collections import deque
from dataclasses import dataclass, field

from hw.rdma.fault import Fault
from hw.rdma.protocol import Opcode
from tests.rdma.peer import Network, Packet, Peer
from tests.rdma.requester_bench import Event, Stimulus, TransportBench

__all__ = ["World"]

_MASK = (1 << 24) - 1


@dataclass
class Stored:
    """A posted packet."""

    qp: int
    read: bool
    length: int
    tag: int
    psn: int
    epoch: int
    sent: int = 0
    beats: int = 0
    complete: bool = False
    response: float = float("inf")
    """Cycle in which the first response to a READ arrives."""


@dataclass
class Pair:
    """A queue pair: packets that have not retired, oldest first."""

    peer: Peer
    settings: dict
    next_psn: int
    epoch: int = 0
    open: bool = True
    failing: bool = False
    faults: list = field(default_factory=list)
    outstanding: deque = field(default_factory=deque)
    reads: deque = field(default_factory=deque)
    """READs among them."""
    highest: int = 0
    """PSN after the highest one that was sent."""
    retired: int = 0
    failed: int = 0
    sends: list = field(default_factory=list)
    """Cycle, PSN and repetition of each packet sent."""
    retirements: list = field(default_factory=list)


class World:
    """Call :meth:`open`, :meth:`post` and :meth:`run`; each event is checked.

    ``latency``: cycles in each direction. Posts that find no free packet wait.
    """

    def __init__(self, config, *, seed, latency=60, loss=0.0, duplicate=0.0, reorder=0.0, jitter=100, delay=1, **bench):
        self.config, self.rng = config, random.Random(seed)
        self.bench = TransportBench(config, seed=seed, **bench)
        faults = {"loss": loss, "duplicate": duplicate, "reorder": reorder, "jitter": jitter}
        self.forward = Network(self.rng, latency=latency, **faults)
        self.backward = Network(self.rng, latency=latency, **faults)
        self.chunk = latency
        self.free = deque(range(config.packets))
        self.rng.shuffle(self.free)
        self.packets = {}
        self.pairs = {}
        self.backlog = {}
        self.tags = 1
        self.delay = delay
        self.bench.run(2 * config.sweep_rows)

    @property
    def cycle(self):
        return self.bench.cycle

    def open(self, qp, *, psn=None, settle=100, **settings):
        psn = self.rng.randrange(1 << 24) if psn is None else psn
        settings = {"timeout": 4, "retries": 7, "rnr_retries": 7, "max_reads": 15, "selective": 0,
                    "congestion": 0} | settings
        before = self.pairs.get(qp)
        assert before is None or not before.outstanding
        self.pairs[qp] = Pair(Peer(psn, selective=bool(settings["selective"])), settings, psn, highest=psn,
                              epoch=before.epoch + 1 if before else 0)
        self.bench.feed(Stimulus.CONNECTION, self.cycle, qp, 1, psn, *settings.values())
        if settle:
            self.run(settle)

    def close(self, qp):
        self._fail(qp)
        self.bench.feed(Stimulus.CONNECTION, self.cycle, qp, 0)

    def stop(self, qp):
        self._fail(qp)
        self.bench.feed(Stimulus.STOP, self.cycle, qp)

    def notify(self, qp):
        self.bench.feed(Stimulus.NOTIFIED, self.cycle, qp)

    def _fail(self, qp):
        if qp in self.pairs:
            self.pairs[qp].failing = True

    def post(self, qp, *, read=False, length=None, cost=1, count=1):
        for _ in range(count):
            size = 0 if not read else length or self.rng.randint(1, 64)
            self.backlog.setdefault(qp, deque()).append((read, size, cost))

    def waiting(self, qp=None):
        """Packets that are posted, or wait to be, and have not retired."""
        chosen = self.pairs if qp is None else [qp]
        return sum(len(self.pairs[one].outstanding) + len(self.backlog.get(one, ())) for one in chosen)

    def run(self, cycles):
        end = self.cycle + cycles
        while self.cycle < end:
            self._feed()
            for event in self.bench.run(min(self.chunk, end - self.cycle)):
                getattr(self, f"_{Event(event[0]).name.lower()}")(*event[1:])
            for cycle, packet in self.forward.take(self.cycle):
                pair = self.pairs[packet.qp]
                if packet.epoch == pair.epoch:
                    for response in pair.peer.take(packet):
                        self.backward.put(cycle, response)
            for cycle, response in self.backward.take(self.cycle + self.chunk):
                self.respond(response, cycle)

    def drain(self, limit=200_000, qp=None):
        end = self.cycle + limit
        while self.waiting(qp):
            assert self.cycle < end, f"{self.waiting(qp)} packets have not retired"
            self.run(self.chunk)
        self.run(2 * self.chunk)

    def respond(self, response, cycle=None):
        """A response arrives."""
        cycle = self.cycle if cycle is None else cycle
        for stored in self.pairs[response.qp].reads:
            if response.opcode != Opcode.ACKNOWLEDGE and stored.psn == response.psn:
                stored.response = min(stored.response, cycle)
        self.bench.feed(Stimulus.RECEIVED, cycle, response.qp, response.opcode, response.psn, response.syndrome,
                        response.msn, response.length, response.tag)

    def _feed(self):
        """Post what finds a free packet, queue pairs in turn."""
        some = True
        while some and self.free:
            some = False
            for qp, queue in self.backlog.items():
                if queue and self.free:
                    some = True
                    read, length, cost = queue.popleft()
                    index, pair = self.free.popleft(), self.pairs[qp]
                    stored = Stored(qp, read, length, self.tags, pair.next_psn, pair.epoch)
                    self.tags += 1
                    pair.next_psn = pair.next_psn + 1 & _MASK
                    self.packets[index] = stored
                    pair.outstanding.append(index)
                    if read:
                        pair.reads.append(stored)
                    self.bench.feed(Stimulus.POSTED, self.cycle, qp, index, read, length, cost)

    def _taken(self, cycle, *event):
        pass

    def _send(self, cycle, index, psn, ackreq, *_):
        assert index in self.packets, f"packet {index} is sent after it has retired"
        stored = self.packets[index]
        pair = self.pairs[stored.qp]
        assert psn == stored.psn
        if not stored.sent:
            assert psn == pair.highest, "new packets are sent in order"
            pair.highest = psn + 1 & _MASK
        assert ackreq or not (stored.sent or psn & 7 == 7)
        assert psn - pair.peer.expected + (1 << 23) & _MASK < (1 << 23) + self.config.window
        stored.sent += 1
        assert sum(bool(one.sent) and one.response > cycle for one in pair.reads) <= pair.settings["max_reads"] + 1
        pair.sends.append((cycle, psn, stored.sent > 1))
        self.forward.put(cycle, Packet(stored.qp, psn, index, bool(ackreq), stored.read, stored.length, stored.tag,
                                       stored.epoch))

    def _retire(self, cycle, index, failed, *_):
        stored = self.packets.pop(index)
        pair = self.pairs[stored.qp]
        assert pair.outstanding.popleft() == index, "packets retire in order"
        if failed:
            assert pair.failing or not pair.open, "a packet fails without a fault"
            pair.failed += 1
        else:
            assert stored.sent and (pair.peer.expected - stored.psn - 1 & _MASK) < 1 << 23, "it was not executed"
            assert stored.complete or not stored.read
            assert not pair.failed, "a packet succeeds after one has failed"
            pair.retired += 1
        if stored.read:
            assert pair.reads.popleft() is stored
        pair.retirements.append((cycle, failed))
        self.free.append(index)

    def _returned(self, cycle, index, data, first, last, *_):
        stored = self.packets[index]
        pair = self.pairs[stored.qp]
        assert stored.read and stored.sent and not stored.complete
        assert stored is next(one for one in pair.reads if not one.complete), "READs are delivered in order"
        assert data == (stored.tag << 16 | stored.beats) and first == (stored.beats == 0)
        stored.beats += 1
        assert last == (stored.beats == -(-stored.length // 8))
        stored.complete = bool(last)

    def _fault(self, cycle, qp, code, *_):
        pair = self.pairs[qp]
        assert not pair.faults, "a second fault"
        pair.faults.append((cycle, Fault(code)))
        pair.failing = True
