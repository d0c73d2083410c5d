# SPDX-License-Identifier: Apache-2.0
"""The requester transport: each rule of acknowledgements, timers and retransmission."""

from itertools import pairwise, product

import pytest

from hw.rdma.config import TINY
from hw.rdma.fault import Fault
from hw.rdma.protocol import RNR_TIMER_US, Nak, Opcode
from tests.rdma.peer import Response, nak, rnr
from tests.rdma.requester_bench import Stimulus
from tests.rdma.requester_world import World

MASK = (1 << 24) - 1


def _world(**options):
    settings = {name: options.pop(name) for name in (
        "psn", "timeout", "retries", "rnr_retries", "max_reads", "selective", "congestion") if name in options}
    world = World(TINY, **{"seed": 1, **options})
    world.open(3, **settings)
    return world, world.pairs[3]


@pytest.mark.parametrize("retries", [0, 1, 7])
@pytest.mark.parametrize("timeout", [1, 3])
def test_dead_peer(timeout, retries):
    """The packet is sent ``retries`` times again, each after the timeout; then all packets fail."""
    world, pair = _world(timeout=timeout, retries=retries)
    pair.peer.alive = False
    world.post(3, count=5)
    limit = TINY.timer_cycles << timeout
    world.run((retries + 2) * limit)
    sends = [cycle for cycle, psn, _ in pair.sends if psn == pair.sends[0][1]]
    assert len(sends) == retries + 1
    gaps = [after - before for before, after in pairwise(sends)]
    (failed, fault), = pair.faults
    assert fault == Fault.RETRIES
    for gap in [*gaps, failed - sends[-1]]:
        assert limit <= gap <= limit * 5 // 4
    assert pair.failed == 5 and not pair.outstanding
    assert pair.retirements[-1][0] - failed < 60
    world.post(3, count=2)
    world.run(200)
    assert pair.failed == 7 and len(pair.faults) == 1


def test_no_timeout():
    world, pair = _world(timeout=0)
    pair.peer.alive = False
    world.post(3)
    world.run(200_000)
    assert len(pair.sends) == 1 and not pair.faults


def test_the_timer_does_not_run_while_packets_wait_to_be_sent_again():
    """The line stalls for many timeouts during the only retransmission that is permitted."""
    world, pair = _world(timeout=1, retries=1)
    limit = TINY.timer_cycles << 1
    pair.peer.alive = False
    world.post(3, count=16)
    world.run(200)
    world.bench.set_rates(send=0)
    world.run(10 * limit)
    assert not pair.faults
    world.bench.set_rates()
    start = world.cycle
    world.drain(2 * limit)
    assert len(pair.sends) == 32 and limit <= pair.faults[0][0] - start <= limit * 5 // 4


def test_progress_resets_the_retries():
    """Each packet is lost twice with two retries permitted."""
    world, pair = _world(timeout=1, retries=2)
    tries = {}

    def lossy(packet, take=pair.peer.take):
        tries[packet.psn] = tries.get(packet.psn, 0) + 1
        return take(packet) if tries[packet.psn] == 3 else []

    pair.peer.take = lossy
    for _ in range(4):
        world.post(3)
        world.drain(30_000)
    assert not pair.faults and pair.retired == 4 and set(tries.values()) == {3}


@pytest.mark.parametrize(("code", "fault"), [
    (Nak.INVALID_REQUEST, Fault.REMOTE_INVALID), (Nak.REMOTE_ACCESS, Fault.REMOTE_ACCESS),
    (Nak.REMOTE_OPERATION, Fault.REMOTE_OPERATION), (9, Fault.BAD_RESPONSE)])
def test_refusals(code, fault):
    """Earlier packets succeed, the refused one and later ones fail."""
    world, pair = _world(psn=MASK - 2)
    pair.peer.refuse = lambda packet: nak(code) if packet.psn == 1 else None
    world.post(3, count=10)
    world.drain(5_000)
    assert [fault for _, fault in pair.faults] == [fault]
    assert (pair.retired, pair.failed) == (4, 6)
    assert world.bench.status(3)[1] == 1


