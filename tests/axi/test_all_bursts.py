# SPDX-License-Identifier: Apache-2.0
"""The AXI4 monitor with FIXED and WRAP bursts and exclusive accesses."""

import re

import pytest

from hw.axi import AxiChecker, AxiSignature, Burst, Resp
from tests.axi.bench import play

BUS = AxiSignature(addr_width=16, data_width=64, id_width=1)


def check(*cycles):
    play(AxiChecker(BUS, bursts="all", exclusive=True), cycles)


def ar(**pins):
    return {"arvalid": 1, "arready": 1, "arsize": 3, **pins}


@pytest.mark.parametrize("pins", [
    dict(arburst=Burst.WRAP, arlen=3, araddr=0x18), dict(arburst=Burst.FIXED, arlen=15, araddr=0xFFF),
    dict(arburst=Burst.INCR, arlen=15, araddr=0x80, arlock=1), dict(arburst=Burst.INCR, araddr=0x8, arlock=1)])
def test_legal(pins):
    check(ar(**pins), {})


@pytest.mark.parametrize("pins, message", [
    (dict(arburst=Burst.WRAP, arlen=2), "ARLEN is 2 for a WRAP burst"),
    (dict(arburst=Burst.WRAP, arlen=3, araddr=4), "a WRAP burst is not aligned: ARADDR=0x4 ARSIZE=3"),
    (dict(arburst=Burst.FIXED, arlen=16), "ARLEN is 16 for a FIXED burst"),
    (dict(arburst=Burst.INCR, arlen=2, arlock=1), "ARLEN is 2 for an exclusive access"),
    (dict(arburst=Burst.INCR, arlen=3, araddr=8, arlock=1), "an exclusive access is longer than 128 bytes, or not"),
    (dict(arburst=Burst.INCR, arlen=31, arlock=1), "ARLEN is 31 for an exclusive access"),
])
def test_illegal(pins, message):
    with pytest.raises(AssertionError, match=re.escape(message)):
        check(ar(**pins), {})


def test_exokay_needs_an_exclusive_access():
    r = {"rvalid": 1, "rready": 1, "rlast": 1, "rresp": Resp.EXOKAY}
    check(ar(arburst=Burst.INCR, arlock=1), r, {})
    with pytest.raises(AssertionError, match="RRESP is EXOKAY for an access that is not exclusive"):
        check(ar(arburst=Burst.INCR), r, {})


def write(burst, strobe, *, length, beat):
    """A write burst at 0x6, of 2 bytes a beat, whose beat ``beat`` has the strobes ``strobe``, and the others none."""
    beats = [{"wvalid": 1, "wready": 1, "wstrb": strobe if number == beat else 0, "wlast": number == length}
             for number in range(length + 1)]
    return [{"awvalid": 1, "awready": 1, "awaddr": 0x6, "awlen": length, "awsize": 1, "awburst": burst}, *beats, {}]


@pytest.mark.parametrize("burst, length, beat, strobe", [
    (Burst.INCR, 1, 1, 0x03), (Burst.FIXED, 1, 1, 0xC0), (Burst.WRAP, 1, 1, 0x30), (Burst.WRAP, 3, 1, 0x03)])
def test_lanes(burst, length, beat, strobe):
    check(*write(burst, strobe, length=length, beat=beat))
    with pytest.raises(AssertionError, match="is outside the lanes of beat 1"):
        check(*write(burst, strobe ^ 0xFF, length=length, beat=beat))
