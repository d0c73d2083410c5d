# SPDX-License-Identifier: Apache-2.0
from hw.rdma.config import TINY
from hw.rdma.fault import Fault
from hw.rdma.fault_log import FaultLog
from tests.harness.cell import run_cell

REQUESTER, RESPONDER = range(2)


class _Bench:
    def __init__(self, ctx, dut):
        self.ctx, self.dut, self.stops = ctx, dut, []

    async def step(self, cycles=1):
        for _ in range(cycles):
            _, _, valid, qp = await self.ctx.tick().sample(self.dut.stop.valid, self.dut.stop.qp)
            if valid:
                self.stops.append(qp)
            for port in (self.dut.connections, *self.dut.faults):
                self.ctx.set(port.valid, 0)

    def connect(self, qp, opened):
        self.ctx.set(self.dut.connections.valid, 1)
        self.ctx.set(self.dut.connections.qp, qp)
        self.ctx.set(self.dut.connections.entry.open, opened)

    def fail(self, half, qp, code):
        port = self.dut.faults[half]
        for signal, value in ((port.valid, 1), (port.qp, qp), (port.code, code)):
            self.ctx.set(signal, value)

    async def state(self, qp):
        self.ctx.set(self.dut.state.qp, qp)
        await self.step(2)
        state = self.dut.state
        return self.ctx.get(state.open), self.ctx.get(state.failed), self.ctx.get(state.code)

    async def take(self):
        """The oldest failure, or None."""
        log = self.dut.log
        if not self.ctx.get(log.valid):
            return None
        fields = self.ctx.get(log.payload.qp), Fault(self.ctx.get(log.payload.code))
        self.ctx.set(log.ready, 1)
        await self.step()
        self.ctx.set(log.ready, 0)
        return fields


def _run(body):
    dut = FaultLog(TINY)

    async def bench(ctx):
        await body(_Bench(ctx, dut))

    run_cell(dut, bench)


def test_the_first_fault_stops_a_queue_pair():
    async def body(bench):
        bench.connect(3, 1)
        await bench.step()
        assert (await bench.state(3))[:2] == (1, 0)
        bench.fail(REQUESTER, 3, Fault.RETRIES)
        await bench.step(5)
        bench.fail(RESPONDER, 3, Fault.LOCAL_ACCESS)
        await bench.step(5)
        assert bench.stops == [3] and await bench.state(3) == (1, 1, Fault.RETRIES)
        assert await bench.take() == (3, Fault.RETRIES)
        await bench.step(3)
        assert await bench.take() is None

    _run(body)


def test_latency():
    async def body(bench):
        bench.connect(3, 1)
        await bench.step()
        bench.fail(RESPONDER, 3, Fault.LOCAL_ACCESS)
        await bench.step(2)
        assert bench.stops == [] and bench.ctx.get(bench.dut.stop.valid)

    _run(body)


def test_all_fail_at_once():
    async def body(bench):
        for qp in range(TINY.queue_pairs):
            bench.connect(qp, 1)
            await bench.step()
        for qp in range(TINY.queue_pairs):
            bench.fail(REQUESTER, qp, Fault.RNR_RETRIES)
            bench.fail(RESPONDER, (qp + 1) % TINY.queue_pairs, Fault.LOCAL_INVALID)
            await bench.step()
        await bench.step(2 * TINY.queue_pairs + 5)
        assert sorted(bench.stops) == list(range(TINY.queue_pairs))
        taken = [await bench.take() for _ in range(TINY.queue_pairs)]
        await bench.step()
        assert await bench.take() is None
        assert sorted(qp for qp, _ in taken) == list(range(TINY.queue_pairs))
        assert [qp for qp, _ in taken] == bench.stops

    _run(body)


def test_a_closed_queue_pair_does_not_fail():
    async def body(bench):
        bench.fail(REQUESTER, 2, Fault.RETRIES)
        await bench.step(5)
        assert await bench.state(2) == (0, 0, 0)
        bench.connect(2, 1)
        await bench.step()
        bench.connect(2, 0)
        bench.fail(REQUESTER, 2, Fault.RETRIES)
        await bench.step(5)
        assert bench.stops == [] and await bench.take() is None

    _run(body)


def test_opening_clears_the_failure():
    async def body(bench):
        bench.connect(2, 1)
        await bench.step()
        bench.fail(RESPONDER, 2, Fault.LOCAL_OPERATION)
        await bench.step(5)
        bench.connect(2, 0)
        await bench.step()
        assert (await bench.state(2))[:2] == (0, 1)
        bench.connect(2, 1)
        await bench.step()
        assert (await bench.state(2))[:2] == (1, 0)
        bench.fail(REQUESTER, 2, Fault.BAD_RESPONSE)
        await bench.step(5)
        assert bench.stops == [2, 2] and (await bench.state(2))[2] == Fault.BAD_RESPONSE

    _run(body)
