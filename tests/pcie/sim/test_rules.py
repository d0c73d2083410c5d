# SPDX-License-Identifier: Apache-2.0
"""Rules of TLPs: each one broken once, and legal borders of each one."""

import pytest

from sim.pcie.requests import Request, broken_rules
from sim.pcie.rules import CompleterRules, Limits, RequesterRules
from sim.pcie.stream import Violation
from tests.pcie.sim.beats import packet

LIMITS = Limits(max_payload=256, max_read=512, tags=256)


def _request(*, read=False, address=0x1000, dwords=1, first_be=15, last_be=None, payload=None, **fields):
    payload = (0 if read else dwords) if payload is None else payload
    last_be = (15 if dwords > 1 else 0) if last_be is None else last_be
    return packet("rq", [0] * payload, first_be=first_be, last_be=last_be,
                  address=address >> 2, dwords=dwords, request_type=0 if read else 1, **fields)


def _rejected(rule, **options):
    with pytest.raises(Violation, match=rule):
        RequesterRules().request(_request(**options), LIMITS)


@pytest.mark.parametrize("options", [
    {}, {"read": True, "tag": 255}, {"dwords": 64}, {"read": True, "dwords": 128}, {"first_be": 0},
    {"first_be": 0b1001}, {"read": True, "first_be": 0}, {"dwords": 2, "first_be": 0b1010, "last_be": 0b0101},
    {"address": 0x1004, "dwords": 2, "first_be": 0b1000, "last_be": 0b0001}, {"address": 0x1FFC},
    {"address": 0x1F00, "dwords": 64}, {"dwords": 3, "first_be": 0b1100, "last_be": 0b0111}, {"attributes": 7},
    {"address": (1 << 64) - 4}, {"tag": 4},
])
def test_legal_requests_pass(options):
    RequesterRules().request(_request(**options), LIMITS)


@pytest.mark.parametrize("rule, options", [
    (r"length must be from 1 to 1024 DW, not 0 *", {"dwords": 0, "payload": 0, "last_be": 0}),
    ("length must be from 1 to 1024 DW, not 1025", {"dwords": 1025, "read": True}),
    ("a read must have no payload, not 1 DW", {"read": True, "payload": 1}),
    ("the payload must have as many DW as the length says, not 3", {"dwords": 4, "payload": 3}),
    ("the payload must have as many DW as the length says, not 5", {"dwords": 4, "payload": 5}),
    ("must not exceed the maximum payload size of 256 bytes", {"dwords": 65}),
    ("must not exceed the maximum read request size of 512 bytes", {"dwords": 129, "read": True}),
    ("must not cross a 4 KiB boundary", {"address": 0x1FFC, "dwords": 2}),
    ("must not cross a 4 KiB boundary", {"address": 0x1F04, "dwords": 64, "read": True}),
    ("the last byte enables must be 0 with a length of 1 DW", {"last_be": 1}),
    ("the first byte enables must not be 0 with a length above 1 DW", {"dwords": 2, "first_be": 0}),
    ("the last byte enables must not be 0 with a length above 1 DW", {"dwords": 2, "last_be": 0}),
    ("byte enables must be contiguous", {"dwords": 3, "first_be": 0b1010}),
    ("byte enables must be contiguous", {"dwords": 3, "last_be": 0b1010}),
    ("byte enables must be contiguous", {"dwords": 2, "address": 0x1004, "first_be": 0b0111}),
    ("byte enables must be contiguous", {"dwords": 2, "address": 0x1004, "last_be": 0b1110}),
    ("the field address_type must be 0", {"address_type": 2}),
    ("the field poisoned must be 0", {"poisoned": 1}),
    ("the field traffic_class must be 0 in the adapter's requests, not 3", {"traffic_class": 3}),
    ("the field requester_function must be 0", {"requester_function": 1}),
    ("the field requester_bus must be 0", {"requester_bus": 5}),
    ("the field requester_id_enable must be 0", {"requester_id_enable": 1}),
    ("the field completer_id must be 0", {"completer_id": 9}),
    ("the field force_ecrc must be 0", {"force_ecrc": 1}),
])
def test_requests(rule, options):
    _rejected(rule, **options)


def test_messages_name_the_request():
    _rejected("^RQ, memory read of 129 DW at 0x12340, byte enables 0xf and 0xf, tag 7: a read must not exceed",
              read=True, dwords=129, address=0x12340, tag=7)


