# SPDX-License-Identifier: Apache-2.0
"""A board as a device of the runtime, over a pseudo-terminal; its engine is the test double of libdmace's tests."""

import ctypes
import errno
import mmap
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dmace
from dmace.cli import main
from dmace.libdmace.build import FLAGS, c_compiler, library
from dmace.runtime import names
from dmace.runtime.device import open_transport
from dmace.runtime.transport import Table
from fpga.board.host import BoardError
from fpga.board.registers import register_map
from fpga.board.transport import BoardTransport
from fpga.targets import TARGETS
from hw.dma_engine.config import PRESETS
from hw.dma_engine.registers import register_map as engine_registers
from hw.dma_engine.words import NativeWord, RequestFlag, Status
from hw.regs import Access
from tests.fpga.test_host import Fake

FAKE = Path(__file__).parents[1] / "dmace" / "libdmace" / "fake_card.c"
CONFIG = TARGETS["ulx3s-85f"].designs["dma"]
REGISTERS, DOORBELLS, MEMORY = 1, 2, 3
EVERYTHING = RequestFlag.SC | RequestFlag.RC


class Words:
    """Words of a board, by their addresses: its own registers, those of the card, its doorbells and its memory."""

    def __init__(self, path, config=CONFIG):
        self.board = {register.offset: register.reset for register in register_map(config).registers}
        table, self.context, text = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(200)
        self.binding = ctypes.CDLL(str(path))
        places = [ctypes.byref(place) for place in (table, self.context)]
        assert self.binding.dmace_transport_open(b"zero", *places, text, 200) == 0
        self.card = ctypes.cast(table, ctypes.POINTER(Table)).contents
        assert self.card.reset(self.context) == 0
        self.pages = mmap.mmap(-1, config.memory)
        self.memory = np.frombuffer(self.pages, np.uint32)
        address = ctypes.c_uint64(1)
        assert self.card.map(self.context, self.memory.ctypes.data, config.memory, 3, ctypes.byref(address)) == 0
        assert address.value == 0
        self.stored = b""

    def get(self, address):
        space, offset = address >> 28, address & 0xFF_FFFF
        if space == REGISTERS:
            value = ctypes.c_uint32()
            assert self.card.read(self.context, offset, ctypes.byref(value)) == 0
            return value.value
        if space == MEMORY:
            return int(self.memory[offset // 4]) if offset < len(self.pages) else None
        return self.board.get(address)

    def __setitem__(self, address, value):
        space, offset = address >> 28, address & 0xFF_FFFF
        if space == REGISTERS:
            assert self.card.write(self.context, offset, value) == 0
        elif space == MEMORY:
            self.memory[offset // 4] = value
        elif space == DOORBELLS:
            self.stored += value.to_bytes(4, "little")
            if offset % 16 == 12:
                assert self.card.store(self.context, offset - 12, self.stored, len(self.stored)) == 0
                self.stored = b""
        else:
            self.board[address] = value

    def close(self):
        self.card.close(self.context)


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """The test double as a library."""
    made = tmp_path_factory.mktemp("fake") / "fake_card.so"
    subprocess.run([*c_compiler(), *FLAGS, "-I", library().parent, "-fPIC", "-pthread", "-shared", FAKE, "-o", made],
                   check=True)
    return made


@pytest.fixture
def there(engine):
    """The board at the other end of a pseudo-terminal."""
    fake = Fake()
    fake.words = words = Words(engine)
    yield fake
    fake.close()
    words.close()


@pytest.fixture
def device(there):
    with dmace.open(f"uart:{there.port}") as opened:
        yield opened


def test_info(device):
    info = device.info
    assert (info.transport, info.queues, info.regions, info.vectors) == ("uart", 8, 16, 0)
    assert device.cycles() is None
    assert [device.read_register(offset) for offset in (0x1000, 0x2000, 0x4000)] == [0xFFFF_FFFF] * 3


def test_copies(device, seed):
    data = np.random.default_rng(seed).bytes(3000)
    source, target = device.allocate(3000), device.allocate(3001)
    source.write(data)
    assert target.read() == bytes(3001)
    with device.queue() as queue:
        for _ in range(20):     # more than the queue can hold
            request = queue.copy(target[1:], source)
        request.wait(10)
        assert target.read() == b"\0" + data
        queue.copy(target[:5], source[7:12]).wait(10)
        assert target[:8].read() == data[7:12] + data[4:7]
        statistics = queue.statistics()
    assert (statistics.requests, statistics.failed) == (21, 0)


def test_threads_share_a_board(device):
    def work(number):
        memory = device.allocate(512)
        memory.write(bytes([number]) * 256)
        with device.queue() as queue:
            for _ in range(10):
                queue.copy(memory[256:], memory[:256]).wait(10)
        return memory[256:].read() == bytes([number]) * 256

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(1, 5)))


def test_interpreter_exit(there):
    """A program that closes nothing ends in good order."""
    text = (f"import dmace\ndevice = dmace.open('uart:{there.port}')\nmemory = device.allocate(64)\n"
            "queue = device.queue()\nqueue.copy(memory[:8], memory[8:16])\nprint('done')\n")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=60,
                          cwd=os.getcwd())
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    with dmace.open(f"uart:{there.port}") as device:
        assert device.info.queues == 8


