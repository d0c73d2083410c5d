# SPDX-License-Identifier: Apache-2.0
import re

import pytest

from hw.axi import AxiChecker, AxiLiteChecker, AxiLiteSignature, AxiSignature, Burst, Resp
from tests.axi.bench import play
from tests.axi.traffic import Traffic

BUS = AxiSignature(addr_width=32, data_width=64, id_width=3)
LITE = AxiLiteSignature(addr_width=12, data_width=32)


def aw(addr=0x100, len=0, size=3, id=1, ready=1, **pins):
    return dict(awvalid=1, awready=ready, awaddr=addr, awlen=len, awsize=size, awid=id,
                awburst=Burst.INCR) | pins


def ar(addr=0x100, len=0, size=3, id=1, ready=1, **pins):
    return dict(arvalid=1, arready=ready, araddr=addr, arlen=len, arsize=size, arid=id,
                arburst=Burst.INCR) | pins


def w(last=1, strb=0xFF, ready=1, **pins):
    return dict(wvalid=1, wready=ready, wlast=last, wstrb=strb) | pins


def b(id=1, ready=1, resp=Resp.OKAY, **pins):
    return dict(bvalid=1, bready=ready, bid=id, bresp=resp) | pins


def r(id=1, last=1, ready=1, resp=Resp.OKAY, **pins):
    return dict(rvalid=1, rready=ready, rid=id, rlast=last, rresp=resp) | pins


def fails(checker, cycles, message):
    """The last of ``cycles`` breaks the rule, and no other does."""
    play(checker(), cycles[:-1])
    with pytest.raises(AssertionError, match=f"^{re.escape(f'Assertion violated: {message}')}$"):
        play(checker(), cycles)


def axi(**kwargs):
    return lambda: AxiChecker(BUS, **{"max_outstanding": 16} | kwargs)


def lite(**kwargs):
    return lambda: AxiLiteChecker(LITE, **kwargs)


# Legal traffic.


@pytest.mark.parametrize("data_width, id_width, busy, max_outstanding", [
    (64, 3, 0.7, 1024), (8, 0, 0.9, 64), (512, 10, 1.0, 50), (128, 1, 0.4, 37),
])
def test_legal_traffic(data_width, id_width, busy, max_outstanding):
    bus = AxiSignature(addr_width=32, data_width=data_width, id_width=id_width)
    traffic = Traffic(1, bus, bursts=30, busy=busy)
    checker = AxiChecker(bus, max_outstanding=max_outstanding)
    outstanding = play(checker, traffic.cycles, read=("reads", "writes"))
    assert outstanding == [0, 0]
    assert max(traffic.reads) > 2
    assert max(traffic.writes) > 2


def test_outstanding():
    traffic = Traffic(2, BUS, bursts=12, busy=0.5)
    for length in (10, 20, 40, 80):
        outstanding = play(AxiChecker(BUS), traffic.cycles[:length], read=("reads", "writes"))
        assert outstanding == [traffic.reads[length - 1], traffic.writes[length - 1]]


def test_data_before_address():
    play(AxiChecker(BUS), [w(last=0), w(), w(), w(last=0), aw(len=1), aw(id=2), b(id=2),
                           aw(id=3, len=1) | w(), b(id=3), b()])


def test_a_reset_empties_the_tables():
    play(AxiChecker(BUS), [aw(len=1), ar(), ar(len=3), w(last=0), dict(rst=1), dict(rst=1), {},
                           ar(len=1), r(last=0), r(), aw() | w(), b()])


# The manager's rules.


@pytest.mark.parametrize("channel, item", [("aw", aw), ("w", w), ("b", b), ("ar", ar), ("r", r)])
def test_valid_in_reset(channel, item):
    message = (f"AXI4: {channel.upper()}VALID is high in reset or in the first cycle after it "
               "(IHI 0022 A3.1.2)")
    before = [aw() | w(), ar(), dict(rst=1)]
    fails(axi(), [*before, dict(rst=1), dict(rst=1) | item()], message)
    fails(axi(), [*before, dict(rst=1), item()], message)


