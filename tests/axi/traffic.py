# SPDX-License-Identifier: Apache-2.0
"""Random legal AXI4 traffic of a manager and a subordinate, cycle by cycle."""

import random
from collections import defaultdict, deque

from hw.axi import Burst, Resp

__all__ = ["Traffic"]


class Traffic:
    """Writes whose data leads or lags the addresses, and reads whose beats interleave by ID.

    Parameters
    ----------
    bus : :class:`AxiSignature`
        Widths of the bus.
    bursts : int
        Number of writes, and of reads.
    busy : float
        Probability per cycle that a waiting item is offered, and that READY is high.

    Attributes
    ----------
    cycles : list of dict
        Values of the pins that are not 0.
    reads, writes : list of int
        Bursts outstanding after each cycle.
    """

    def __init__(self, seed, bus, *, bursts, busy=0.7):
        self._rng = random.Random(seed)
        self._bus = bus
        self._busy = busy
        writes = [self._burst() for _ in range(bursts)]
        self._waiting = {
            "aw": deque(writes),
            "w": deque(beat for burst in writes for beat in self._beats(burst)),
            "ar": deque(self._burst() for _ in range(bursts)),
        }
        self._offered = {}
        self._addresses = deque()  # accepted, data not complete
        self._data = 0  # complete write data, address not accepted
        self._responses = []  # IDs of complete writes without response
        self._beats_left = defaultdict(deque)  # ID -> beats left of each read burst
        self.cycles, self.reads, self.writes = [], [], []
        reads = writes = 0
        while (self._offered or self._responses or any(self._waiting.values())
               or any(self._beats_left.values())):
            pins, transfers = self._cycle()
            reads += ("ar" in transfers) - (transfers.get("r", {}).get("last", 0))
            writes += ("aw" in transfers) - ("b" in transfers)
            self.cycles.append(pins)
            self.reads.append(reads)
            self.writes.append(writes)

    def _burst(self):
        """A legal burst, often at the edge of a page."""
        rng = self._rng
        size = rng.randint(0, (self._bus.data_width // 8).bit_length() - 1)
        addr = 0x1000 * rng.randint(1, 15) + rng.randrange(-300, 300)
        most = 4096 // (1 << size) - (addr % 4096 >> size)
        beats = min(most, rng.choice([1, 1, 2, 3, 16, 256]))
        return dict(addr=addr, len=beats - 1, size=size, burst=Burst.INCR,
                    id=rng.randrange(1 << self._bus.id_width), cache=rng.choice([0, 1, 2, 3, 6, 15]),
                    prot=rng.randrange(8), qos=rng.randrange(16))

    def _beats(self, burst):
        """Write data of a burst, with some or all strobes of its lanes."""
        wide = self._bus.data_width // 8
        addr = burst["addr"]
        for beat in range(burst["len"] + 1):
            end = (addr >> burst["size"]) + 1 << burst["size"]
            lanes = sum(1 << byte % wide for byte in range(addr, end))
            yield dict(data=self._rng.getrandbits(self._bus.data_width), last=beat == burst["len"],
                       strb=lanes & self._rng.choice([-1, self._rng.getrandbits(wide)]))
            addr = end

    def _cycle(self):
        pins, transfers = {}, {}
        self._offer()
        for channel in ("aw", "w", "b", "ar", "r"):
            ready = self._rng.random() < self._busy
            pins[f"{channel}ready"] = ready
            if channel in self._offered:
                pins |= {channel + pin: value for pin, value in self._offered[channel].items()}
                pins[f"{channel}valid"] = 1
                if ready:
                    transfers[channel] = self._offered.pop(channel)
        self._account(transfers)
        return pins, transfers

    def _offer(self):
        """Offer items on idle channels."""
        rng = self._rng
        resp = rng.choice([Resp.OKAY, Resp.SLVERR, Resp.DECERR])
        idle = [channel for channel in ("aw", "w", "b", "ar", "r")
                if channel not in self._offered and rng.random() < self._busy]
        for channel in idle:
            if self._waiting.get(channel):
                self._offered[channel] = self._waiting[channel].popleft()
        if "b" in idle and self._responses:
            number = self._responses.pop(rng.randrange(len(self._responses)))
            self._offered["b"] = dict(id=number, resp=resp)
        numbers = [number for number, left in self._beats_left.items() if left]
        if "r" in idle and numbers:
            number = rng.choice(numbers)
            left = self._beats_left[number]
            left[0] -= 1
            self._offered["r"] = dict(id=number, resp=resp, last=left[0] == 0,
                                      data=rng.getrandbits(self._bus.data_width))
            if left[0] == 0:
                left.popleft()

    def _account(self, transfers):
        """Update the state by this cycle's transfers."""
        if "aw" in transfers:
            self._addresses.append(transfers["aw"]["id"])
        if "w" in transfers:
            self._data += transfers["w"]["last"]
        while self._addresses and self._data:
            self._responses.append(self._addresses.popleft())
            self._data -= 1
        if "ar" in transfers:
            self._beats_left[transfers["ar"]["id"]].append(transfers["ar"]["len"] + 1)
