# SPDX-License-Identifier: Apache-2.0
"""Rules of the packet interfaces, each broken once."""

import random

import pytest

from sim.pcie.stream import INTERFACES, Packet, PacketStream, Violation
from tests.pcie.sim.beats import beats

LEGAL = [(name, width, segments) for name in INTERFACES
         for width, segments in ((128, 1), (256, 1), (512, 1), (512, 2), (512, 4)) if segments < 4 or name == "rc"]


def _random(rng, name):
    words = [rng.getrandbits(32) for _ in range({"cc": 3, "rc": 3}.get(name, 4) + rng.choice((0, 0, 1, 3, 12, 13, 40)))]
    return Packet(*((rng.randrange(16), rng.randrange(16)) if name in ("rq", "cq") else ()), words=words)


@pytest.mark.parametrize("name, width, segments", LEGAL)
def test_legal_packets_pass(seed, name, width, segments):
    """Packets are as sent, with back-pressure on any beat, and idle cycles between packets."""
    rng = random.Random(seed)
    packets = [_random(rng, name) for _ in range(60)]
    stream = PacketStream(name, width, segments=segments)
    found, begun = [], 0
    for beat in beats(name, width, packets, segments=segments):
        while rng.random() < 0.3:
            assert not list(stream.cycle(1, 0, beat.pins))
        for one, ended in stream.cycle(1, 1, beat.pins):
            begun += not ended
            found += [one] * ended
        if stream.idle and rng.random() < 0.3:
            assert not list(stream.cycle(0, 1))
    assert begun == len(packets)
    assert [(one.words, one.first_be, one.last_be) for one in found] == [
        (one.words, one.first_be, one.last_be) for one in packets]
    assert stream.idle


def _run(name, width, cycles, *, segments=1):
    stream = PacketStream(name, width, segments=segments)
    for valid, ready, pins in cycles:
        for _ in stream.cycle(valid, ready, pins):
            pass


def _packets(*lengths, name="rq"):
    return [Packet(15, 15, words=list(range(1, length + 1))) for length in lengths]


def _fails(rule, name, width, made, *, segments=1):
    with pytest.raises(Violation, match=rule):
        _run(name, width, [(1, 1, beat.pins) for beat in made], segments=segments)


def test_valid_stays_until_ready():
    beat, = beats("rq", 128, _packets(4))
    with pytest.raises(Violation, match=r"^RQ: tvalid must stay asserted until tready$"):
        _run("rq", 128, [(1, 0, beat.pins), (0, 0, beat.pins)])


@pytest.mark.parametrize("index, pin", [(0, "tdata"), (1, "tkeep"), (2, "tlast"), (3, "tuser")])
def test_pins_are_stable(index, pin):
    beat, = beats("cc", 512, _packets(4))
    changed = list(beat.pins)
    changed[index] ^= 1
    with pytest.raises(Violation, match=f"^CC: {pin} must be stable while tvalid waits for tready$"):
        _run("cc", 512, [(1, 0, beat.pins), (1, 1, tuple(changed))])


@pytest.mark.parametrize("name, segments", [("rq", 2), ("rq", 1), ("cc", 1)])
def test_packets_are_contiguous(name, segments):
    made = beats(name, 512, _packets(20), segments=segments)
    with pytest.raises(Violation, match="TLP 00000001 00000002 00000003 00000004: tvalid must stay asserted"):
        _run(name, 512, [(1, 1, made[0].pins), (0, 1, made[1].pins)], segments=segments)


def test_the_hard_block_may_pause():
    made = beats("cq", 512, _packets(20))
    _run("cq", 512, [(1, 1, made[0].pins), (0, 1, made[1].pins), (1, 1, made[1].pins)])


@pytest.mark.parametrize("width", [128, 256, 512])
def test_keep_is_contiguous(width):
    for keep in (0, 0b1101, 0b1110):
        made = beats("cc", width, _packets(4))
        made[0].keep = keep
        _fails("tkeep must be ones from bit 0 on", "cc", width, made)
    made = beats("cc", width, _packets(40))
    made[0].keep >>= 1
    _fails("tkeep must be all ones before the last beat", "cc", width, made)