@pytest.mark.parametrize("channel, item", [("aw", aw), ("w", w), ("b", b), ("ar", ar), ("r", r)])
@pytest.mark.parametrize("ready", [0, 1])
def test_valid_falls(channel, item, ready):
    upper = channel.upper()
    fails(axi(), [aw() | w(), ar(), item(ready=0), {f"{channel}ready": ready}],
          f"AXI4: {upper}VALID fell before {upper}READY was high (IHI 0022 A3.2.1)")


@pytest.mark.parametrize("channel, pin, before, after", [
    *(case for channel in ("aw", "ar") for case in (
        (channel, "id", 1, 2), (channel, "addr", 0x100, 0x108), (channel, "len", 0, 1),
        (channel, "size", 3, 2), (channel, "cache", 3, 2), (channel, "prot", 0, 1), (channel, "qos", 0, 15))),
    ("w", "data", 5, 4), ("w", "strb", 0xFF, 0xFE), ("w", "last", 1, 0), ("w", "last", 0, 1),
    ("b", "id", 1, 2), ("b", "resp", Resp.OKAY, Resp.SLVERR),
    ("r", "id", 1, 2), ("r", "data", 5, 4), ("r", "resp", Resp.OKAY, Resp.DECERR), ("r", "last", 0, 1),
])
def test_payload_changes(channel, pin, before, after):
    legal = {"b": [aw(id=1) | w(), aw(id=2) | w()], "r": [ar(id=1, len=1), ar(id=2, len=1)]}.get(channel, [])
    item = {"aw": aw, "w": w, "b": b, "ar": ar, "r": r}[channel](ready=0)
    if channel == "r":
        item["rlast"] = 0
    pin = channel + pin
    shown = [getattr(value, "value", value) for value in (before, after)]
    fails(axi(), [*legal, item | {pin: before}, item | {pin: before}, item | {pin: after}],
          f"AXI4: {pin.upper()} changed from {shown[0]:#x} to {shown[1]:#x} while {channel.upper()}VALID "
          f"waited for {channel.upper()}READY (IHI 0022 A3.2.1)")


@pytest.mark.parametrize("channel, item", [("AW", aw), ("AR", ar)])
@pytest.mark.parametrize("pins, text", [
    (dict(burst=Burst.FIXED), "{}BURST is 0, not INCR (IHI 0022 A3.4.1)"),
    (dict(burst=Burst.WRAP), "{}BURST is 2, not INCR (IHI 0022 A3.4.1)"),
    (dict(size=4), "{}SIZE of 4 is wider than the data bus (IHI 0022 A3.4.1)"),
    (dict(cache=4), "{}CACHE of 0x4 is reserved (IHI 0022 A4.4)"),
    (dict(cache=0xD), "{}CACHE of 0xd is reserved (IHI 0022 A4.4)"),
])
def test_illegal_burst(channel, item, pins, text):
    # Offering it is enough.
    pins = {channel.lower() + pin: value for pin, value in pins.items()}
    fails(axi(), [item(), item(ready=0) | pins], f"AXI4: {text.format(channel)}")


@pytest.mark.parametrize("channel, item", [("AW", aw), ("AR", ar)])
@pytest.mark.parametrize("addr, length, size", [
    (0xFF8, 1, 3), (0xFFF, 1, 0), (0x808, 255, 3), (0x1F04, 32, 3), (0xFFFF_FFFD, 2, 1),
])
def test_burst_crosses_page(channel, item, addr, length, size):
    fails(axi(), [item(addr=addr, len=length - 1, size=size), item(addr=addr, len=length, size=size)],
          f"AXI4: a burst crosses 4 KiB: {channel}ADDR={addr:#x} {channel}LEN={length} {channel}SIZE={size} "
          "(IHI 0022 A3.4.1)")


@pytest.mark.parametrize("together", [False, True])
def test_wlast_low(together):
    cycles = [aw(len=1), w(last=0), w(last=0)]
    if together:
        cycles = [w(last=0), aw(len=1) | w(last=0)]
    fails(axi(), cycles, "AXI4: WLAST is low on the last beat of a burst with AWLEN=1 (IHI 0022 A3.4.1)")


def test_wlast_high():
    fails(axi(), [aw(len=2), w(last=0), w()],
          "AXI4: WLAST is high on beat 1 of a burst with AWLEN=2 (IHI 0022 A3.4.1)")