@pytest.mark.parametrize("code", [1, 2, 8])
def test_receiver_not_ready(code):
    """The packet is sent again after the time that the peer demands, and not much later."""
    world, pair = _world(timeout=1)
    refusals = iter([rnr(code)] * 3)
    pair.peer.refuse = lambda packet: next(refusals, None) if packet.psn == (pair.sends[0][1] + 2 & MASK) else None
    world.post(3, count=6)
    world.drain(200_000)
    cycles = RNR_TIMER_US[code] * TINY.timer_cycles * 1000 // 4096
    third = [cycle for cycle, psn, _ in pair.sends if psn == pair.sends[2][1]]
    assert len(third) == 4 and not pair.faults and pair.retired == 6
    for before, after in pairwise(third):
        assert cycles <= after - before - 120 <= cycles * 5 // 4 + 60
    assert world.bench.counts()["rnrs"] == 3


def test_nothing_is_sent_while_the_receiver_is_not_ready():
    world, pair = _world(psn=0, timeout=1)
    refusals = iter([rnr(1)])
    pair.peer.refuse = lambda packet: next(refusals, None)
    world.post(3)
    world.run(200)
    world.post(3, count=2)
    world.run(1500)
    assert len(pair.sends) == 1
    world.drain(3_000)
    assert [psn for _, psn, _ in pair.sends] == [0, 0, 1, 2]


@pytest.mark.parametrize("retries", [0, 2, 6])
def test_receiver_never_ready(retries):
    world, pair = _world(rnr_retries=retries)
    pair.peer.refuse = lambda packet: rnr(1)
    world.post(3, count=2)
    world.drain(100_000)
    assert [fault for _, fault in pair.faults] == [Fault.RNR_RETRIES]
    assert sum(psn == pair.sends[0][1] for _, psn, _ in pair.sends) == retries + 1


def test_infinite_rnr_retries():
    world, pair = _world(rnr_retries=7)
    pair.peer.refuse = lambda packet: rnr(1) if len(pair.sends) < 60 else None
    world.post(3)
    world.drain(500_000)
    assert not pair.faults and pair.retired == 1


@pytest.mark.parametrize("change", [
    {"length": 39}, {"length": 41}, {"opcode": Opcode.READ_FIRST}, {"opcode": Opcode.READ_MIDDLE},
    {"opcode": Opcode.READ_LAST}])
def test_bad_responses(change):
    world, pair = _world(psn=7)
    world.post(3, read=True, length=40)
    pair.peer.alive = False
    world.run(100)
    world.respond(Response(3, **{"opcode": Opcode.READ_ONLY, "psn": 7, "length": 40} | change))
    world.run(100)
    assert [fault for _, fault in pair.faults] == [Fault.BAD_RESPONSE] and pair.failed == 1


@pytest.mark.parametrize("response", [
    Response(3, Opcode.ACKNOWLEDGE, 6, 0x1F), Response(3, Opcode.ACKNOWLEDGE, 11, 0x1F),
    Response(3, Opcode.ACKNOWLEDGE, 7 + (1 << 23), 0x1F), Response(3, Opcode.ACKNOWLEDGE, 8, 0x5F),
    Response(3, Opcode.ACKNOWLEDGE, 8, 0x9F), Response(3, Opcode.ACKNOWLEDGE, 11, 0x60),
    Response(3, Opcode.ACKNOWLEDGE, 6, 0x62), Response(3, Opcode.ACKNOWLEDGE, 11, 0x21),
    Response(3, Opcode.READ_ONLY, 8, length=9), Response(3, Opcode.READ_ONLY, 6, length=90),
    Response(3, Opcode.CNP, 8), Response(5, Opcode.ACKNOWLEDGE, 0, 0x1F),
], ids=str)
def test_unexpected_responses_have_no_effect(response):
    world, pair = _world(psn=7)
    world.open(5, psn=0)
    world.post(3, count=4)
    pair.peer.alive = False
    world.run(100)
    world.respond(response)
    world.run(100)
    assert world.bench.status(3)[:3] == (4, 7, 11) and not pair.faults
    assert len(pair.sends) == 4
    world.respond(Response(3, Opcode.ACKNOWLEDGE, 10, 0x1F))
    pair.peer.expected = 11
    world.run(100)
    assert pair.retired == 4