def test_rings_and_signals(device):
    source, target = device.allocate(256), device.allocate(256)
    source.write(bytes(range(256)))
    with device.queue(ring=4) as queue:
        queue.copy_2d(target, source[128:], length=4, rows=3, to_stride=8, source_stride=16).wait(10)
        assert target[:24].read() == b"".join(bytes(range(at, at + 4)) + bytes(4) for at in (128, 144, 160))
        queue.signal(target[64:72], 77).wait(10)
    assert target[64:72].read() == (77).to_bytes(8, "little")


def test_failures(device):
    memory = device.allocate(64)
    with device.queue() as queue:
        wrong = queue.post(NativeWord.copy(src=(15, 0), dst=(memory.region, 0), length=8, flags=EVERYTHING))
        good = queue.copy(memory[8:16], memory[:8])
        with pytest.raises(dmace.RequestFailed) as raised:
            wrong.wait(10)
        assert raised.value.result is Status.SRC_REGION
        good.wait(10)
    with pytest.raises(dmace.DmaceError, match=r"^The transport uart cannot map memory of this process; use "
                                               r"dmace_alloc\(\)\.$"):
        device.register(np.arange(10))


def test_memory_is_the_boards(device):
    free = CONFIG.memory
    everything = device.allocate(free)
    with pytest.raises(dmace.DmaceError, match=rf"^Allocating memory of the card: The board's memory has {free:,} "
                                               r"bytes, of which 0 are free in one piece, not 4,096\.$") as raised:
        device.allocate(1)
    assert raised.value.code == errno.ENOMEM
    everything.close()
    first, second, third = (device.allocate(4096) for _ in range(3))
    first.close()
    third.close()
    second.close()
    device.allocate(free).close()


def test_reset(device):
    memory, queue = device.allocate(64), device.queue()
    device.reset()
    with pytest.raises(dmace.DmaceError):
        queue.copy(memory[:8], memory[8:16])
    memory.close()
    queue.close()
    again = device.allocate(64)
    with device.queue() as other:
        other.copy(again[:8], again[8:16]).wait(10)


def test_opened_again(there):
    """Registers that something else has written have their reset values again."""
    for _ in range(2):
        device = dmace.open(f"uart:{there.port}")
        for _ in range(4):
            memory, queue = device.allocate(64), device.queue()
            queue.copy(memory[:8], memory[8:16]).wait(10)
        device.close()
    for offset, value in ((0x14, 7), (0xE8, 5)):
        there.words[REGISTERS << 28 | offset] = value
    with dmace.open(f"uart:{there.port}") as device:
        resets = engine_registers(PRESETS["tiny"])
        assert [device.read_register(resets[name].offset) for name in ("IRQ_ENABLE", "WATCHDOG")] \
            == [resets[name].reset for name in ("IRQ_ENABLE", "WATCHDOG")]


def test_opened_after_a_process_was_killed(there):
    """No descriptor ring of another process keeps its prefetched descriptors from a new one."""
    for number in range(2):
        for name, value in (("RING_CONFIG", 3), ("QUEUE_CONFIG", 2 << 11), ("QUEUE_COMMIT", number)):
            there.words[REGISTERS << 28 | engine_registers(PRESETS["tiny"])[name].offset] = value
    with dmace.open(f"uart:{there.port}") as device, device.queue(ring=3, pair=True) as queue:
        assert queue.number == 0


