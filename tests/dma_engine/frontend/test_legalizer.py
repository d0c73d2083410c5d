# SPDX-License-Identifier: Apache-2.0
"""The legalizer alone, against the arithmetic of a request's bytes and the order of its checks."""

import random

import pytest

from hw.dma_engine.frontend.legalizer import Legalizer
from hw.dma_engine.frontend.segment_credit import SEGMENT_CREDITS
from hw.dma_engine.layouts import Check
from hw.dma_engine.words import Status
from tests.dma_engine.frontend.sizes import SMALL, SMALL_REGISTERED
from tests.harness.cell import run_cell

SEGMENT, BEAT = SMALL.segment_bytes, SMALL.beat_bytes
PAGE = 4096
GOOD = {"base_page": 0x12345, "length": 1 << 36, "domain": 3, "readable": 1, "writable": 1, "valid": 1}
SETTINGS = {"domain": 3, "sc_enable": 1, "rc_enable": 1, "target": 2}


def segments(src, dst, length, numbers=None, **more):
    """Segments that the scheduler issues for a request, or those of some numbers, with the bytes of each."""
    last = dst % SEGMENT + length - 1
    for number in range(last // SEGMENT + 1) if numbers is None else numbers:
        start = max(dst, (dst // SEGMENT + number) * SEGMENT)
        size = min(dst + length, (start // SEGMENT + 1) * SEGMENT) - start
        yield {"src": src + start - dst, "dst": start, "size": size, "segment": {
            "number": number, "first": number == 0, "last": number == last // SEGMENT,
            "request": {"src_offset": src, "dst_offset": dst, "length": length, "last_segment": last // SEGMENT,
                        "end_position": last % SEGMENT, **more}}}


def page_of(entry, position):
    """Page number of a position, and its offset in the page."""
    bits = 21 if entry.get("large") else 16
    return (position >> bits) + entry.get("first_page", 0), bits


def translate(entry, position, pages):
    """Byte address of a position, and whether its page is present."""
    if not entry.get("paged"):
        return (entry.get("base_page", 0) * PAGE + position) % (1 << 64), True
    number, bits = page_of(entry, position)
    frame, present = pages(number)
    return (frame << 16) >> bits << bits | position % (1 << bits), present


def expected(case, pages):
    """Status and addresses of one segment."""
    request, src, dst, settings = case["segment"]["request"], case["src_entry"], case["dst_entry"], case["settings"]
    signal, check, end = request.get("signal"), request.get("check", Check.OK), request.get("end", {})
    failures = []
    for status, wrong in (
        (Status.RING_FETCH, check == Check.FETCH_ERROR),
        (Status.MALFORMED, check == Check.MALFORMED or any(
            end.get(word) and not settings.get(f"{word}_enable") for word in ("sc", "rc"))),
        (Status.ZERO_LENGTH, check == Check.ZERO_LENGTH), (Status.CONNECTION, check == Check.CONNECTION),
        *(() if signal else side_checks("SRC", src, request, settings, "readable")),
        *side_checks("DST", dst, request, settings, "writable"),
    ):
        if wrong:
            failures.append(status)
    src_addr, src_present = translate(src, case["src"], pages)
    dst_addr, dst_present = translate(dst, case["dst"], pages)
    crosses = not signal and case["src"] % PAGE + case["size"] > PAGE
    behind, next_present = translate(src, (case["src"] // PAGE + 1) * PAGE, pages)
    jumps = crosses and bool(src.get("paged")) and page_of(src, case["src"])[0] != page_of(
        src, (case["src"] // PAGE + 1) * PAGE)[0]
    early = bool(failures)
    if not signal and src.get("paged") and not (src_present and (next_present or not jumps)):
        failures.append(Status.SRC_PAGE)
    abort = (early or Status.SRC_PAGE in failures) and not case["segment"]["last"]
    if dst.get("paged") and not dst_present:
        failures.append(Status.DST_PAGE)
    aborted = case["segment"].get("aborted", 0)
    return {"status": failures[0] if failures else Status.MALFORMED if aborted else Status.OK,
            "bad": bool(failures) or bool(aborted), "abort": abort,
            "src_addr": src_addr if not signal else request["src_region"] << 36 | request["src_offset"],
            "dst_addr": dst_addr, "crosses": crosses, "jumps": jumps, "next": behind >> 16}


def side_checks(side, entry, request, settings, right):
    name = side.lower()
    return [
        (Status[f"{side}_REGION"], not entry.get("valid") or request.get(f"{name}_region", 0) >= SMALL.regions),
        (Status[f"{side}_DOMAIN"], entry.get("domain", 0) != settings["domain"]),
        (Status[f"{side}_RIGHTS"], not entry.get(right)),
        (Status[f"{side}_BOUNDS"], request[f"{name}_offset"] + request["length"] > entry.get("length", 0)),
    ]


def exercise(config, cases, pages, rng, stalls):
    """Send every case, limited by credits, and compare the outputs; return the statuses seen."""
    dut, cases, statuses = Legalizer(config), list(cases), []

    async def testbench(ctx):
        left, queued, aborts, entered, lookups = iter(cases), [], [], [], None
        credits, sent, index = SEGMENT_CREDITS, 0, 0
        waited = 0
        while len(statuses) < len(cases):
            case = next(left, None) if credits and rng.random() >= stalls[0] else None
            ctx.set(dut.scheduled.valid, case is not None)
            if case is not None:
                case["tag"] = {"queue": rng.randrange(4), "index": rng.randrange(16), "epoch": rng.randrange(4),
                               "phase": rng.randrange(2)}
                case["generation"] = rng.randrange(2)
                ctx.set(dut.scheduled.segment, case["segment"] | case["tag"] | {"generation": case["generation"]})
                ctx.set(dut.regions.src, case["src_entry"])
                ctx.set(dut.regions.dst, case["dst_entry"])
                ctx.set(dut.settings, case["settings"])
                case["want"], credits, sent = expected(case, pages), credits - 1, sent + 1
                queued.append(case)
            else:
                for port in (dut.regions.src, dut.regions.dst, dut.settings):
                    ctx.set(port, {})
            ctx.set(dut.o.ready, rng.random() >= stalls[1])
            # The page table responds a cycle later.
            if lookups is not None:
                for name, number in zip(("src", "next", "dst"), (lookups[0], lookups[0] + 1, lookups[1]), strict=True):
                    frame, present = pages(number)
                    ctx.set(getattr(dut.pages, name), {"frame": frame, "present": present})
            lookups = ctx.get(dut.pages.src_page), ctx.get(dut.pages.dst_page)
            # ``entered`` follows the segment by one cycle, ``abort`` by two.
            assert ctx.get(dut.entered.valid) == bool(entered and entered[0])
            if entered and (before := entered.pop(0)):
                assert ctx.get(dut.entered.target) == before["settings"]["target"]
                if usual(before):
                    assert ctx.get(dut.entered.size) == before["size"] - 1
            entered.append(case)
            before = aborts.pop(0) if len(aborts) == 2 else None
            assert ctx.get(dut.abort.valid) == bool(before and before["want"]["abort"])
            if before and before["want"]["abort"]:
                assert (ctx.get(dut.abort.queue), ctx.get(dut.abort.generation)) == (before["tag"]["queue"],
                                                                                     before["generation"])
            aborts.append(case)
            assert ctx.get(dut.issued) == ctx.get(dut.o.valid & dut.o.ready)
            if ctx.get(dut.o.valid & dut.o.ready):
                compare(ctx.get(dut.o.payload), queued[index])
                statuses.append(queued[index]["want"]["status"])
                credits, index, waited = credits + 1, index + 1, 0
            else:
                waited += 1
                assert waited < 300, f"{len(statuses)} of {sent} segments came out"
            await ctx.tick()
        ctx.set(dut.scheduled.valid, 0)
        for _ in range(6):
            await ctx.tick()
            assert not ctx.get(dut.o.valid), "A segment is duplicated"

    run_cell(dut, testbench)
    return statuses


def usual(case):
    """The size has no meaning after a failed check of the word, or when the request is cut short."""
    return case["segment"]["request"].get("check", Check.OK) == Check.OK and not case["segment"].get("aborted")


def compare(got, case):
    want = case["want"]
    assert Status(got.status) == want["status"], case
    assert (got.bad, got.last) == (want["bad"], case["segment"]["last"]), case
    assert {name: got[name] for name in case["tag"]} == case["tag"]
    assert got.target == case["settings"]["target"]
    end = case["segment"]["request"].get("end", {})
    assert (got.end.sc, got.end.rc, got.end.irq) == tuple(end.get(name, 0) for name in ("sc", "rc", "irq"))
    signal = bool(case["segment"]["request"].get("signal"))
    if usual(case):
        assert (got.size, got.signal) == (case["size"] - 1, signal), case
    if want["bad"]:
        return
    assert (got.src_addr, got.dst_addr) == (want["src_addr"], want["dst_addr"]), case
    assert got.dst_attributes.qos == case["dst_entry"].get("attributes", {}).get("qos", 0)
    if signal:
        assert not got.crosses and not got.jumps
        return
    assert got.src_attributes.qos == case["src_entry"].get("attributes", {}).get("qos", 0)
    beats = (case["src"] % BEAT + case["size"] - 1) // BEAT + 1
    assert (got.src_beats, got.crosses, got.jumps) == (beats, want["crosses"], want["jumps"]), case
    if want["crosses"]:
        assert got.first_beats == PAGE // BEAT - case["src"] % PAGE // BEAT, case
    if want["jumps"]:
        assert got.next_frame == want["next"], case


def no_pages(number):
    return 0, 0


@pytest.mark.parametrize("src, dst", [(0, 0), (13, 70)])
def test_source_beyond_256_mib_of_a_request(src, dst, seed):
    """Regression: the source of an ARK request of more than 2^28 bytes started again after every 2^28 bytes."""
    length = (1 << 34) - 1
    last = (dst % SEGMENT + length - 1) // SEGMENT
    numbers = [0, 1, *((1 << bit) // SEGMENT + step for bit in range(26, 34) for step in (-1, 0, 1)), last - 1, last]
    cases = [case | {"src_entry": GOOD, "dst_entry": GOOD | {"base_page": 0x777}, "settings": SETTINGS}
             for case in segments(src, dst, length, numbers)]
    assert set(exercise(SMALL, cases, no_pages, random.Random(seed), (0.0, 0.0))) == {Status.OK}


@pytest.mark.parametrize("config", [SMALL, SMALL_REGISTERED], ids=["direct", "registered"])
def test_addresses(config, seed):
    """Alignments of both sides, lengths around the segment's, and sources on both sides of a 4 KiB boundary."""
    rng = random.Random(f"{seed} addresses")
    lengths = (1, 2, 7, 8, 9, 31, 32, 33, 64, 65)
    requests = [(near + shift, PAGE * 3 + dst, length) for dst in range(SEGMENT)
                for shift in range(BEAT) for near in (PAGE - rng.randrange(0, 72, 8), 2 * SEGMENT)
                for length in (rng.choice(lengths),)]
    cases = [case | {"src_entry": GOOD, "dst_entry": GOOD | {"base_page": 0x777}, "settings": SETTINGS}
             for request in requests for case in segments(*request)]
    assert set(exercise(config, cases, no_pages, rng, (0.0, 0.0))) == {Status.OK}


def test_statuses(seed):
    """Random faults, several at a time: the status is that of the first check that fails."""
    rng = random.Random(f"{seed} statuses")
    frames = {number: (rng.getrandbits(48) & ~31, rng.random() < 0.7) for number in range(64)}

    def pages(number):
        return frames.get(number, (0, 0))

    def entry(side):
        value = GOOD | {"attributes": {"qos": rng.randrange(16)}, "base_page": rng.getrandbits(40)}
        if rng.random() < 0.5:
            value |= {"paged": 1, "base_page": 0, "large": rng.randrange(2), "first_page": rng.randrange(8)}
        for name in ("valid", "readable", "writable"):
            value[name] = int(rng.random() < 0.94)
        return value | {"domain": rng.choice([3] * 12 + [2, 0x43])}

    cases = []
    for _ in range(600):
        src, dst, settings = entry("src"), entry("dst"), SETTINGS | {"target": rng.randrange(4)}
        settings |= {"sc_enable": int(rng.random() < 0.8), "rc_enable": int(rng.random() < 0.8)}
        signal = rng.random() < 0.15
        length = 8 if signal else rng.randint(1, 80)
        offsets = [(rng.randrange(1, 16) << rng.choice((16, 21))) - rng.randrange(40) for _ in range(2)]
        if signal:
            offsets[1] &= ~7
        request = {"signal": signal, "check": rng.choice([Check.OK] * 16 + list(Check)),
                   "src_region": rng.choice([0] * 15 + [rng.randrange(512)]) if not signal else rng.randrange(256),
                   "dst_region": rng.choice([0] * 15 + [4, 256]),
                   "end": {name: int(rng.random() < 0.2) for name in ("sc", "rc", "irq")}}
        for value, offset in ((src, offsets[0]), (dst, offsets[1])):
            # A length that just suffices for the request, or one byte less.
            value["length"] = rng.choice((1 << 36, 1 << 36, offset + length, offset + length, offset + length - 1))
        for case in segments(*offsets, length, **request):
            case["segment"]["aborted"] = int(not case["segment"]["first"] and rng.random() < 0.1)
            stopped = case["segment"]["aborted"] or request["check"] != Check.OK
            if stopped:
                # A last segment ends at the end of the request, so its size differs.
                case["segment"]["last"] = 1
                case["size"] = (case["segment"]["request"]["end_position"] - case["dst"]) % SEGMENT + 1
            cases.append(case | {"src_entry": src, "dst_entry": dst, "settings": settings})
            if stopped:
                break
    seen = set(exercise(SMALL, cases, pages, rng, (0.2, 0.4)))
    assert len(seen) > 12, seen
    assert {Status.OK, Status.SRC_PAGE, Status.DST_PAGE, Status.SRC_BOUNDS, Status.DST_BOUNDS} <= seen


@pytest.mark.parametrize("config", [SMALL, SMALL_REGISTERED], ids=["direct", "registered"])
@pytest.mark.parametrize("stalls", [(0.0, 0.9), (0.5, 0.5)])
def test_stalls(config, stalls, seed):
    """No segment is lost, duplicated or reordered while the receiver stalls and all credits are used."""
    rng = random.Random(f"{seed} stalls")
    cases = [case | {"src_entry": GOOD, "dst_entry": GOOD, "settings": SETTINGS}
             for _ in range(60) for case in segments(rng.getrandbits(14), rng.getrandbits(14), rng.randint(1, 90))]
    exercise(config, cases, no_pages, rng, stalls)


@pytest.mark.parametrize(("config", "latency"), [(SMALL, 2), (SMALL_REGISTERED, 3)], ids=["direct", "registered"])
def test_latency(config, latency):
    dut = Legalizer(config)

    async def testbench(ctx):
        ctx.set(dut.o.ready, 1)
        for cycle in range(latency + 2):
            ctx.set(dut.scheduled.valid, cycle == 0)
            assert ctx.get(dut.o.valid) == (cycle == latency)
            await ctx.tick()

    run_cell(dut, testbench)