def test_a_lost_read_response_is_requested_again():
    """An acknowledgement of a later packet shows the loss; the timer does not run."""
    world, pair = _world(psn=100, timeout=0)
    take, lost = pair.peer.take, []

    def lose(packet):
        responses = take(packet)
        if packet.psn == 102 and not lost:
            lost.append(packet)
            return []
        return responses

    pair.peer.take = lose
    world.post(3, count=2)
    world.post(3, read=True)
    world.post(3, count=3)
    world.post(3, read=True)
    world.drain(5_000)
    assert lost and pair.retired == 7
    assert [psn for _, psn, again in pair.sends if again] == [102, 103, 104, 105, 106]


@pytest.mark.parametrize("syndrome", [nak(Nak.SEQUENCE), rnr(1)])
def test_a_nak_does_not_pass_a_read(syndrome):
    """It acknowledges the WRITEs before a READ whose response is lost; the READ is requested again."""
    world, pair = _world(psn=100, timeout=0)
    pair.peer.alive = False
    world.post(3, count=2)
    world.post(3, read=True)
    world.post(3, count=3)
    world.run(100)
    pair.peer.expected, pair.peer.alive = 104, True
    world.respond(Response(3, Opcode.ACKNOWLEDGE, 104, syndrome))
    world.run(60)
    assert world.bench.status(3)[1] == 102 and pair.retired == 2
    world.drain(10_000)
    assert [psn for _, psn, again in pair.sends if again][:4] == [102, 103, 104, 105]


@pytest.mark.parametrize("read", [False, True])
def test_a_stop_in_each_cycle_about_responses(read):
    """An acknowledgement, then another one or a READ response, and a stop. Data are delivered before the packet
    retires, or not at all."""
    world, _ = _world(psn=0)
    results = set()
    for gap, offset in product(range(1, 12), range(-10, 8)):
        pair = world.pairs[3]
        pair.peer.alive = False
        psn, start = pair.next_psn, world.cycle + 120
        world.post(3)
        world.post(3, read=read, length=64)
        world.run(100)
        pair.peer.expected = psn + 2 & MASK
        world.respond(Response(3, Opcode.ACKNOWLEDGE, psn, 0x1F), start)
        world.respond(Response(3, Opcode.READ_ONLY if read else Opcode.ACKNOWLEDGE, psn + 1 & MASK, 0x1F,
                               length=64 * read, tag=world.tags - 1), start + gap)
        world.bench.feed(Stimulus.STOP, start + gap + offset, 3)
        pair.failing = True
        world.drain(5_000)
        results.add((pair.retired, pair.failed))
        world.open(3, psn=psn + 100 & MASK, settle=70)
    assert results == {(0, 2), (1, 1), (2, 0)}


def test_openings_do_not_disturb_reads():
    """Responses of four queue pairs wait to be delivered while another one is opened again and again."""
    world = World(TINY, seed=1, latency=20, returned=0.2)
    for qp in range(4):
        world.open(qp, timeout=0)
        world.post(qp, count=300, read=True, length=8)
    for _ in range(40):
        world.close(5)
        world.open(5, settle=world.rng.randint(60, 70))
    world.drain(20_000)
    assert all(world.pairs[qp].retired == 300 for qp in range(4))


def test_selective_repeat_sends_only_what_is_lost():
    world, pair = _world(psn=100, timeout=5, selective=1)
    take, lost = pair.peer.take, set()

    def lose(packet):
        if packet.psn in (103, 109) and packet.psn not in lost:
            lost.add(packet.psn)
            return []
        return take(packet)

    pair.peer.take = lose
    world.post(3, count=14)
    world.drain(60_000)
    again = [psn for _, psn, again in pair.sends if again]
    assert 103 in again and 109 in again and 104 not in again and len(again) < 8


def test_selective_repeat_of_packets_whose_acknowledgement_is_lost():
    """A READ fills the gap, and its response arrives, but not the acknowledgement of the WRITEs behind it."""
    world, pair = _world(psn=100, timeout=4, selective=1)
    take, lost = pair.peer.take, set()

    def lose(packet):
        if packet.psn == 100 and "request" not in lost:
            lost.add("request")
            return []
        responses = take(packet)
        if packet.psn == 100 and "acknowledgement" not in lost:
            lost.add("acknowledgement")
            return [response for response in responses if response.opcode != Opcode.ACKNOWLEDGE]
        return responses

    pair.peer.take = lose
    world.post(3, read=True)
    world.post(3, count=2)
    world.drain(100_000)
    assert len(lost) == 2 and pair.retired == 3
    assert [psn for _, psn, again in pair.sends if again][:2] == [100, 101]


