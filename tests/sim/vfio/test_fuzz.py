# SPDX-License-Identifier: Apache-2.0
"""The vfio-user server under attack: 100,000 messages, most of them wrong, against a build with sanitizers.

The device is a stub, so that what is tested is the server and the memory that it may reach.
"""

import contextlib
import errno
import os
import random
import re
import socket
import struct
import subprocess
import threading
import time

import pytest

from sim.verilator.toolchain import find_compiler

from .client import (
    BAR0,
    BAR2,
    COMMAND,
    CONFIG,
    DMA_MAP,
    DMA_UNMAP,
    GET_INFO,
    GET_IRQ_INFO,
    GET_REGION_INFO,
    HEADER,
    NO_REPLY,
    REGION_READ,
    REGION_WRITE,
    RESET,
    SET_IRQS,
    VERSION,
    Client,
    Refused,
    memory,
)

MESSAGES = 100_000
BODIES = {VERSION: "<2H", DMA_MAP: "<2I3Q", DMA_UNMAP: "<2I2Q", GET_INFO: "<4I", GET_REGION_INFO: "<4I2Q",
          GET_IRQ_INFO: "<4I", SET_IRQS: "<5I", REGION_READ: "<Q2I", REGION_WRITE: "<Q2I", RESET: "<"}
