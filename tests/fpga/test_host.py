# SPDX-License-Identifier: Apache-2.0
"""The host's side of a board, over a pseudo-terminal, against a board in a few lines of Python."""

import os
import struct
import threading
import tty
from binascii import crc_hqx
from contextlib import ExitStack

import pytest

from dmace.cli import main
from fpga.board.host import Board, BoardError
from fpga.board.registers import ID, register_map
from fpga.board.serial_port import SerialPort
from fpga.targets import TARGETS


class Fake(threading.Thread):
    """Responds as a board; words are a dict. ``mute`` frames get no response, ``crack`` responses are corrupted."""

    def __init__(self, *, mute=0, crack=0):
        super().__init__(daemon=True)
        self.master, slave = os.openpty()
        tty.setraw(slave)
        self.port = os.ttyname(slave)
        self._slave = slave
        config = TARGETS["ulx3s-85f"].designs["dma"]
        self.words = {register.offset: register.reset for register in register_map(config).registers}
        self.mute, self.crack, self.seen = mute, crack, []
        self.start()

    def _take(self, count):
        data = b""
        while len(data) < count:
            data += os.read(self.master, count - len(data))
        return data

    def run(self):
        try:
            while True:
                self._respond()
        except OSError:
            return

    def _respond(self):
        assert self._take(1) == b"\xa5"
        header = self._take(7)
        sequence, operation, count, address = struct.unpack("<BBBI", header)
        data = self._take(4 * count) if operation == 2 else b""
        assert int.from_bytes(self._take(2), "big") == crc_hqx(header + data, 0xFFFF)
        self.seen.append((operation, address, count))
        if self.mute:
            self.mute -= 1
            return
        found = []
        for index in range(count):
            if operation == 2:
                self.words[address + 4 * index] = struct.unpack_from("<I", data, 4 * index)[0]
            else:
                found.append(self.words.get(address + 4 * index))
        status = 2 if None in found else 0
        body = struct.pack(f"<BBB{0 if status else len(found)}I", sequence, status, 0 if status else len(found),
                           *([] if status else found))
        crc = crc_hqx(body, 0xFFFF) ^ bool(self.crack)
        self.crack -= bool(self.crack)
        os.write(self.master, b"\x5a" + body + crc.to_bytes(2, "big"))

    def close(self):
        # Without a slave the read fails and the thread ends; only then may the number be another file's.
        os.close(self._slave)
        self.join()
        os.close(self.master)


@pytest.fixture
def fake():
    made = []

    def make(**options):
        made.append(Fake(**options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def line():
    with ExitStack() as ports:
        yield lambda there: ports.enter_context(SerialPort(there.port, 115200))


def test_words_and_bytes(fake, line):
    there = fake()
    board = Board(line(there)).open()
    assert board.config == TARGETS["ulx3s-85f"].designs["dma"]
    board.write_words(0x3000_0000, range(200))
    # No frame is longer than 64 words.
    assert [seen for seen in there.seen if seen[0] == 2] == [
        (2, 0x3000_0000, 64), (2, 0x3000_0100, 64), (2, 0x3000_0200, 64), (2, 0x3000_0300, 8)]
    assert board.read_memory(0, 5, 6) == bytes([0, 0, 0, 2, 0, 0])
    board.write_memory(0, 5, b"abc")
    assert board.read_memory(0, 4, 8) == bytes([1, *b"abc", 2, 0, 0, 0])


@pytest.mark.parametrize("trouble", [{"mute": 1}, {"crack": 2}])
def test_repeats_the_request(fake, line, trouble):
    board = Board(line(fake(**trouble))).open()
    assert board.sent_again == sum(trouble.values())


def test_times_out(fake, line):
    with pytest.raises(BoardError, match=r"^The board does not respond \(tried 3 times\); is it loaded, and is this "
                                         r"its port\?$"):
        Board(line(fake(mute=9))).open()


def test_foreign_board(fake, line):
    there = fake()
    there.words[0] = 0x1234
    with pytest.raises(BoardError, match=rf"^The board says 0x1234, version 1, not {ID:#x}, version 1; build and "
                                         r"load it again\.$"):
        Board(line(there)).open()


def test_command_line(fake, capsys):
    port = fake().port
    assert main(["board", "--port", port, "poke", "0x30000010", "0x11", "0x22"]) == 0
    assert main(["board", "--port", port, "peek", "0x30000010", "2"]) == 0
    assert capsys.readouterr().out == "0x30000010  0x00000011\n0x30000014  0x00000022\n"
    for wrong, sentence in (
            (["--port", port, "peek", "0x2FFFFFFC"], "The board returned BUS_ERROR for READ at 0x2ffffffc."),
            (["--port", port, "peek", "3"], "address must be a multiple of 4 below 2^32, not 0x3."),
            (["--port", "/nowhere", "info"], "--port: /nowhere cannot be opened: "),
            (["--port", port, "copy", "--input", "/nowhere"], "--input: /nowhere cannot be read: "
             "No such file or directory.")):
        assert main(["board", *wrong]) in (1, 2)
        assert capsys.readouterr().err.startswith(f"dmace: {sentence}")
