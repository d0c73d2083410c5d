# SPDX-License-Identifier: Apache-2.0
"""Devices and memory of the runtime."""

import gc
import os
import subprocess
import sys

import numpy as np
import pytest

import dmace
from dmace.runtime.names import find, resolve
from hw.card import PRESET_NAMES
from hw.dma_engine.words import NativeWord, Status

BOTH = 3


def test_info(device):
    assert device.info.transport == "fake" and (device.info.queues, device.info.regions) == (8, 16)
    assert device.cycles() == 0
    with pytest.raises(dmace.DmaceError):
        device.read_register(3)


@pytest.mark.parametrize("name, sentence", [
    ("tiny", "A device is named like vfio:DDDD:BB:DD.F, sim:PRESET or uart:PORT, not 'tiny'."),
    ("sim:", "A device is named like vfio:DDDD:BB:DD.F, sim:PRESET or uart:PORT, not 'sim:'."),
    ("sim:huge", "A simulated device is one of tiny, base, wide, card, or the path of a library, not 'huge'."),
    ("sim:tiny,delay=3", "A simulated device has the option latency=CYCLES, not 'delay=3'."),
    ("sim:tiny,latency=", "A simulated device has the option latency=CYCLES, not 'latency='."),
    ("vfio:1", "Name of a function must be DDDD:BB:DD.F, not 1."),
    ("vfio:0000:ff:1f.7", "There is no PCI function 0000:ff:1f.7."),
])
def test_wrong_names(name, sentence):
    with pytest.raises(dmace.DmaceError) as raised:
        dmace.open(name)
    assert str(raised.value) == sentence


@pytest.mark.parametrize("option", ["badid", "badversion", "refuse"])
def test_other_devices(fake_card, option):
    with pytest.raises(dmace.DmaceError, match=r"^[A-Z].*\.$"):
        dmace.open(f"{fake_card},{option}")


def test_names(fake_card):
    assert resolve(fake_card + ",x=1") == fake_card + ",x=1"
    assert [found.name for found in find()][-4:] == [f"sim:{preset}" for preset in PRESET_NAMES]


def test_copy(device):
    source, target = device.register(np.arange(1000)), device.allocate(8000)
    with device.queue() as queue:
        request = queue.copy(target, source)
        request.wait(10)
        assert request.done() and request.number == 1
        assert (target.array(np.int64) == np.arange(1000)).all()
        queue.copy(target[8:24], source[80:96]).wait(10)
        assert target.array(np.int64)[:4].tolist() == [0, 10, 11, 3]
        statistics = queue.statistics()
    assert (statistics.requests, statistics.failed) == (2, 0)


def test_closed_devices(fake_card):
    device = dmace.open(fake_card)
    memory, queue = device.allocate(100), device.queue()
    request = queue.copy(memory[:8], memory[8:16])
    device.close()
    device.close()
    for call in (lambda: device.allocate(1), device.queue, device.reset, lambda: queue.copy(memory, memory),
                 request.wait, lambda: memory.read(), queue.statistics):
        with pytest.raises(dmace.DmaceError, match="is closed"):
            call()
    memory.close()
    queue.close()


def test_arrays_outlive_devices(fake_card):
    def made():
        with dmace.open(fake_card) as device:
            return device.allocate(100).array()

    array = made()
    gc.collect()
    array[:] = 1
    assert array.sum() == 100


def test_released(device):
    memory, queue = device.allocate(64), device.queue()
    memory.close()
    memory.close()
    with pytest.raises(dmace.DmaceError, match="The memory has been released"):
        queue.copy(memory, memory)
    queue.close()
    queue.close()
    other = device.allocate(64)
    with pytest.raises(dmace.DmaceError, match=r"Queue \d is closed"):
        queue.copy(other, other)


def test_no_leak(device):
    """More regions and queues than there are, one after the other; and none beyond the last."""
    for _ in range(40):
        with device.allocate(5000), device.queue():
            pass
    kept = [device.allocate(1) for _ in range(device.info.regions)]
    with pytest.raises(dmace.DmaceError):
        device.allocate(1)
    kept.pop().close()
    device.allocate(1)
    queues = [device.queue() for _ in range(device.info.queues)]
    with pytest.raises(dmace.DmaceError):
        device.queue()
    assert len({queue.number for queue in queues}) == 8