def test_wlast_follows_the_order_of_addresses():
    fails(axi(), [aw(len=0), aw(len=1), w(), w()],
          "AXI4: WLAST is high on beat 0 of a burst with AWLEN=1 (IHI 0022 A3.4.1)")


@pytest.mark.parametrize("addr, size, beat, strb", [
    (0x100, 3, 0, None), (0x103, 3, 0, 0x04), (0x103, 3, 1, None), (0x104, 2, 0, 0x08), (0x104, 2, 1, 0x10),
    (0x105, 0, 0, 0x40), (0x105, 0, 3, 0x02), (0x102, 1, 2, 0x20), (0x102, 1, 3, 0x04),
])
@pytest.mark.parametrize("together", [False, True])
def test_wstrb(addr, size, beat, strb, together):
    """``strb`` is a lane outside the beat, if there is one."""
    first = [addr] + [((addr >> size) + number) << size for number in range(1, beat + 1)]
    lanes = [sum(1 << byte % 8 for byte in range(at, ((at >> size) + 1) << size)) for at in first]
    head = [w(last=0, strb=mask) for mask in lanes[:-1]]
    legal, address = w(strb=lanes[-1]), aw(addr=addr, size=size, len=beat)

    def cycles(final):
        beats = [*head, final]
        return [address | beats[0], *beats[1:]] if together else [address, *beats]

    play(AxiChecker(BUS), cycles(legal))
    if strb is not None:
        fails(axi(), cycles(w(strb=strb)),
              f"AXI4: WSTRB of {strb:#x} is outside the lanes of beat {beat} (IHI 0022 A3.4.3)")


def test_data_ahead_is_too_long():
    fails(axi(), [w(last=0)] * 256,
          "AXI4: write data ahead of its address has more than 256 beats (IHI 0022 A3.4.1)")


def test_address_after_data_of_other_length():
    fails(axi(), [w(), w(last=0), w(), aw(), aw(len=2)],
          "AXI4: AWLEN of 2 for a burst whose data came before with WLAST on beat 1 (IHI 0022 A3.4.1)")


def test_address_after_too_much_data():
    fails(axi(), [w(last=0), w(last=0), aw(len=1)],
          "AXI4: AWLEN of 1 for a burst of which 2 beats without WLAST came before (IHI 0022 A3.4.1)")


# The subordinate's rules.


@pytest.mark.parametrize("cycles", [
    [b()], [aw(), b()], [w(), b()], [aw(len=1), w(last=0), b()], [aw() | w() | b()], [w(), aw() | b()],
    [aw() | w(), b(id=2)], [aw() | w(), b(), b()], [aw() | w(), aw(), b(), b(ready=0)],
    [aw(id=2), aw() | w(), b()],
])
def test_response_without_write(cycles):
    fails(axi(), cycles, f"AXI4: response with BID={cycles[-1]['bid']:#x}, of which no completed burst is "
                         "outstanding (IHI 0022 A3.3.1)")


@pytest.mark.parametrize("cycles", [
    [r()], [ar() | r()], [ar(), r(id=2)], [ar(), r(), r()], [ar(), ar(id=2), r(id=2), r(id=2, ready=0)],
])
def test_data_without_read(cycles):
    fails(axi(), cycles, f"AXI4: read data with RID={cycles[-1]['rid']:#x}, of which no burst is outstanding "
                         "(IHI 0022 A3.3.1)")


def test_rlast_low():
    fails(axi(), [ar(len=1), r(last=0), r(last=0)],
          "AXI4: RLAST is low on the last beat of a burst, RID=0x1 ARLEN=1 (IHI 0022 A3.4.1)")


def test_rlast_high():
    fails(axi(), [ar(len=2), r(last=0), r()],
          "AXI4: RLAST is high on beat 1 of a burst with RID=0x1 ARLEN=2 (IHI 0022 A3.4.1)")


def test_rlast_follows_the_order_of_one_id():
    cycles = [ar(len=0), ar(id=2, len=3), ar(len=1), r(id=2, last=0), r(), r(id=2, last=0)]
    play(AxiChecker(BUS), [*cycles, r(last=0), r(), r(id=2, last=0), r(id=2)])
    fails(axi(), [*cycles, r()],
          "AXI4: RLAST is high on beat 0 of a burst with RID=0x1 ARLEN=1 (IHI 0022 A3.4.1)")