def test_all_engines_have_the_same_reset_values():
    """The transport writes those of `wide`."""
    maps = [engine_registers(config) for config in PRESETS.values()]
    settable = [[(register.name, register.offset, register.reset) for register in one.registers
                 if any(field.access is Access.RW for field in register.fields)] for one in maps]
    assert all(one == settable[0] for one in settable)


def test_board_that_does_not_respond(there):
    with dmace.open(f"uart:{there.port}") as device:
        memory = device.allocate(64)
        there.mute = 3
        with pytest.raises(dmace.DmaceError, match=r"^Loading from memory: The board does not respond \(tried 3 "
                                                   r"times\); is it loaded, and is this its port\?$"):
            memory.read()
        assert memory.read() == bytes(64)


class Line:
    """A board whose memory has another content at each read."""

    def __init__(self, contents, config=CONFIG):
        self.contents, self.config = list(contents), config

    def read_memory(self, endpoint, offset, count):
        return self.contents.pop(0)


def test_torn_words():
    old, torn, new = b"\1" + bytes(7), b"\1" + bytes(6) + b"\5", b"\2" + bytes(6) + b"\5"
    transport = BoardTransport(Line([old, old, old, torn, new, new]))
    assert [transport.load(8, 8) for _ in range(3)] == [old, old, new]
    transport = BoardTransport(Line(number.to_bytes(8, "little") for number in range(17)))
    with pytest.raises(BoardError, match=r"^The 8 bytes at 0x8 of the board change faster "
                                                                       r"than the line can read them\.$"):
        transport.load(8, 8)


def test_released_twice():
    transport = BoardTransport(Line([]))
    address = transport.allocate(4096)
    transport.release(address, 4096)
    with pytest.raises(dmace.DmaceError, match=r"^The board's memory from 0x0 to 0x1000 is not allocated\.$"):
        transport.release(address, 4096)


def test_broken_transports():
    """An exception of a transport is a sentence of the call that it ended."""
    closed = []

    class Broken:
        name = "broken"

        def reset(self):
            raise ZeroDivisionError("division by zero")

        def close(self):
            closed.append(self)

        read = write = store = allocate = release = load = save = None

    with pytest.raises(dmace.DmaceError, match=r"^Resetting the card: ZeroDivisionError: division by zero\.$"):
        open_transport("broken", Broken())
    assert len(closed) == 1


@pytest.mark.parametrize("name, sentence", [
    ("uart:", "A device is named like vfio:DDDD:BB:DD.F, sim:PRESET or uart:PORT, not 'uart:'."),
    ("uart:/nowhere", "/nowhere cannot be opened: No such file or directory."),
    ("uart:/nowhere,baud=1", "A board has the option baud=RATE, from 300 to 12000000, not 'baud=1'."),
    ("uart:/nowhere,speed=9600", "A board has the option baud=RATE, from 300 to 12000000, not 'speed=9600'."),
])
def test_wrong_names(name, sentence):
    with pytest.raises(names.UserError) as raised:
        dmace.open(name)
    assert str(raised.value) == sentence


def test_port_that_is_in_use(there, device):
    with pytest.raises(names.UserError, match=rf"^{there.port} cannot be opened: another program uses it\.$"):
        dmace.open(f"uart:{there.port}")


def test_board_without_an_engine(there):
    probe = replace(CONFIG, design="probe")
    there.words.board = {register.offset: register.reset for register in register_map(probe).registers}
    with pytest.raises(names.UserError, match=r"^The board's design is probe, which has no DMA engine\.$"):
        dmace.open(f"uart:{there.port},baud=115200")


def test_command_line(there, tmp_path, capsys):
    (tmp_path / "from").write_bytes(bytes(range(250)) * 4)
    name = f"uart:{there.port}"
    assert main(["device", "copy", name, str(tmp_path / "from"), str(tmp_path / "to")]) == 0
    assert (tmp_path / "to").read_bytes() == bytes(range(250)) * 4
    capsys.readouterr()
    assert main(["device", "bench", name]) == 1
    assert capsys.readouterr().err.endswith(
        f"dmace: Programs in C cannot open {name}, only Python can; `dmace board` measures boards.\n")


def test_ports_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(names, "_PORTS", tmp_path)
    for name in ("ttyUSB1", "ttyACM0", "tty3"):
        (tmp_path / name).touch()
    assert [found.name for found in names.find() if found.name.startswith("uart:")] == [
        f"uart:{tmp_path}/ttyACM0", f"uart:{tmp_path}/ttyUSB1"]