PAGE, STORED = 4096, 0x7FE0


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The server with the stub, with sanitizers."""
    here = os.path.dirname(__file__)
    made = tmp_path_factory.mktemp("stub") / "program"
    subprocess.run([*find_compiler().command, "-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Werror",
                    "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
                    f"-I{here}/../../../sim/vfio", "-o", made, f"{here}/stub.cpp"], check=True)
    return made


class Served:
    """A running server, and what it has said."""

    def __init__(self, program, path, *options):
        self.path = path
        # Descriptors that leak would be used up soon.
        self.process = subprocess.Popen(["prlimit", "--nofile=64", program, "--socket", path, *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout.readline() == f"listening on {path}\n"
        self.said = []
        self._reader = threading.Thread(target=lambda: self.said.extend(self.process.stdout))
        self._reader.start()

    def stop(self):
        """The output, after a stop in good order of a server that is still running, and has served its clients."""
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(self.path))
            last.settimeout(60)
            # The server serves one client after the other, so this one's turn is the end of all others.
            last.sendall(HEADER.pack(0, GET_INFO, HEADER.size + 16, 0, 0) + bytes(16))
            last.recv(1)
            assert self.process.poll() is None, self._end()
            self.process.terminate()
            return self._end()

    def _end(self):
        self.process.wait(60)
        self._reader.join()
        self.process.stdout.close()
        return "".join(self.said)


@pytest.fixture
def served(program, tmp_path):
    started = []

    def start(*options):
        started.append(Served(program, tmp_path / "socket", *options))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one._end()


class Attacker:
    """Random messages; ``canary`` is memory that the server never gets the right to write."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.shared, self.canary, self.small = memory(64 * PAGE), memory(16 * PAGE), memory(PAGE)
        os.pwrite(self.canary, b"\xA5" * 16 * PAGE, 0)
        self.read_only = os.open(f"/proc/self/fd/{self.canary}", os.O_RDONLY)
        self.event, self.null = os.eventfd(0, os.EFD_NONBLOCK), os.open("/dev/null", os.O_RDWR)
        self.mapped = []

    def close(self):
        for fd in (self.shared, self.canary, self.small, self.read_only, self.event, self.null):
            os.close(fd)

    def number(self, bits):
        choice = self.rng.randrange(6)
        if choice == 0:
            return self.rng.getrandbits(bits)
        if choice == 1:
            return (1 << bits) - 1 - self.rng.randrange(PAGE)
        if choice == 2:
            return 1 << self.rng.randrange(bits)
        return self.rng.randrange(64) * (PAGE if bits == 64 else 1)

    def fds(self):
        known = (self.shared, self.small, self.read_only, self.event, self.null)
        return [self.rng.choice(known) for _ in range(self.rng.choice((0, 0, 1, 1, 1, 2, 8, 16)))]

    def body(self, command):
        layout = BODIES.get(command)
        if layout is None or self.rng.random() < 0.03:
            return self.rng.randbytes(self.rng.choice((0, 1, 15, 64, 300)))
        fields = [self.number(64 if code == "Q" else 32 if code == "I" else 16)
                  for code in "".join(c * int(n or 1) for n, c in _codes(layout))]
        if command == DMA_MAP:
            fields = [32, self.rng.choice((0, 1, 2, 3, 3, 3, 7)), *fields[2:]]
            if self.rng.random() < 0.6:
                address, size = self.rng.randrange(256) * PAGE, self.rng.randrange(1, 8) * PAGE
                fields[2:] = self.rng.randrange(8) * PAGE, address, size
        if command == DMA_UNMAP and self.rng.random() < 0.6:
            fields = [24, self.rng.choice((0,) * 9 + (1, 2)), self.rng.randrange(256) * PAGE,
                      self.rng.randrange(1, 12) * PAGE]
        if command == SET_IRQS and self.rng.random() < 0.7:
            fields = [20, self.rng.choice((0x21, 0x24, 0x24, 0x29, 0x11)), self.rng.choice((2, 2, 0, 1)),
                      self.rng.randrange(10), self.rng.randrange(10)]
        if command in (REGION_READ, REGION_WRITE):
            return self.access(command, fields)
        return struct.pack(layout, *fields)

    def access(self, command, fields):
        """An access to a region, half of them valid."""
        region = self.rng.choice((BAR0, BAR2, BAR2, CONFIG, CONFIG, fields[1]))
        count = self.rng.choice((1, 2, 4, 8, 16, 16, 16, 3, 0, 4096, fields[2]))
        offset = self.rng.choice((self.rng.randrange(1 << 10) * 16, self.rng.randrange(1 << 10) * 16,
                                  self.rng.randrange(PAGE), fields[0]))
        data = b""
        if self.rng.random() < 0.3:
            region, offset, count = CONFIG, COMMAND, 2
        if command == REGION_WRITE:
            data = self.rng.randbytes(max(0, min(count, 5000) + self.rng.choice((0,) * 30 + (1, -1))))
            if offset == COMMAND and count == 2:
                data = self.rng.choice((b"\x06\0", b"\x06\0", b"\x06\0", b"\x02\0", data))
            if region == BAR2 and count == 16:
                data = struct.pack("<2Q", *(self.rng.randrange(256 * PAGE) for _ in range(2)))
        return struct.pack("<Q2I", offset & (1 << 64) - 1, region, count & 0xFFFF_FFFF) + data

    def message(self):
        """Bytes, descriptors, whether a reply is due, and whether the length is valid."""
        command = self.rng.choice((*BODIES, *BODIES, *[REGION_WRITE] * 8, *[DMA_MAP] * 3, 0, 6, 11, 12, 14, 15, 99,
                                   65535))
        body, flags = self.body(command), self.rng.choice((0, 0, 0, 0, NO_REPLY, 1, NO_REPLY | 1))
        size = HEADER.size + len(body)
        if self.rng.random() < 0.002:
            size = self.rng.choice((0, 15, 1 << 21, 0xFFFF_FFFF))
        data = HEADER.pack(self.rng.getrandbits(16), command, size, flags, 0) + body
        fds = self.fds()
        if command == DMA_MAP and self.rng.random() < 0.7:
            fds = [self.shared]
        return data, fds, not flags & NO_REPLY, size == HEADER.size + len(body)


def _codes(layout):
    number = ""
    for character in layout[1:]:
        if character.isdigit():
            number += character
        else:
            yield number, character
            number = ""


def test_messages(served, seed):
    """No crash, no leak of a descriptor, no write to memory without the right to it, and work afterwards."""
    server, attacker, sent = served(), Attacker(seed), 0
    while sent < MESSAGES:
        client = Client(server.path)
        if attacker.rng.random() < 0.9:
            client.version()
        try:
            for _ in range(attacker.rng.randrange(1, 4000)):
                data, fds, replies, valid = attacker.message()
                sent += 1
                if attacker.rng.random() < 0.0005:
                    socket.send_fds(client.socket, [data[:attacker.rng.randrange(1, len(data) + 1)]], fds)
                    break
                socket.send_fds(client.socket, [data], fds)
                if not valid:
                    with contextlib.suppress(ConnectionResetError):
                        assert client.socket.recv(1) == b""
                    break
                if replies:
                    client.reply()
        finally:
            client.close()
    assert os.pread(attacker.canary, 16 * PAGE, 0) == b"\xA5" * 16 * PAGE
    attacker.close()
    _work(server.path)
    output = server.stop()
    assert "ERROR: " not in output and "runtime error" not in output, output[-4000:]
    counts = [[int(word) for word in re.findall(r"\d+", line)] for line in output.splitlines()
              if line.startswith("client: ")]
    messages, refused, doorbells, interrupts, _, reads, writes = map(sum, zip(*counts, strict=True))
    assert messages >= MESSAGES * 0.99 and min(refused, messages - refused) > messages / 10
    assert doorbells > 400 and interrupts and reads > 80 and writes, output[-2000:]