def test_exokay():
    fails(axi(), [aw() | w(), b(resp=Resp.EXOKAY)],
          "AXI4: BRESP is EXOKAY, but there are no exclusive accesses (IHI 0022 A3.4.4)")
    fails(axi(), [ar(), r(resp=Resp.EXOKAY)],
          "AXI4: RRESP is EXOKAY, but there are no exclusive accesses (IHI 0022 A3.4.4)")


# The tables and the constructor.


def test_capacity():
    small = axi(max_outstanding=3, max_per_id=2)
    fails(small, [ar(id=0), ar(id=1), ar(id=2), r(id=2), ar(id=2), ar(id=2)],
          "AXI4: 4 reads outstanding: max_outstanding is too small")
    fails(small, [ar(), ar(), r(), ar(), ar()],
          "AXI4: 3 reads outstanding with ARID=0x1: max_per_id is too small")
    fails(small, [aw()] * 4, "AXI4: 4 writes outstanding: max_outstanding is too small")
    fails(small, [w()] * 4, "AXI4: data of 4 writes ahead of the address: max_outstanding is too small")


def test_tables_at_full():
    """The maximum of outstanding bursts, with all responses in order, repeatedly."""
    for count in (1, 3, 4):
        lengths = [number % 3 for number in range(count)]
        writes = [aw(len=length, id=0) for length in lengths]
        data = [w(last=beat == length) for length in lengths for beat in range(length + 1)]
        reads = [ar(len=length, id=0) for length in lengths]
        beats = [r(id=0, last=beat == length) for length in lengths for beat in range(length + 1)]
        responses = [b(id=0)] * count
        play(AxiChecker(BUS, max_outstanding=count),
             [*writes, *data, *responses, *data, *writes, *responses, *reads, *beats] * 3)


def test_sides():
    illegal_manager, illegal_subordinate = [aw(awburst=Burst.WRAP), aw(ready=0), {}], [b(), b(ready=0), {}]
    play(AxiChecker(BUS, manager=None), illegal_manager)
    play(AxiChecker(BUS, subordinate=None), illegal_subordinate)
    with pytest.raises(AssertionError):
        play(AxiChecker(BUS, manager=None), illegal_subordinate)
    with pytest.raises(AssertionError):
        play(AxiChecker(BUS, subordinate=None), illegal_manager)


def test_name():
    with pytest.raises(AssertionError, match=r"^Assertion violated: \{m_axi\}: read data with RID=0x1, "):
        play(AxiChecker(BUS, name="{m_axi}"), [r()])


def test_observe():
    """Every pin arrives, from an interface of either side."""
    for bus in (BUS.create(), BUS.flip().create()):
        checker = AxiChecker(BUS)
        assert len(checker.observe(bus)) == len(BUS.members)