def test_arrays(device):
    read_only = np.arange(100)
    read_only.setflags(write=False)
    memory = device.register(read_only)
    with device.queue() as queue, pytest.raises(dmace.RequestFailed) as failure:
        queue.copy(memory, memory[:8]).wait(10)
    assert failure.value.result == Status.DST_RIGHTS and failure.value.number == 1
    for wrong, sentence in ((np.arange(100)[::2], r"not one of shape \(50,\) and strides \(16,\)\.$"),
                            (b"bytes", r"not a bytes\.$"), (np.empty(0), "not one of shape")):
        with pytest.raises(dmace.DmaceError, match=sentence):
            device.register(wrong)
    with pytest.raises(dmace.DmaceError, match="not writeable"):
        device.register(read_only, writable=True)
    # At any address, and together with a neighbour in the same page.
    base = np.zeros(5000, np.uint8)
    left, right = device.register(base[1:1001]), device.register(base[1001:3000])
    base[1:1001] = np.arange(1000) % 251
    with device.queue() as queue:
        queue.copy(right, left).wait(10)
    assert (base[1001:2001] == base[1:1001]).all() and base[0] == 0 and not base[2001:].any()


def test_spans(device):
    memory = device.allocate(100)
    assert len(memory[10:50][5:]) == 35 and memory[10:50][5:].offset == 15
    memory[96:].write(b"abcd")
    memory[0:8].write(np.array([258], np.uint64))
    assert memory.read()[96:] == b"abcd" and memory[0:2].read() == b"\x02\x01"
    for part in (slice(-1, None), slice(0, 101), slice(50, 20)):
        with pytest.raises(dmace.DmaceError):
            memory[part]
    with pytest.raises(dmace.DmaceError, match="5 bytes do not fit into a span of 4"):
        memory[96:].write(b"abcde")
    with pytest.raises(TypeError):
        memory[::2]


@pytest.mark.parametrize("call", [
    lambda device: device.allocate(0), lambda device: device.allocate(-5),
    lambda device: device.allocate(8, domain=-1),
    lambda device: device.allocate(8, domain=256), lambda device: device.queue(domain=256),
    lambda device: device.queue(weight=16), lambda device: device.queue(priority=4),
    lambda device: device.queue(ring=2), lambda device: device.queue(ring=17), lambda device: device.queue(segments=-1),
    lambda device: device.queue(pair=True), lambda device: device.queue(ring=3, pair=2),
    lambda device: device.register_bar("nonsense", 0, 4096),
    lambda device: device.register_bar("0000:ff:00.0", 0, 4096),
    lambda device: device.register_dmabuf(-1, 4096), lambda device: device.register_dmabuf(0, 4096),
])
def test_wrong_arguments(device, call):
    with pytest.raises(dmace.DmaceError, match=r"^[A-Z].*\.$"):
        call(device)


def test_log_and_reset(device):
    memory = device.allocate(64)
    queue = device.queue()
    with pytest.raises(dmace.RequestFailed, match="Request 1 of queue"):
        queue.post(NativeWord.copy(src=(memory.region, 60), dst=(memory.region, 0), length=8, flags=BOTH)).wait(10)
    assert [(entry.queue, entry.status) for entry in device.log()] == [(queue.number, Status.SRC_BOUNDS)]
    assert list(device.log()) == []
    request = queue.copy(memory[:8], memory[8:16])
    device.reset()
    with pytest.raises(dmace.DmaceError):
        request.wait(10)
    memory.close()
    queue.close()
    again = device.allocate(64)
    again.write(bytes(range(64)))
    with device.queue() as other:
        other.copy(again[32:], again[:32]).wait(10)
    assert again.read() == bytes(range(32)) * 2


def test_remote_memory(fake_card):
    """A device that cannot reach this process says so, and has memory of its own."""
    with dmace.open(f"{fake_card},remote") as device:
        with pytest.raises(dmace.DmaceError, match=r"^The transport fake cannot map memory of this process; use "
                                                   r"dmace_alloc\(\)\.$"):
            device.register(np.arange(10))
        memory = device.allocate(64)
        memory.write(bytes(range(64)))
        with device.queue() as queue:
            queue.copy(memory[32:], memory[:32]).wait(10)
        assert memory.read() == bytes(range(32)) * 2
        with pytest.raises(dmace.DmaceError, match=r"^This process cannot address the memory; use read\(\) and "
                                                   r"write\(\)\.$"):
            memory.array()


def test_interpreter_exit(fake_card):
    """A program that closes nothing ends in good order."""
    text = (f"import dmace, numpy\ndevice = dmace.open({fake_card!r})\nmemory = device.allocate(1000)\n"
            "queue = device.queue(interrupt=True)\nqueue.copy(memory[500:], memory[:500])\nprint('done')\n")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=60,
                          cwd=os.getcwd())
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
