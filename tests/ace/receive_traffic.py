# SPDX-License-Identifier: Apache-2.0
"""Packets for Receive in several configurations, and a reader that reads each range as soon as it is reported."""

import os
import random
from collections import Counter, deque
from dataclasses import replace

import cocotb

from hw.ace.communicator_status import CommunicatorStatusSignature
from hw.ace.config import TINY
from hw.ace.layouts import (
    PacketKind,
    abort_layout,
    destination_layout,
    flit_layout,
    grant_layout,
    landed_layout,
    packet_layout,
)
from hw.ace.numerics.formats import DType, Op
from hw.ace.receive import LANDED_EARLY, lookup_layout, receive_latency, received_grant_layout
from hw.ace.sram import longest_stall, write_latency
from tests.ace.receive_packets import Packet, combined, flit
from tests.ace.streams import Source, bits, random_fields, reset, run, unpack
from tests.ace.timing import ecp5

__all__ = ["AHEAD", "CONFIGS", "LinkSource", "ReceiveTraffic"]

SMALL = replace(TINY, fsms=8, slots=16, chunk_bytes=1024, packet_bytes=128, communicators=8)
CONFIGS = {"whole": SMALL, "quarters": replace(SMALL, data_width=128, lanes=1),
           "ecp5": ecp5(SMALL), "two": replace(SMALL, pipes=2), "four": replace(SMALL, pipes=4)}
AHEAD = {"whole": True, "quarters": False, "ecp5": True, "two": True, "four": True}
"""Packets are reported with their first beat."""


class LinkSource(Source):
    """A link's port: the beats of a packet follow each other without gaps."""

    def drive(self):
        stalls = self.stalls
        first = flit_layout(CONFIGS[os.environ["CONFIG"]])["first"].offset
        if self.items and not self.items[0] >> first & 1:
            self.stalls = lambda: False
        super().drive()
        self.stalls = stalls


