# SPDX-License-Identifier: Apache-2.0
"""The golden model against values worked out by hand, and against a byte array."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hw.common.words import CompletionWord
from hw.dma_engine.config import TINY
from hw.dma_engine.model.engine import DmaModel
from hw.dma_engine.model.memory import Memory
from hw.dma_engine.model.state import LogEntry
from hw.dma_engine.words import Command, NativeWord, RequestFlag, Status

SOURCE, DESTINATION, SC, RC = 0x1_0000_0000, 0xFFFF_FFFF_0000_0000, 0x9000, 0xA008


def model(*, queue=1, **queue_options):
    """A model with 64 KiB to copy from (region 2) and to (region 5), and a queue that may."""
    made = DmaModel(TINY)
    made.memory.write(SOURCE, bytes(number % 251 for number in range(0x1_0000)))
    made.define_region(2, base=SOURCE, length=0x1_0000, domain=7, writable=False)
    made.define_region(5, base=DESTINATION, length=0x1_0000, domain=7, readable=False)
    made.configure_queue(queue, **{"domain": 7, "sc": SC, "rc": RC, **queue_options})
    made.command(queue, Command.START)
    return made


def copy(length=4, source=10, destination=20, flags=RequestFlag.SC | RequestFlag.RC, **fields):
    return NativeWord.copy(src=(2, source), dst=(5, destination), length=length, flags=flags)._replace(**fields)


def word(made, address):
    return CompletionWord.unpack(int.from_bytes(made.memory.read(address, 8), "little"))


class TestMemory:
    def test_what_was_never_written_is_zero(self):
        assert Memory().read(0xFFF, 3) == b"\0\0\0"

    def test_top_of_the_address_space(self):
        memory = Memory()
        memory.write((1 << 64) - 2, b"\1\2")
        assert memory.read((1 << 64) - 3, 3) == b"\0\1\2"

    def test_undefined_bytes_are_never_different(self):
        memory = Memory()
        memory.write(0xFFE, b"abcd")
        memory.discard(0xFFF, 2)
        assert memory.differences(0xFFE, b"axyd") == []
        assert memory.differences(0xFFE, b"bxyc") == [0xFFE, 0x1001]

    def test_undefined_until_written(self):
        memory = Memory()
        memory.discard(0, 8)
        memory.write(2, b"ab")
        assert list(memory.undefined(0, 8)) == [True, True, False, False, True, True, True, True]
        assert memory.undefined(2, 2) is None

    @given(st.lists(st.tuples(st.integers(0, 9000), st.binary(min_size=1, max_size=5000)), max_size=8))
    def test_like_a_byte_array(self, writes):
        memory, plain = Memory(), bytearray(16_000)
        for address, data in writes:
            memory.write(0x7000 + address, data)
            plain[address:address + len(data)] = data
        assert memory.read(0x7000, len(plain)) == plain


class TestCopies:
    def test_bytes_and_nothing_else(self):
        made = model()
        assert made.post(1, copy(4, 10, 20))
        assert made.memory.read(DESTINATION + 19, 6) == bytes([0, 10, 11, 12, 13, 0])

    def test_words_count(self):
        made = model()
        made.post(1, copy(flags=RequestFlag.RC))
        made.post(1, copy(flags=0))
        made.post(1, copy(flags=RequestFlag.SC))
        assert word(made, SC) == (3, 0, Status.OK)
        assert word(made, RC) == (1, 0, Status.OK)
        assert made.state(1)["count"] == 3

    def test_irq_flag(self):
        made = model()
        made.post(1, copy())
        assert not made.irq_completion
        made.post(1, copy(flags=RequestFlag.IRQ))
        assert made.irq_completion and not made.irq_error

    def test_integer_words(self):
        made = model()
        made.post(1, copy().pack())
        assert made.memory.read(DESTINATION + 20, 4) == bytes([10, 11, 12, 13])

    def test_undefined_bytes_are_copied_as_such(self):
        made = model()
        made.memory.discard(SOURCE + 11, 1)
        made.post(1, copy(3))
        assert list(made.memory.undefined(DESTINATION + 20, 3)) == [False, True, False]

    @given(st.integers(1, 0x2000), st.integers(0, 0xE000), st.integers(0, 0xE000))
    def test_like_slices(self, length, source, destination):
        made = model()
        made.post(1, copy(length, source, destination))
        expected = bytes(number % 251 for number in range(source, source + length))
        assert made.memory.read(DESTINATION + destination, length) == expected


class TestChecks:
    @pytest.mark.parametrize(("request_", "status"), [
        (copy(opcode=0), Status.MALFORMED),
        (copy(opcode=2), Status.MALFORMED),
        (copy(flags=0x10), Status.MALFORMED),
        (copy(flags=0x80), Status.MALFORMED),
        (copy(0), Status.ZERO_LENGTH),
        (copy(src_region=3), Status.SRC_REGION),
        (copy(src_region=255), Status.SRC_REGION),
        (copy(src_region=4), Status.SRC_REGION),
        (copy(src_region=6), Status.SRC_DOMAIN),
        (copy(src_region=5), Status.SRC_RIGHTS),
        (copy(4, 0xFFFD), Status.SRC_BOUNDS),
        (copy(1, 0x1_0000), Status.SRC_BOUNDS),
        (copy((1 << 28) - 1, (1 << 36) - 1), Status.SRC_BOUNDS),
        (copy(dst_region=3), Status.DST_REGION),
        (copy(dst_region=16), Status.DST_REGION),
        (copy(dst_region=6), Status.DST_DOMAIN),
        (copy(dst_region=2), Status.DST_RIGHTS),
        (copy(4, 0, 0xFFFD), Status.DST_BOUNDS),
        (copy(4, 0xFFFC, 0xFFFC), Status.OK),
    ])
    def test_status(self, request_, status):
        made = model(skip_errors=True)
        made.define_region(4, base=0, length=0x1000, domain=7, valid=False)
        made.define_region(6, base=0, length=0x1000, domain=8)
        before = made.memory.read(DESTINATION, 0x1_0000)
        assert made.post(1, request_)
        assert made.queues[1].status is status
        if status is not Status.OK:
            assert made.log == [LogEntry(1, status, 0)]
            assert made.memory.read(DESTINATION, 0x1_0000) == before

    @pytest.mark.parametrize(("first", "second"), [
        (dict(opcode=0), dict(length=0)),
        (dict(length=0), dict(src_region=3)),
        (dict(src_region=3), dict(dst_region=3)),
        (dict(src_region=6), dict(src_offset=0xFFFF_FFFF)),
        (dict(src_offset=0xFFFF_FFFF), dict(dst_region=3)),
        (dict(dst_region=2), dict(dst_offset=0xFFFF_FFFF)),
    ])
    def test_the_first_of_two_decides(self, first, second):
        made = model()
        made.define_region(6, base=0, length=0x1000, domain=8)
        assert made.check(1, copy(**first, **second)) is made.check(1, copy(**first))
        assert made.check(1, copy(**second)) is not Status.OK

    @pytest.mark.parametrize(("options", "flags", "status"), [
        (dict(sc=None), RequestFlag.SC, Status.MALFORMED),
        (dict(sc=None), RequestFlag.RC, Status.OK),
        (dict(rc=None), RequestFlag.SC | RequestFlag.RC, Status.MALFORMED),
        (dict(sc=None, rc=None), 0, Status.OK),
    ])
    def test_words_that_the_queue_has_not(self, options, flags, status):
        assert model(**options).check(1, copy(flags=flags)) is status

    def test_partial_store(self):
        made = model()
        assert made.post(1, copy(), strobes=0x00FF)
        assert made.log == [LogEntry(1, Status.MALFORMED, 0)]

    def test_store_of_nothing(self):
        made = model()
        assert made.post(1, copy(), strobes=0) and made.post(0, copy(), strobes=0)
        assert made.log == [] and made.state(1)["count"] == 0 and made.words == made.refused == 0


class TestMemoryErrors:
    @pytest.mark.parametrize(("read", "write", "status"), [
        ({0: "SLVERR"}, {}, Status.READ_SLVERR),
        ({1: "DECERR"}, {}, Status.READ_DECERR),
        ({1: "DECERR", 2: "SLVERR"}, {}, Status.READ_DECERR),
        ({}, {2: "SLVERR"}, Status.WRITE_SLVERR),
        ({}, {1: "DECERR", 2: "SLVERR"}, Status.WRITE_DECERR),
        ({2: "SLVERR"}, {0: "DECERR"}, Status.READ_SLVERR),
        ({3: "SLVERR"}, {3: "SLVERR"}, Status.OK),
    ])
    def test_which_decides(self, read, write, status):
        made = model()
        for page, response in read.items():
            made.fail_page(SOURCE + page * 4096 + 17, read=response)
        for page, response in write.items():
            made.fail_page(DESTINATION + page * 4096, write=response)
        made.post(1, copy(0x3000, 0, 0))
        assert made.queues[1].status is status

    def test_only_the_destination_is_undefined(self):
        made = model()
        made.fail_page(SOURCE, read="SLVERR")
        made.post(1, copy(100, 10, 20))
        assert made.memory.undefined(DESTINATION + 20, 100).all()
        assert made.memory.undefined(DESTINATION, 20) is None
        assert made.memory.undefined(DESTINATION + 120, 20) is None

    def test_a_repaired_page(self):
        made = model(skip_errors=True)
        made.fail_page(SOURCE, read="SLVERR", write="DECERR")
        made.post(1, copy())
        made.repair_page(SOURCE + 5)
        made.post(1, copy())
        assert word(made, SC) == (2, 1, Status.READ_SLVERR)
        assert made.memory.undefined(DESTINATION, 100) is None


class TestHolding:
    def test_holds_until_cleared(self):
        made = model()
        made.post(1, copy())
        made.post(1, copy(0))
        made.post(1, copy(destination=40))
        assert made.state(1) == {"enabled": 1, "held": 1, "refusing": 0, "resetting": 0, "count": 1, "failed": 1,
                                 "status": Status.ZERO_LENGTH}
        assert word(made, SC) == word(made, RC) == (1, 1, Status.ZERO_LENGTH)
        assert made.memory.read(DESTINATION + 40, 4) == bytes(4)
        made.command(1, Command.CLEAR)
        assert word(made, SC) == word(made, RC) == (3, 1, Status.OK)
        assert made.memory.read(DESTINATION + 40, 4) == bytes([10, 11, 12, 13])
        assert made.log == [LogEntry(1, Status.ZERO_LENGTH, 1)]
        assert made.irq_error

    def test_failure_publishes_without_flags(self):
        made = model()
        made.post(1, copy(0, flags=0))
        assert word(made, SC) == word(made, RC) == (0, 1, Status.ZERO_LENGTH)

    def test_skips(self):
        made = model(skip_errors=True)
        made.post(1, copy(0, flags=0))
        made.post(1, copy())
        assert made.state(1)["held"] == 0
        assert word(made, RC) == (2, 1, Status.ZERO_LENGTH)
        made.command(1, Command.CLEAR)
        assert word(made, RC) == (2, 1, Status.OK)

    def test_other_queues_go_on(self):
        made = model()
        made.configure_queue(3, domain=7)
        made.command(3, Command.START)
        made.post(1, copy(0))
        made.post(3, copy(flags=0))
        assert made.state(3)["count"] == 1


class TestRefusing:
    def test_overflow(self):
        made = model()
        made.command(1, Command.PAUSE)
        accepted = [made.post(1, copy(destination=8 * number)) for number in range(12)]
        assert accepted == [True] * 9 + [False] * 3
        assert made.log == [LogEntry(1, Status.OVERFLOW, 0)]
        assert word(made, SC) == (0, 1, Status.OVERFLOW)
        assert (made.words, made.refused) == (9, 3)
        made.command(1, Command.START)
        assert word(made, SC) == (9, 1, Status.OVERFLOW)
        assert not made.post(1, copy())
        made.command(1, Command.CLEAR)
        assert made.post(1, copy())
        assert word(made, SC) == (10, 1, Status.OK)

    def test_a_running_queue_is_full_when_the_hardware_says_so(self):
        made = model()
        assert made.post(1, copy(), accepted=True)
        assert not made.post(1, copy(), accepted=False)
        assert made.log == [LogEntry(1, Status.OVERFLOW, 1)]

    def test_disabled(self):
        made = model()
        assert not made.post(0, copy()) and not made.post(0, copy())
        assert made.log == [LogEntry(0, Status.DISABLED, 0)]
        assert made.state(0) == {"enabled": 0, "held": 0, "refusing": 1, "resetting": 0, "count": 0, "failed": 0,
                                 "status": 0}
        made.configure_queue(0, domain=7)
        made.command(0, Command.START)
        assert made.post(0, copy(flags=0))
        assert made.state(0)["count"] == 1


class TestReset:
    def test_zeroes_without_publishing(self):
        made = model()
        made.post(1, copy())
        made.command(1, Command.RESET)
        assert made.state(1)["count"] == 0 and made.state(1)["enabled"] == 0
        assert word(made, SC) == (1, 0, Status.OK)
        assert not made.post(1, copy())

    def test_discards_what_was_paused(self):
        made = model()
        made.command(1, Command.PAUSE)
        made.post(1, copy())
        made.command(1, Command.RESET)
        made.command(1, Command.START)
        assert made.state(1)["count"] == 0
        assert made.memory.undefined(DESTINATION, 100) is None
        assert made.memory.read(DESTINATION, 100) == bytes(100)

    def test_what_may_have_begun_is_undefined(self):
        made = model()
        made.post(1, copy(0))
        made.post(1, copy(50, destination=40))
        made.post(1, copy(50, destination=0x1_0000))
        made.command(1, Command.RESET)
        assert made.memory.undefined(DESTINATION + 40, 50).all()
        assert made.memory.undefined(DESTINATION, 40) is None
        assert made.memory.undefined(DESTINATION + 90, 0x1_0000) is None


class TestTimeOut:
    @pytest.mark.parametrize("early", [True, False])
    def test_ends_after_the_late_response(self, early):
        made = model()
        made.withhold(SOURCE)
        made.post(1, copy())
        made.post(1, copy(source=0x2000, destination=40))
        assert made.state(1)["count"] == 0
        made.time_out(1)
        assert word(made, SC) == (0, 1, Status.TIMEOUT)
        if early:
            made.release(SOURCE)
            assert made.state(1)["count"] == 0
            made.command(1, Command.CLEAR)
        else:
            made.command(1, Command.CLEAR)
            assert word(made, SC) == (0, 1, Status.OK)
            made.release(SOURCE)
        assert word(made, SC) == (2, 1, Status.OK)
        assert made.log == [LogEntry(1, Status.TIMEOUT, 0)]

    def test_needs_something_to_wait_for(self):
        with pytest.raises(ValueError, match=r"^Queue 1 must be waiting for memory to time out$"):
            model().time_out(1)


def test_completion_error():
    made = model()
    made.fail_page(SC, write="DECERR")
    made.post(1, copy())
    assert made.log == [LogEntry(1, Status.COMPLETION_ERROR, 1)]
    assert made.state(1)["failed"] == 0 and made.state(1)["status"] == 0
    assert word(made, RC) == (1, 0, Status.OK)
    assert made.memory.undefined(SC, 8).all()


def test_unknown_command():
    with pytest.raises(ValueError, match=re.escape("7 is not a valid Command")):
        model().command(1, 7)
