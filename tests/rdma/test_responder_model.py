# SPDX-License-Identifier: Apache-2.0
"""Random and hostile requests, one of each queue pair at a time, compared with the model."""

import random
from dataclasses import replace

import pytest

from hw.rdma.config import TINY
from hw.rdma.protocol import Opcode
from tests.rdma.responder_bench import Pace, Request, run_bench
from tests.rdma.responder_model import WRAP, Connection, Region, ResponderModel

WRITES = (Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, Opcode.WRITE_LAST, Opcode.WRITE_LAST_IMM, Opcode.WRITE_ONLY,
          Opcode.WRITE_ONLY_IMM)
TOP = 1 << 64
RINGS = 0x90_0000


class _Comparison:
    """The bench and the model with the same regions and connections."""

    def __init__(self, bench, rng):
        self.bench, self.rng = bench, rng
        self.model = ResponderModel(bench.config.window, {})
        self.compared = 0

    async def region(self, number, **fields):
        region = Region(**fields)
        self.model.regions[number] = region
        await self.bench.region(number, **vars(region))

    async def regions(self):
        """Regions at both ends of the address space, without one right each, of other domains, and two neighbours."""
        rng = self.rng
        for number, (address, va, length, fields) in enumerate((
                (0x1_0003, 0x7000_0000_0000, 14000, {}), (0x2_0000, TOP - 9192, 9192, {}),
                (0x3_0FF0, 0, 3000, {"readable": False}), (0x4_0001, 0x1000, 3000, {"writable": False}),
                (0x5_0000, 0x1000, 3000, {"domain": 9}), (0x6_0000, 0x1000, 3000, {"valid": False}))):
            content = rng.randbytes(length)
            if fields.get("valid", True):
                self.bench.memory.allow(address, content)
                self.model.memory.update(enumerate(content, address))
            await self.region(number, **{"key": 0x50 + number, "domain": 3, "va": va, "length": length,
                                         "address": address, **fields})

    async def open(self, qp, **fields):
        connection = Connection(**{"expected": self.rng.choice((0, WRAP - 3, self.rng.randrange(WRAP))),
                                   "domain": 3, "qpn": self.rng.getrandbits(24), **fields})
        self.model.connections[qp] = connection
        ring = {} if connection.ring is None else {
            "ring": 1, "ring_base": connection.ring, "ring_bits": connection.ring_bits}
        await self.bench.open(
            qp, receive_psn=connection.expected, mtu=connection.mtu.bit_length() - 9, domain=connection.domain,
            qpn=connection.qpn, remote_write=connection.write, remote_read=connection.read,
            selective=connection.selective, rnr_timer=connection.rnr_timer, **ring)

    async def compare(self, requests):
        """Send one request of each queue pair, wait, and compare responses, faults and memory."""
        bench, expected, self.model.faults = self.bench, {}, []
        for request in requests:
            assert request.qp not in expected
            expected[request.qp] = self.model.request(request)
            bench.send(request)
        bench.replies.clear()
        bench.faults.clear()
        await bench.drain(45)
        for request in requests:
            found = [reply for reply in bench.replies if reply.qp == request.qp]
            assert found == expected[request.qp], f"{request}: {found} instead of {expected[request.qp]}"
        assert sorted(bench.faults) == sorted(self.model.faults), requests
        assert bench.memory.content == self.model.memory, requests
        self.compared += len(requests)

    def independent(self, requests):
        """Those of the requests that do not use a byte of an earlier one."""
        used, kept = [], []
        for request in requests:
            message = self.model.connections[request.qp].message or {}
            ends = {(va, va + max(total, len(request.payload))) for va, total in (
                (request.va, request.dma_length), (message.get("va", 0), message.get("total", 0)))}
            if not any(first < end and start < last for first, last in ends for start, end in used):
                kept.append(request)
            used += ends
        return kept

    def request(self, qp):
        """A likely request: mostly correct, with one or two wrong fields at times."""
        rng, connection = self.rng, self.model.connections[qp]
        if connection.message:
            message = connection.message
            remaining = message["total"] - message["done"]
            last = remaining <= connection.mtu
            op = rng.choice((Opcode.WRITE_LAST, Opcode.WRITE_LAST_IMM)) if last else Opcode.WRITE_MIDDLE
            return self._spoil(Request(qp, op, connection.expected, rng.randbytes(min(remaining, connection.mtu)),
                                       rng.getrandbits(1), imm=rng.getrandbits(32)))
        number = rng.choice((0, 0, 1, 2 if rng.random() < 0.6 else 3))
        region = self.model.regions[number]
        size = rng.choice((0, 1, 8, rng.randrange(1, 300), connection.mtu, connection.mtu + 1, 3 * connection.mtu,
                           rng.randrange(1, 1500)))
        offset = rng.choice((0, region.length - size, rng.randrange(max(1, region.length - size))))
        fields = {"va": (region.va + offset) % TOP, "rkey": number << 8 | region.key, "dma_length": size,
                  "ackreq": rng.getrandbits(1), "imm": rng.getrandbits(32)}
        if rng.random() < 0.35:
            return self._spoil(Request(qp, Opcode.READ_REQUEST, connection.expected, **fields))
        if size > connection.mtu:
            return self._spoil(Request(qp, Opcode.WRITE_FIRST, connection.expected, rng.randbytes(connection.mtu),
                                       **fields))
        op = rng.choice((Opcode.WRITE_ONLY, Opcode.WRITE_ONLY, Opcode.WRITE_ONLY_IMM))
        return self._spoil(Request(qp, op, connection.expected, rng.randbytes(size), **fields))

    def _spoil(self, request):
        rng, mtu = self.rng, self.model.connections[request.qp].mtu
        chance = rng.random()
        if chance < 0.6:
            return request
        if chance < 0.85:       # another PSN
            near = rng.choice((-1, -2, 1, 2, 3, 5, 15, 16, 17, -20, WRAP // 2, WRAP // 2 - 1, rng.randrange(WRAP)))
            return replace(request, psn=(request.psn + near) % WRAP)
        wrong = rng.choice((
            {"opcode": rng.choice((*WRITES, Opcode.READ_REQUEST, Opcode.SEND_ONLY, Opcode.SEND_LAST_IMM))},
            {"rkey": request.rkey ^ 1 << rng.randrange(32)}, {"va": request.va ^ 1 << rng.randrange(64)},
            {"dma_length": rng.choice((request.dma_length + 1, request.dma_length ^ 1 << rng.randrange(32),
                                       0xFFFF_FFFF, (1 << 31) + 1))},
            {"va": TOP - 1, "dma_length": 0xFFFF_FFFF}, {"payload": request.payload[:-1]},
            {"payload": rng.randbytes(rng.choice((1, mtu, mtu + 1)))},
            {"rkey": rng.randrange(6) << 8 | request.rkey & 0xFF}, {"rkey": 4 << 8 | 0x54, "va": 0x1000},
            {"rkey": 5 << 8 | 0x55, "va": 0x1000}))
        return replace(request, **wrong)


async def _random(bench, rng, rounds):
    both = _Comparison(bench, rng)
    await both.regions()
    for qp in range(bench.config.queue_pairs):
        bench.memory.allow(RINGS + 0x100 * qp, bytes(0x100))
        both.model.memory.update(dict.fromkeys(range(RINGS + 0x100 * qp, RINGS + 0x100 * (qp + 1)), 0))

    async def reopen(qp):
        await both.open(qp, **rng.choice((
            {"ring": RINGS + 0x100 * qp, "ring_bits": rng.randrange(4)}, {"rnr_timer": 13},
            {"mtu": 512, "ring": RINGS + 0x100 * qp, "ring_bits": 2}, {"selective": True},
            {"selective": True, "ring": RINGS + 0x100 * qp, "ring_bits": 4}, {"read": rng.random() < 0.5},
            {"write": rng.random() < 0.5})))

    for qp in range(bench.config.queue_pairs):
        await reopen(qp)
    for _ in range(rounds):
        await both.compare(both.independent(both.request(qp) for qp in range(bench.config.queue_pairs)))
        for qp, connection in both.model.connections.items():
            if not connection.alive and rng.random() < 0.5:
                assert not (await bench.status(qp))[0]
                await reopen(qp)
            elif connection.ring is not None and rng.random() < 0.1:
                connection.head = rng.choice((connection.records, max(connection.head, connection.records - 1)))
                await bench.take(qp, connection.head)
    await bench.drain()
    for qp, connection in both.model.connections.items():
        found = await bench.status(qp)
        assert found == (0, connection.expected, connection.messages % WRAP), f"{qp}: {found}, {connection}"


def test_random_requests(seed):
    rng = random.Random(seed)
    run_bench(TINY, lambda bench: _random(bench, rng, 16), rng)


@pytest.mark.long
@pytest.mark.parametrize("pace", [Pace(), Pace(
    writes=0.3, reads=0.3, packets=0.4, beats=0.5, write_latency=40, read_latency=33)], ids=["fast", "slow"])
def test_more_random_requests(seed, pace):
    rng = random.Random(seed)
    run_bench(TINY, lambda bench: _random(bench, rng, 150), rng, pace)