class ReceiveTraffic:
    """Chunks of eight FSMs, each of which receives at one port; packets and their expected effects.

    The range of a packet is not used again until it has been read back.
    """

    def __init__(self, dut, *, stalls="none", conflicts=False):
        self.dut, self.config = dut, CONFIGS[os.environ["CONFIG"]]
        self.rng = rng = random.Random(cocotb.RANDOM_SEED)
        self.conflicts, self.repeated = conflicts, False
        self.cycle = 0
        slots = rng.sample(range(self.config.slots), self.config.fsms)
        self.chunks = {}        # communicator and sequence -> FSM, slot and operation
        while len(self.chunks) < 4 * self.config.fsms:
            fsm = len(self.chunks) % self.config.fsms
            self.chunks[rng.randrange(self.config.communicators - 1), rng.getrandbits(16)] = {
                "fsm": fsm, "slot": slots[fsm], "arithmetic": {"dtype": rng.choice(list(DType)),
                                                               "op": rng.choice(list(Op))}}
        self.epochs = [rng.randrange(16) for _ in range(self.config.communicators)]
        self.closed = 1 << self.config.communicators - 1
        self.contents = {}
        self.ports = [(LinkSource if port < self.config.ports else Source)(
            dut, f"ports__{port}", stalls=stalls, seed=cocotb.RANDOM_SEED) for port in range(self.config.ports + 1)]
        self.coming = [deque() for _ in range(self.config.fsms)]
        self.arriving = {}      # packets of which a first beat was reported: by FSM
        self.late, self.begun = Counter(), None
        self.busy = set()
        self.to_fill, self.to_read, self.responses, self.fresh = deque(), deque(), {}, []
        self.unused = sorted(set(range(self.config.slots)) - set(slots))
        self.stalling = stalls != "none"
        self.filling = self.reading = None
        self.grants, self.reported = Counter(), Counter()
        self.grant_lsb = received_grant_layout(self.config)["grant"].offset
        self.destinations, self.landed, self.faults, self.expected_faults = [0] * self.config.pipes, [], 0, 0
        self.stale, self.expected_stale, self.aborts = 0, 0, Counter()
        self.written = Counter()

    @property
    def actors(self):
        return [*self.ports, self]

    async def start(self):
        """Fill the whole SRAM with random data."""
        for name in ("fill", "reads"):
            getattr(self.dut, f"{name}__valid").value = 0
        await reset(self.dut)
        self.to_fill.extend((address, self.rng.getrandbits(self.config.data_width))
                            for address in range(self.config.sram_beats))
        await run(self.dut, self.actors, until=lambda: not self.to_fill)
        end = self.cycle + write_latency(self.config) + 1
        await run(self.dut, self.actors, until=lambda: self.cycle >= end)

    async def finish(self):
        """Wait until all is done, and check the whole SRAM."""
        def done():
            return not (any(port.items for port in self.ports) or any(self.coming) or self.arriving or self.to_read
                        or self.responses or self.fresh)

        await run(self.dut, self.actors, until=done)
        # GRANTs and ABORTs that came last are reported some cycles later.
        end = self.cycle + receive_latency(self.config) + longest_stall(self.config)
        await run(self.dut, self.actors, until=lambda: self.cycle >= end)
        assert self.grants == self.reported
        assert self.faults == self.expected_faults and self.stale == self.expected_stale
        self.conflicts = False
        end = self.cycle + write_latency(self.config)
        await run(self.dut, self.actors, until=lambda: self.cycle >= end and self.filling is None)
        self.to_read.extend((address, True) for address in range(self.config.sram_beats))
        await run(self.dut, self.actors, until=done)

    # Packets to send

    def packet(self, port, **given):
        """Send a packet of an FSM that receives at this port, if its range is free now."""
        rng, config = self.rng, self.config
        key = rng.choice([key for key, destination in self.chunks.items()
                          if destination["fsm"] % (config.ports + 1) == port])
        beats = given.get("beats") or rng.choice((1, 1, 2, rng.randint(1, config.packet_beats)))
        choice = {"beats": beats, "offset": rng.randint(0, config.chunk_beats - beats), "reduce": rng.randint(0, 1)}
        packet = Packet(rng, config, self.header(key), self.chunks[key], **choice | given)
        if self.busy.isdisjoint(packet.addresses):
            self.busy.update(packet.addresses)
            self.post(port, packet)
            return packet
        return None

    def post(self, port, packet):
        self.coming[packet.destination["fsm"]].append(packet)
        self.ports[port].items.extend(packet.flits)
        packet.port = port

    def beyond(self, port):
        """A packet that exceeds its slot, and is dropped."""
        beats = self.rng.randint(2, self.config.packet_beats)
        key, destination = self.rng.choice(list(self.chunks.items()))
        packet = Packet(self.rng, self.config, self.header(key), destination,
                         beats=beats, offset=self.config.chunk_beats - self.rng.randint(1, beats - 1), reduce=1)
        self.ports[port].items.extend(packet.flits)
        self.expected_faults += 1

    def header(self, key):
        communicator, sequence = key
        return {"communicator": communicator, "epoch": self.epochs[communicator], "sequence": sequence}

    def stale_packet(self, port):
        """A packet of another epoch, or of no open communicator: its kind does not matter."""
        rng, last = self.rng, self.config.communicators - 1
        communicator = rng.choice((rng.randrange(last), last, rng.randrange(last + 1, 16)))
        epoch = rng.randrange(16)
        if communicator < last:
            epoch = (self.epochs[communicator] + rng.randint(1, 15)) % 16
        kind = rng.choice((PacketKind.DATA, PacketKind.GRANT, PacketKind.ABORT))
        header = random_fields(rng, packet_layout(self.config), kind=kind, communicator=communicator, epoch=epoch)
        beats = rng.randint(1, self.config.packet_beats) if kind == PacketKind.DATA else 1
        self.ports[port].items.extend(
            flit(rng, self.config, 0, header, at == 0, at == beats - 1) for at in range(beats))
        self.expected_stale += 1

    def grant(self, port):
        header = random_fields(self.rng, packet_layout(self.config), kind=PacketKind.GRANT,
                               **self.header(self.rng.choice(list(self.chunks))))
        self.ports[port].items.append(flit(self.rng, self.config, 0, header, True, True))
        self.grants[bits(grant_layout(self.config), {name: header[name] for name, _ in grant_layout(self.config)})] += 1

    def abort(self, port):
        key = self.rng.choice(list(self.chunks))
        header = random_fields(self.rng, packet_layout(self.config), kind=PacketKind.ABORT, **self.header(key))
        record = self.rng.getrandbits(abort_layout()["record"].width)
        self.ports[port].items.append(flit(self.rng, self.config, record, header, True, True))
        self.grants["abort", key[0], record] += 1

    # Actions in a cycle

    def drive(self):
        dut = self.dut
        for pipe, destination in enumerate(self.destinations):
            getattr(dut, f"lookup__{pipe}__destination").value = destination
            for name in ("grants", "aborts"):
                getattr(dut, f"{name}__{pipe}__ready").value = int(not self.stalling or self.rng.random() < 0.7)
        self.to_read.extend((address, True) for cycle, address, _ in self.fresh if cycle <= self.cycle)
        self.fresh = [one for one in self.fresh if one[0] > self.cycle]
        dut.communicator_status__closed.value = self.closed
        dut.communicator_status__epochs.value = bits(
            CommunicatorStatusSignature(self.config).members["epochs"].shape, self.epochs)
        if self.filling is None and self.to_fill:
            self.filling = self.to_fill.popleft()
        elif self.filling is None and self.conflicts and self.rng.random() < 0.7:
            address = self.rng.choice(self.unused) * self.config.chunk_beats + self.rng.randrange(
                self.config.chunk_beats)
            self.filling = address, self.rng.getrandbits(self.config.data_width)
        dut.fill__valid.value = int(self.filling is not None)
        if self.filling is not None:
            dut.fill__address.value, dut.fill__data.value = self.filling
        if self.reading is None:
            if self.to_read:
                self.reading = self.to_read.popleft()
            elif self.conflicts:
                self.reading = self.rng.randrange(self.config.sram_beats), False
        dut.reads__valid.value = int(self.reading is not None)
        if self.reading is not None:
            dut.reads__address.value = self.reading[0]

    def sample(self, cycle):
        self.cycle += 1
        dut = self.dut
        if self.cycle in self.responses:
            address, word = self.responses.pop(self.cycle)
            got = int(dut.reads__data.value)
            assert got == word, f"{address:#x} holds {got:#x}, not {word:#x}"
            self.busy.discard(address)
        if self.reading is not None and dut.reads__ready.value:
            address, counts = self.reading
            if counts:
                self.responses[self.cycle + self.config.sram_latency] = address, self.contents[address]
            self.reading = None
        if self.filling is not None and dut.fill__ready.value:
            self.contents[self.filling[0]] = self.filling[1]
            self.filling = None
        for pipe in range(self.config.pipes):
            self._pipe(pipe)

    def _pipe(self, pipe):
        def port(name):
            return getattr(self.dut, name.replace(".", f"__{pipe}__", 1))

        if port("lookup.valid").value:
            looked_up = unpack(lookup_layout(), int(port("lookup.chunk").value))
            destination = self.chunks.get((looked_up["communicator"], looked_up["sequence"]))
            self.destinations[pipe] = bits(destination_layout(self.config), destination or random_fields(
                self.rng, destination_layout(self.config)))
        if port("grants.valid").value and port("grants.ready").value:
            self.reported[int(port("grants.payload").value) >> self.grant_lsb] += 1
        if port("landed.valid").value:
            self._land(unpack(landed_layout(self.config), int(port("landed.payload").value)))
        if port("aborts.valid").value and port("aborts.ready").value:
            came = unpack(abort_layout(), int(port("aborts.payload").value))
            record = int(port("aborts.payload").value) >> abort_layout()["record"].offset
            self.reported["abort", came["communicator"], record] += 1
        self.faults += int(port("counts.bad_packets").value)
        self.stale += int(port("counts.late_packets").value)
        self.written["reduced"] += int(port("counts.reduced_beats").value)
        self.written["copied"] += int(port("counts.copied_beats").value)

    def _land(self, landed):
        fsm = landed["fsm"]
        if landed["begin"]:
            assert fsm not in self.arriving, "A packet begins before the previous one has ended"
            packet = self.arriving[fsm] = self.coming[fsm].popleft()
            self.begun = self.cycle
            assert landed["beats"] == len(packet.payload) - 1
            assert (landed["odd"], landed["local"]) == (packet.port % 2, packet.port == self.config.local_port)
            assert (landed["final"], landed["odd_phase"]) == (packet.final, packet.odd_phase)
            for beat, (address, word) in enumerate(zip(packet.addresses, packet.payload, strict=True)):
                if packet.reduce:
                    word = combined(self.config, packet.destination["arithmetic"], self.contents[address], word)
                self.contents[address] = word
                if not self.repeated:
                    follows = 0 if landed["end"] else beat
                    self.fresh.append((self.cycle + LANDED_EARLY + follows, address, fsm))
        if landed["late"]:
            assert fsm in self.arriving and not landed["end"]
            self.late[fsm] += 1
            # A beat that would have been read ``LANDED_EARLY`` cycles from now, or later, is read a cycle later.
            self.fresh = [(cycle + (of == fsm and cycle >= self.cycle + LANDED_EARLY - 1), address, of)
                          for cycle, address, of in self.fresh]
        if landed["end"]:
            self.landed.append((self.cycle, self.arriving.pop(fsm)))