def _work(path):
    client = Client(path)
    client.version()
    client.write(CONFIG, COMMAND, 6, 2)
    fd, event = memory(2 * PAGE), os.eventfd(0, os.EFD_NONBLOCK)
    os.pwrite(fd, bytes(range(64)), 0)
    client.dma_map(0x10000, 2 * PAGE, fd)
    client.set_irqs(0, [event])
    client.write(BAR2, 0, struct.pack("<2Q", 0x10000, 0x10000 + PAGE))
    assert client.read(BAR0, 0) == 0
    assert os.pread(fd, 64, PAGE) == bytes(range(64)) and os.eventfd_read(event) == 1
    client.close()
    os.close(fd)
    os.close(event)


def _refusal(call, *arguments, **options):
    with pytest.raises(Refused) as refused:
        call(*arguments, **options)
    return refused.value.args[0]


def test_ranges(served):
    """Ranges that are not what they claim, and rights."""
    server = served()
    client = Client(server.path)
    client.version()
    client.write(CONFIG, COMMAND, 6, 2)
    fd, other, big = memory(4 * PAGE), memory(2 * PAGE), memory(16 * PAGE)
    assert _refusal(client.dma_map, 0, 5 * PAGE, fd) == errno.EINVAL, "the file is shorter"
    assert _refusal(client.dma_map, 0, PAGE, fd, offset=4 * PAGE) == errno.EINVAL
    assert _refusal(client.dma_map, 0, PAGE, fd, offset=2**64 - PAGE) == errno.EINVAL
    assert _refusal(client.dma_map, 0x800, PAGE, fd) == errno.EINVAL
    assert _refusal(client.dma_map, 2**64 - PAGE, 2 * PAGE, fd) == errno.EINVAL
    assert _refusal(client.dma_map, 0, 0, fd) == errno.EINVAL
    assert _refusal(client.dma_map, 0, PAGE, fd, rights=4) == errno.EINVAL
    with open("/dev/null", "rb") as null:
        assert _refusal(client.dma_map, 0, PAGE, null.fileno(), rights=1) == errno.EINVAL
    client.dma_map(0x10000, 4 * PAGE, fd)
    for address, pages in ((0x13000, 1), (0xF000, 2), (0xF000, 9), (0x10000, 4)):
        assert _refusal(client.dma_map, address, pages * PAGE, big) == errno.EEXIST
    for address, pages in ((0x11000, 1), (0x11000, 3), (0xF000, 2)):
        assert _refusal(client.dma_unmap, address, pages * PAGE) == errno.EINVAL, "a part of a range"
    client.dma_unmap(0x20000, PAGE)
    read_only = os.open(f"/proc/self/fd/{other}", os.O_RDONLY)
    assert _refusal(client.dma_map, 0x20000, PAGE, read_only, rights=2) == errno.EACCES
    client.dma_map(0x20000, PAGE, read_only, rights=1)
    client.dma_map(0x30000, PAGE)
    client.dma_map(2**64 - PAGE, PAGE, big)
    client.dma_map(0, PAGE, big)

    def move(source, destination):
        client.write(BAR2, 0, struct.pack("<2Q", source, destination))
        client.read(BAR0, 0)

    os.pwrite(fd, b"\x11" * 64, 0)
    move(0x10000, 0x20000)
    assert not any(os.pread(other, 64, 0)), "the range may only be read"
    move(0x20000, 0x10000)
    assert not any(os.pread(fd, 64, 0))
    os.pwrite(fd, b"\x22" * 64, 0)
    for source in (0x30000, 0x0FFFF, 0x10000 + 4 * PAGE - 63, 2**64 - 32):
        move(source, 0x10040)
        assert not any(os.pread(fd, 64, 64))
    move(0x10000, 0x10000 + 4 * PAGE - 63)
    assert not any(os.pread(fd, 63, 4 * PAGE - 63)), "no byte of a write that is partly outside"
    client.write(CONFIG, COMMAND, 2, 2)
    move(0x10000, 0x10040)
    assert not any(os.pread(fd, 64, 64)), "bus mastering is disabled"
    client.write(CONFIG, COMMAND, 6, 2)
    os.ftruncate(fd, PAGE)
    for source, destination in ((0x12000, 0x10040), (0x10000, 0x12000)):
        move(source, destination)
        assert not any(os.pread(fd, 64, 64)), "the file has become shorter"
    move(0x10000, 0x10040)
    assert os.pread(fd, 64, 64) == b"\x22" * 64
    client.close()
    # Reads from 0x30000, 0x0FFFF, before the end of the range, before the end of addresses, and behind the end of the
    # file; writes to 0x20000, across the end of the range, and behind the end of the file.
    time.sleep(0.1)
    assert "the host refused 5 reads and 3 writes" in server.stop()