@pytest.mark.parametrize("kind", [2, 3, 4, 8, 12])
def test_only_memory_requests_are_sent(kind):
    one = Request.decode(packet("rq", request_type=kind, dwords=1), "rq")
    assert list(broken_rules(one, max_payload=128, max_read=128)) == ["the adapter sends memory reads and writes only"]


def test_discontinue_and_bus_master():
    one = _request()
    one.discontinue = True
    with pytest.raises(Violation, match="the adapter never discontinues a packet"):
        RequesterRules().request(one, LIMITS)
    with pytest.raises(Violation, match="no request may be sent while bus mastering is disabled"):
        RequesterRules().request(_request(), Limits(bus_master=False))


def _done(tag, *, completed=1, **fields):
    return packet("rc", tag=tag, request_completed=completed, **fields)


def test_tags():
    rules = RequesterRules()
    rules.request(_request(read=True, tag=31), Limits())
    with pytest.raises(Violation, match="the tag must be below 32"):
        rules.request(_request(read=True, tag=32), Limits())
    with pytest.raises(Violation, match=r"the tag is in use by the memory read of 1 DW at 0x1000.*tag 31"):
        rules.request(_request(read=True, tag=31, address=0x2000), Limits())
    rules.completion(_done(31, completed=0))
    with pytest.raises(Violation, match="the tag is in use"):
        rules.request(_request(read=True, tag=31), Limits())
    with pytest.raises(Violation, match="the request has not completed at the end"):
        rules.finish()
    rules.completion(_done(31))
    rules.finish()
    rules.completion(_done(31))
    rules.request(_request(read=True, tag=31), Limits())
    rules.reset()
    rules.request(_request(read=True, tag=31), Limits())
    rules.request(_request(), Limits())
    assert (rules.reads, rules.writes) == (3, 1)


def _arrive(rules, *, kind=0, address=0x1000, dwords=1, first_be=15, last_be=None, **fields):
    fields = {"tag": 9, "requester_id": 0x0508, "traffic_class": 2, "attributes": 5, **fields}
    request = packet("cq", [0] * (dwords if kind == 1 else 0), first_be=first_be,
                     last_be=(15 if dwords > 1 else 0) if last_be is None else last_be,
                     address=address >> 2, dwords=dwords, request_type=kind, **fields)
    rules.request(request)
    return request


def _complete(rules, request=None, *, dwords=1, payload=None, flip=None, **fields):
    """A completion; an unsuccessful one of ``request`` is followed by its byte enables and descriptor (PG213)."""
    fields = {"tag": 9, "requester_id": 0x0508, "traffic_class": 2, "attributes": 5, "byte_count": 4, **fields}
    words = [0] * (dwords if payload is None else payload)
    if request is not None and fields.get("status") and payload is None:
        words = [request.first_be | request.last_be << 4, *request.words[:4]]
        if flip is not None:
            words[flip] ^= 1
    rules.completion(packet("cc", words, dwords=dwords, **fields), LIMITS)


def test_legal_completions_pass():
    rules = CompleterRules()
    _arrive(rules, kind=1)
    assert not rules.outstanding
    _arrive(rules)
    _complete(rules)
    _arrive(rules, address=0x1044, first_be=0b1100)
    _complete(rules, lower_address=0x46, byte_count=2)
    _arrive(rules, first_be=0)
    _complete(rules, byte_count=1)
    # 0x1041 to 0x12FD, in three completions.
    _arrive(rules, address=0x1040, dwords=176, first_be=0b1110, last_be=0b0001)
    _complete(rules, lower_address=0x41, byte_count=700, dwords=48)
    _complete(rules, lower_address=0x00, byte_count=509, dwords=64)
    _complete(rules, lower_address=0x00, byte_count=253, dwords=64)
    for status, lower_address in ((1, 0), (4, 0x10)):
        request = _arrive(rules, address=0x1010, dwords=4)
        _complete(rules, request, dwords=0, status=status, byte_count=16, lower_address=lower_address)
    _arrive(rules, kind=3)
    _complete(rules, dwords=0)
    request = _arrive(rules, kind=5)
    _complete(rules, request, dwords=0, status=1)
    rules.finish()
    assert rules.completions == 10


