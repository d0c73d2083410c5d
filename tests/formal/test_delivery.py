# SPDX-License-Identifier: Apache-2.0
"""Queues and register slices lose, duplicate, change and reorder nothing: by induction, without a bound."""

import pytest
from amaranth.hdl import Mux

from hw.stream import Pacer, Queue, Skid
from tests.formal.delivery import WIDTH, Delivery
from tests.harness.formal import prove
from tests.harness.internals import internal

pytestmark = [pytest.mark.formal, pytest.mark.long]


def skid_invariant(parts, ahead):
    payload, spare = internal(parts, "payload"), internal(parts, "spare")
    valid, spare_free = internal(parts, "valid"), internal(parts, "spare_free")
    return [(valid, payload), (~spare_free, spare)], None, 0, [spare_free | valid]


def slice_invariant(parts, ahead):
    spare_free = internal(parts, "spare_free")
    return [(~spare_free, internal(parts, "spare"))], None, 0, []


def queue_invariant(queue):
    """Stages and rows of each kind of :class:`Queue`."""
    depth = queue.depth

    def invariant(parts, ahead):
        storage = parts.submodules.storage
        shown, written = storage.read_ports[0], storage.write_ports[0].addr
        rows = storage.read_port(domain="comb")
        wrapped = Mux(shown.addr + ahead >= depth, shown.addr + ahead - depth, shown.addr + ahead)
        parts.d.comb += rows.addr.eq(wrapped)
        level, full, oldest = queue.level, internal(parts, "full"), shown.addr
        stages, others = [], [full == (level == depth), oldest < depth, written < depth]
        if queue._registered_read:
            loaded, waiting, some = (internal(parts, name) for name in ("loaded", "waiting", "some"))
            others += [some == (waiting != 0)]
            if queue.empty_bypass:
                held, bypass = internal(parts, "held"), internal(parts, "bypass")
                stages = [(held, bypass), (loaded, shown.data)]
            else:
                stages = [(loaded, shown.data)]
            in_rows = waiting
        elif queue.output_register:
            in_rows = level - queue.o.valid
            stages = [(queue.o.valid, internal(parts, "output"))]
            others += [internal(parts, "some") == (level > 1), ~queue.o.valid | (level != 0)]
        else:
            in_rows = level
            others += [internal(parts, "some") == (level != 0)]
        end = oldest + in_rows
        others += [written == Mux(end >= depth, end - depth, end), in_rows <= depth,
                   level == sum((present for present, _ in stages), in_rows)]
        return stages, rows.data, in_rows, others

    return invariant


@pytest.mark.parametrize("name, output_register, invariant, capacity", [
    ("skid", True, skid_invariant, 2), ("skid-ready", False, slice_invariant, 1)])
def test_skid(name, output_register, invariant, capacity):
    prove(Delivery(Skid(WIDTH, output_register=output_register), capacity=capacity, wait=0, invariant=invariant),
          name=name, depth=2, mode="prove")


QUEUES = [("lut", {}), ("lut-register", {"output_register": True}), ("block", {"ram": "block"}),
          ("block-bypass", {"ram": "block", "empty_bypass": True})]


@pytest.mark.parametrize("depth", [3, 8])
@pytest.mark.parametrize("name, kind", QUEUES)
def test_queue(name, kind, depth):
    queue = Queue(WIDTH, depth=depth, **kind)
    prove(Delivery(queue, capacity=depth, wait=queue.latency - 1, invariant=queue_invariant(queue)),
          name=f"queue-{name}-{depth}", depth=2 + queue.latency, mode="prove")


class Bounded(Delivery):
    """The same specification without an invariant, for a bounded search."""

    def __init__(self, dut, *, capacity, wait):
        super().__init__(dut, capacity=capacity, wait=wait, invariant=None)


def test_block_queue_with_output_register():
    queue = Queue(WIDTH, depth=4, ram="block", output_register=True)
    prove(Bounded(queue, capacity=4, wait=queue.latency - 1), name="queue-block-register", depth=11)


def test_pacer():
    """Items pass unchanged, and the oldest waits for at most an interval."""
    prove(Bounded(Pacer(WIDTH, interval=3, burst=2), capacity=0, wait=0), name="pacer", depth=16)