def test_a_repeated_nak_leads_to_one_retransmission():
    world, pair = _world(psn=100, timeout=0)
    pair.peer.alive = False
    world.post(3, count=6)
    world.run(100)
    pair.peer.expected = 102
    for _ in range(5):
        world.respond(Response(3, Opcode.ACKNOWLEDGE, 102, nak(Nak.SEQUENCE)))
        world.run(50)
    assert [psn for _, psn, again in pair.sends if again] == [102, 103, 104, 105]
    assert pair.retired == 2


@pytest.mark.parametrize("ends", ["acknowledged", "stopped"])
def test_a_packet_that_waits_for_the_line_does_not_retire(ends):
    """Retransmitted packets wait, when they are acknowledged or fail; other queue pairs retire theirs meanwhile."""
    world, pair = _world(psn=100, timeout=0)
    world.open(6, psn=0)
    pair.peer.alive = world.pairs[6].peer.alive = False
    world.post(3, count=6)
    world.post(6, count=2)
    world.run(200)
    world.bench.set_rates(send=0)
    world.respond(Response(3, Opcode.ACKNOWLEDGE, 102, nak(Nak.SEQUENCE)))
    pair.peer.expected = 102
    world.run(200)
    assert pair.retired == 2
    if ends == "stopped":
        world.stop(3)
    else:
        world.respond(Response(3, Opcode.ACKNOWLEDGE, 105, 0x1F))
        pair.peer.expected = 106
    world.respond(Response(6, Opcode.ACKNOWLEDGE, 1, 0x1F))
    world.pairs[6].peer.expected = 2
    world.run(200)
    assert len(pair.outstanding) == 4 and world.pairs[6].retired == 2
    world.bench.set_rates()
    world.run(200)
    assert (pair.retired, pair.failed) == ((2, 4) if ends == "stopped" else (6, 0))


def test_packets_that_are_acknowledged_during_a_retransmission_are_left_out():
    world, pair = _world(psn=100, timeout=0)
    pair.peer.alive = False
    world.post(3, count=18)
    world.run(200)
    world.bench.set_rates(send=0)
    world.respond(Response(3, Opcode.ACKNOWLEDGE, 100, nak(Nak.SEQUENCE)))
    world.run(200)
    world.respond(Response(3, Opcode.ACKNOWLEDGE, 113, 0x1F))
    pair.peer.expected = 114
    world.run(200)
    world.bench.set_rates()
    world.run(200)
    again = [psn for _, psn, again in pair.sends if again]
    assert again == [*range(100, 100 + len(again) - 2), 114, 115] and len(again) <= 10
    assert pair.retired == 14 and pair.sends[-1][1] == 117


def test_acknowledgement_requests():
    """The last packet requests one, and so does each eighth; no other does."""
    world, _ = _world(psn=0)
    requests = []
    send = world._send

    def record(cycle, index, psn, ackreq, *rest):
        requests.append((psn, ackreq))
        send(cycle, index, psn, ackreq, *rest)

    world._send = record
    world.bench.set_rates(send=0)
    world.post(3, count=13)
    world.run(100)
    world.bench.set_rates()
    world.drain(5_000)
    assert requests == [(psn, int(psn in (7, 12))) for psn in range(13)]


def test_a_reset_closes_all_queue_pairs():
    world, pair = _world(psn=5)
    pair.peer.alive = False
    world.post(3, count=9)
    world.run(100)
    world.bench.reset()
    world.run(100)
    assert world.bench.status(3) == (0, 0, 0, 256)
    world.free.extend(world.packets)
    world.packets.clear()
    pair.outstanding.clear()
    pair.failing, pair.next_psn = True, 0
    world.post(3, count=2)
    world.run(100)
    assert pair.failed == 2 and len(pair.sends) == 9
    world.open(3, psn=77)
    world.post(3, count=2)
    world.drain(5_000)
    assert world.pairs[3].retired == 2