@pytest.mark.parametrize("name, size", [("rq", 4), ("cq", 4), ("rc", 3), ("cc", 3)])
def test_packets_hold_their_descriptor(name, size):
    _fails(f"a packet must hold its descriptor of {size} DW, not {size - 1} DW", name, 256, beats(
        name, 256, _packets(size - 1)))


def test_marks_without_straddling():
    """Both kinds are legal: none at all, and right ones."""
    def made(*lengths):
        return beats("cc", 512, _packets(*lengths))

    _run("cc", 512, [(1, 1, beat.pins) for beat in made(3, 20)])
    bare = made(3, 20)
    for beat in bare:
        beat.user = 0
    _run("cc", 512, [(1, 1, beat.pins) for beat in bare])
    for length, number, field, value, rule in (
            (20, 1, "starts", 1, "is_sop and is_eop must be 0b0 and 0b1"), (20, 1, "ends", 0, "must be 0b0 and 0b1"),
            (20, 0, "ends", 1, "must be 0b1 and 0b0 in this beat, not 0b1 and 0b1"), (3, 0, "starts", 0, "must be 0b0"),
            (3, 0, "start_0", 2, "must start in DW 0, not in DW 8"),
            (3, 0, "end_0", 3, "is_eop0_ptr must be the last DW of tkeep, 2, not 3")):
        wrong = made(length)
        wrong[number].set(field, value)
        _fails(rule, "cc", 512, wrong)


@pytest.mark.parametrize("lengths, number, fields, rule", [
    ((4, 4), 0, {"starts": 0, "ends": 0}, "a beat outside of a packet must start one"),
    ((4,), 0, {"start_0": 2, "end_0": 11}, "may start in DW 8 only behind the end of another in the same beat"),
    ((4, 4), 0, {"start_1": 1}, "must start in a multiple of 8 DW, not in DW 4"),
    ((4, 4), 0, {"starts": 2}, "is_sop must be ones from bit 0 on, not 0b10"),
    ((4, 4), 0, {"ends": 2}, "is_eop must be ones from bit 0 on, not 0b10"),
    ((4, 4), 0, {"start_1": 0}, r"the starts of a beat must be in ascending order, not \[0, 0\]"),
    ((4, 4), 0, {"end_0": 11, "end_1": 3}, r"the ends of a beat must be in ascending order, not \[11, 3\]"),
    ((4, 4), 0, {"end_0": 9}, "a packet must end before the next one starts in DW 8"),
    ((4, 4), 0, {"ends": 0}, "a packet must end before the next one starts in DW 8"),
    ((4,), 0, {"ends": 3, "end_1": 9}, "a packet ends in DW 9 that did not start"),
    ((20, 4), 1, {"end_0": 12, "ends": 1}, "must end before the next one starts in DW 8"),
    ((4, 4), 0, {"end_0": 2}, "a packet must hold its descriptor of 4 DW, not 3 DW"),
    ((4, 12), 0, {"ends": 3, "end_1": 5}, "a packet that starts in DW 8 must not end in DW 5"),
])
def test_straddling(lengths, number, fields, rule):
    made = beats("rq", 512, _packets(*lengths), segments=2)
    for field, value in fields.items():
        made[number].set(field, value)
    _fails(rule, "rq", 512, made, segments=2)


def test_packets_in_a_beat_are_limited():
    made = beats("rc", 512, _packets(3, 3, 3), segments=4)
    _fails("at most 2 packets may start in a beat, not 3", "rc", 512, made, segments=2)


def test_discontinue_and_reset():
    made = beats("cc", 128, _packets(8))
    made[1].set("discontinue", 1)
    stream = PacketStream("cc", 128)
    assert not [one for one, ended in stream.cycle(1, 1, made[0].pins) if ended]
    (one, _), = stream.cycle(1, 1, made[1].pins)
    assert one.discontinue
    list(stream.cycle(1, 1, made[0].pins))
    assert not stream.idle
    stream.reset()
    assert stream.idle and not list(stream.cycle(0, 0))


def test_impossible_interfaces():
    for width, segments in ((256, 2), (512, 3)):
        with pytest.raises(ValueError, match=f"rq with {width} bits cannot have {segments} packets in a beat"):
            PacketStream("rq", width, segments=segments)