@pytest.mark.parametrize("rule, request_options, options", [
    ("no request with this requester and tag is in flight", {}, {"tag": 8}),
    ("no request with this requester and tag is in flight", {}, {"requester_id": 0x0500}),
    ("no request with this requester and tag is in flight", {"kind": 1}, {}),
    ("the field traffic_class must be as in the request, 2, not 0", {}, {"traffic_class": 0}),
    ("the field attributes must be as in the request, 5, not 4", {}, {"attributes": 4}),
    ("the completer's function must be the request's target, 0, not 1", {}, {"completer_function": 1}),
    ("the payload must have as many DW as the length says, not 2", {}, {"payload": 2}),
    ("the status must be 0, 1 or 4", {}, {"status": 2, "dwords": 0}),
    ("the byte count must be the remaining 4 bytes", {}, {"byte_count": 3}),
    ("the byte count must be the remaining 8 bytes", {"dwords": 2}, {"byte_count": 4, "dwords": 2}),
    ("the byte count must be the remaining 4 bytes", {}, {"byte_count": 0, "dwords": 0, "status": 1}),
    ("an unsuccessful completion must have no data", {}, {"status": 1}),
    ("an unsuccessful completion must be followed by byte enables and descriptor", {},
     {"status": 1, "dwords": 0, "payload": 0}),
    ("the byte enables behind an unsuccessful completion must be", {}, {"status": 4, "dwords": 0, "flip": 0}),
    *(("the descriptor behind an unsuccessful completion must be", {}, {"status": 1, "dwords": 0, "flip": flip})
      for flip in range(1, 5)),
    ("the lower address must be 0 or 0x10 in an unsuccessful", {"address": 0x1010},
     {"status": 1, "dwords": 0, "lower_address": 4}),
    ("a successful completion of a read must have data", {}, {"dwords": 0}),
    ("the lower address must be 0x2, from the first byte at 0x1002", {"first_be": 12}, {"byte_count": 2}),
    ("must not exceed the maximum payload size of 256 bytes", {"dwords": 80}, {"dwords": 80, "byte_count": 320}),
    ("a completion must end at the request's end or at a multiple of 128 bytes", {"dwords": 64},
     {"dwords": 16, "byte_count": 256}),
    ("the length must not exceed the remaining 4 bytes", {}, {"dwords": 2}),
    ("only a read completes with data", {"kind": 5}, {}),
    ("the byte count must be 4 without a memory read", {"kind": 5}, {"dwords": 0, "byte_count": 0}),
    ("the lower address must be 0 without a memory read", {"kind": 5}, {"dwords": 0, "lower_address": 4}),
    *((f"the field {name} must be 0, not 1", {}, {name: 1}) for name in (
        "address_type", "locked", "poisoned", "completer_bus", "completer_id_enable", "force_ecrc", "_reserved_0",
        "_reserved_1", "_reserved_2", "_reserved_3")),
])
def test_completions(rule, request_options, options):
    rules = CompleterRules()
    request = _arrive(rules, **request_options)
    with pytest.raises(Violation, match=rule):
        _complete(rules, request, **options)


def test_second_completion():
    """The second one continues where the first one ended; behind the last one there is none."""
    rules = CompleterRules()
    _arrive(rules, dwords=64)
    _complete(rules, dwords=32, byte_count=256)
    with pytest.raises(Violation, match="the byte count must be the remaining 128 bytes"):
        _complete(rules, dwords=32, byte_count=256)
    with pytest.raises(Violation, match="the request has not completed at the end"):
        rules.finish()
    _complete(rules, dwords=32, byte_count=128)
    with pytest.raises(Violation, match="no request with this requester and tag"):
        _complete(rules, dwords=32, byte_count=128)


def test_discontinued_completion():
    rules = CompleterRules()
    _arrive(rules)
    one = packet("cc", [0], tag=9, requester_id=0x0508, dwords=1)
    one.discontinue = True
    with pytest.raises(Violation, match="the adapter never discontinues a packet"):
        rules.completion(one, LIMITS)


def test_requests_of_others():
    rules = CompleterRules()
    _arrive(rules)
    _arrive(rules, requester_id=0x0600)
    with pytest.raises(Violation, match="the requester uses a tag that is in flight"):
        _arrive(rules)
    rules.reset()
    _arrive(rules)
    assert rules.outstanding == 1