def test_halves(served):
    """Two messages of 8 bytes are one store of 16, if they are its halves, consecutive in their page."""
    server = served()
    # With memory access disabled nothing arrives.
    for command in (0, 2):
        client = Client(server.path)
        client.version()
        client.write(CONFIG, COMMAND, command, 2)
        # 0 and 8; 16; 32; 24; in two pages at once: 4096 and 4104, 8192 and 8200; and 0, long before 8.
        for address in (0, 8, 16, 32, 24, PAGE, 2 * PAGE, PAGE + 8, 2 * PAGE + 8, 0):
            client.write(BAR2, address, bytes(8))
        time.sleep(0.1)
        client.write(BAR2, 8, bytes(8))
        client.read(BAR0, 0)
        client.close()
        time.sleep(0.1)
    doorbells = [re.search(r" (\d+) doorbells", line)[1] for line in server.stop().splitlines()]
    assert doorbells == ["0", "8"]


def test_stores(served):
    """A store has the bytes of its halves, and a lone half arrives before anything else that the client does."""
    server = served()
    client = Client(server.path)
    client.version()
    client.write(CONFIG, COMMAND, 2, 2)
    client.write(BAR2, 0, b"lower000")
    client.write(BAR2, 8, b"upper111")
    assert [client.read(BAR0, STORED + at, 8).to_bytes(8, "little") for at in (0, 8)] == [b"lower000", b"upper111"]
    client.write(BAR2, 16, b"lonely22")
    assert [client.read(BAR0, STORED + at, 8).to_bytes(8, "little") for at in (0, 8)] == [b"lonely22", bytes(8)]
    client.write(BAR2, 24, 0x1234, 4)
    assert client.read(BAR0, STORED, 8) == 0x1234
    client.close()
    server.stop()


def test_clients(served):
    """One after the other, each finds nothing of the one before; a server that runs for long keeps no descriptor."""
    server = served()
    fd, events = memory(PAGE), [os.eventfd(0) for _ in range(8)]
    for _ in range(4):
        client = Client(server.path)
        client.version()
        assert client.read(CONFIG, 0) == 0xD3AC_1234 and client.read(CONFIG, COMMAND, 2) == 0
        client.write(CONFIG, 0, 0, 4)
        client.write(CONFIG, COMMAND, 0xFFFF, 2)
        assert client.read(CONFIG, 0) == 0xD3AC_1234 and client.read(CONFIG, COMMAND, 2) == 0x0406
        client.dma_map(0x10000, PAGE, fd)
        for _ in range(20):
            client.set_irqs(0, events)
        client.send(GET_INFO, bytes(16), flags=1)
        assert client.reply()[2] == errno.EINVAL, "a reply is no command"
        client.close()
    for one in (fd, *events):
        os.close(one)
    assert server.stop().count("client: ") == 4


@pytest.mark.parametrize("options, sentence", [
    ([], "--socket PATH is missing."),
    (["--socket"], "--socket needs a value."),
    (["--sockets", "x"], "There is no option --sockets."),
    (["--socket", "/nonexistent/x"], "The socket /nonexistent/x cannot be made: No such file or directory."),
    (["--socket", "x" * 200], f"The path of a socket must be shorter than 108 bytes, not {'x' * 200}."),
])
def test_options(program, options, sentence):
    done = subprocess.run([program, *options], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"{sentence}\n")