@pytest.mark.parametrize("kwargs, sentence", [
    (dict(signature=LITE), f"AxiChecker signature must be an AxiSignature, not {LITE!r}"),
    (dict(max_outstanding=0), "AxiChecker max_outstanding must be an integer from 1 to 16384, not 0"),
    (dict(max_outstanding=16385), "AxiChecker max_outstanding must be an integer from 1 to 16384, not 16385"),
    (dict(max_per_id=0),
     "AxiChecker max_per_id must be an integer from 1 to the max_outstanding of 1024, not 0"),
    (dict(max_outstanding=4, max_per_id=5),
     "AxiChecker max_per_id must be an integer from 1 to the max_outstanding of 4, not 5"),
    (dict(manager="check"), 'AxiChecker manager mode must be "assert", "assume" or None, not \'check\''),
    (dict(subordinate=True), 'AxiChecker subordinate mode must be "assert", "assume" or None, not True'),
    (dict(signature=AxiSignature(addr_width=32, data_width=64, id_width=15)),
     "AxiChecker has tables for at most 14 ID bits, not 15"),
])
def test_axi_wrong(kwargs, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        AxiChecker(**{"signature": BUS} | kwargs)


# AXI4-Lite.


def lite_pins(item):
    return {pin: value for pin, value in item.items() if pin in LITE.members}


def lite_cycles(*items):
    return [lite_pins(item) for item in items]


def test_lite_legal():
    results = play(AxiLiteChecker(LITE), lite_cycles(
        aw(), w() | ar(), b() | ar(), r() | w(ready=0), w() | r(), aw() | w() | ar(), b() | r(resp=Resp.SLVERR),
        aw() | ar(), b(resp=Resp.DECERR), aw()), read=("reads", "write_addresses", "write_data"))
    assert results == [1, 1, 0]


@pytest.mark.parametrize("channel, item", [("aw", aw), ("w", w), ("b", b), ("ar", ar), ("r", r)])
def test_lite_handshakes(channel, item):
    upper = channel.upper()
    item, stalled = lite_cycles(item(), item(ready=0))
    before = lite_cycles(aw() | w() | ar())
    fails(lite(), [*before, stalled, {}],
          f"AXI4-Lite: {upper}VALID fell before {upper}READY was high (IHI 0022 A3.2.1)")
    fails(lite(), [*before, dict(rst=1), dict(rst=1), item],
          f"AXI4-Lite: {upper}VALID is high in reset or in the first cycle after it (IHI 0022 A3.1.2)")


@pytest.mark.parametrize("channel, pin, before, after", [
    ("aw", "addr", 4, 8), ("aw", "prot", 0, 1), ("w", "data", 5, 4), ("w", "strb", 15, 14),
    ("b", "resp", Resp.OKAY, Resp.SLVERR), ("ar", "addr", 4, 8), ("ar", "prot", 0, 1),
    ("r", "data", 5, 4), ("r", "resp", Resp.OKAY, Resp.SLVERR),
])
def test_lite_payload_changes(channel, pin, before, after):
    item = lite_pins({"aw": aw, "w": w, "b": b, "ar": ar, "r": r}[channel](ready=0))
    pin = channel + pin
    shown = [getattr(value, "value", value) for value in (before, after)]
    fails(lite(), [*lite_cycles(aw() | w() | ar()), item | {pin: before}, item | {pin: after}],
          f"AXI4-Lite: {pin.upper()} changed from {shown[0]:#x} to {shown[1]:#x} while {channel.upper()}VALID "
          f"waited for {channel.upper()}READY (IHI 0022 A3.2.1)")


@pytest.mark.parametrize("cycles, response, request_", [
    ([w(), b()], "B", "AW"), ([aw(), b()], "B", "W"), ([aw() | w(), b(), w(), b()], "B", "AW"),
    ([w(), aw() | b()], "B", "AW"), ([r()], "R", "AR"), ([ar() | r()], "R", "AR"),
    ([ar(), r(), r()], "R", "AR"),
])
def test_lite_response_without_request(cycles, response, request_):
    fails(lite(), lite_cycles(*cycles),
          f"AXI4-Lite: {response}VALID without an outstanding transfer on {request_} (IHI 0022 A3.3.1)")


def test_lite_exokay():
    for cycles, pin in (([aw() | w(), b(resp=Resp.EXOKAY)], "BRESP"), ([ar(), r(resp=Resp.EXOKAY)], "RRESP")):
        fails(lite(), lite_cycles(*cycles),
              f"AXI4-Lite: {pin} is EXOKAY, which AXI4-Lite does not have (IHI 0022 B1.1.1)")


def test_lite_capacity():
    for item, channel in ((aw, "AW"), (w, "W"), (ar, "AR")):
        fails(lite(max_outstanding=2), lite_cycles(item(), item(), item()),
              f"AXI4-Lite: 3 transfers outstanding on {channel}: max_outstanding is too small")


@pytest.mark.parametrize("kwargs, sentence", [
    (dict(signature=BUS), f"AxiLiteChecker signature must be an AxiLiteSignature, not {BUS!r}"),
    (dict(max_outstanding=0), "AxiLiteChecker max_outstanding must be a positive integer, not 0"),
    (dict(manager="check"), 'AxiLiteChecker manager mode must be "assert", "assume" or None, not \'check\''),
])
def test_lite_wrong(kwargs, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        AxiLiteChecker(**{"signature": LITE} | kwargs)
