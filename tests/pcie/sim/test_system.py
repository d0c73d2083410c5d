# SPDX-License-Identifier: Apache-2.0
"""The system: enumeration, stores of GPUs to BARs, reads and writes of GPU and host memory through the switch."""


from itertools import pairwise

import cocotb
import pytest
from cocotb.triggers import ClockCycles, Combine, RisingEdge, Timer
from cocotb.utils import get_sim_time
from cocotbext.pcie.core.caps import PciCapId

from sim.pcie.completer import CompleterSettings
from sim.pcie.link import payload_rate
from sim.pcie.system import SystemSettings
from sim.verilator.design import Design
from tests.pcie.sim.bench import rng, stalls, start
from tests.pcie.sim.wires import Wires

pytestmark = [pytest.mark.rtl, pytest.mark.long]

_SETTINGS = {"max_payload": 256, "max_read": 1024, "vectors": 16, "bar2_bytes": 1 << 18}
_ENUMERATED = []
"""Registers after enumeration, from one test of a simulation for another."""


def test_system(simulate):
    simulate(Design(Wires, 512))


def test_narrow_system(simulate):
    simulate(Design(Wires, 128), testcase=["memories/split=random", "doorbells"])


@pytest.mark.parametrize("rule, options", [
    ("max_payload must be a power of two from 128 to 1024, not 2048", {"max_payload": 2048}),
    ("bar2_bytes must be a power of two from 128 to 1099511627776, not 5000", {"bar2_bytes": 5000}),
    ("gpus must be at least 1, not 0", {"gpus": 0}),
])
def test_settings(rule, options):
    with pytest.raises(ValueError, match=f"^{rule}$"):
        SystemSettings(**options)


@cocotb.test(timeout_time=100, timeout_unit="us")
async def enumeration(dut):
    """BARs, enables, MPS, MRRS, extended tags and MSI-X, seen by software and on the pins."""
    system, _, monitor = await start(dut, **_SETTINGS)
    _ENUMERATED.extend(await _registers(system))
    card, function = system.card, system.function
    assert system.bar0 % (1 << 16) == 0 and system.bar0 < 1 << 32
    assert system.bar2 % (1 << 18) == 0 and system.bar2 >= 1 << 32
    spans = sorted([(system.bar2, 1 << 18), *((gpu.base, 1 << 24) for gpu in system.gpus)])
    assert all(base + size <= other for (base, size), (other, _) in pairwise(spans))
    assert int(dut.cfg__cfg_max_payload.value) == 1 and int(dut.cfg__cfg_max_read_req.value) == 3
    assert int(dut.cfg__cfg_function_status.value) == 0b111
    assert card.function.pcie_cap.extended_tag_field_enable and monitor.limits.tags == 256
    assert await function.msix_vec_count() == 16
    table, pending = [await function.capability_read_dword(PciCapId.MSIX, offset) for offset in (4, 8)]
    assert (table, pending) == (0x8000, 0x9000)
    assert int(dut.cfg__cfg_interrupt_msix_enable.value) == 0
    await function.msix_set_enable(True)
    await ClockCycles(dut.clk, 2)
    assert int(dut.cfg__cfg_interrupt_msix_enable.value) == 1
    monitor.finish()


@cocotb.test(timeout_time=100, timeout_unit="us")
async def assignment(dut):
    """The backdoor sets what enumeration sets: all of configuration space but I/O windows and interrupt lines."""
    system, _, _ = await start(dut, enumerate_bus=False, **_SETTINGS)
    for software, backdoor in zip(_ENUMERATED, await _registers(system), strict=True):
        assert backdoor == software, set(backdoor) ^ set(software)


async def _registers(system):
    functions = [system.root.endpoints[0], system.switch.upstream_bridge, *system.switch.endpoints,
                 *(device.functions[0] for device in (system.card, *(gpu.device for gpu in system.gpus)))]
    registers = [number for number in range(64) if number not in (7, 12, 15)]
    return [[str(function.pcie_id),
             *[f"{number}: {await function.read_config_register(number):#x}" for number in registers]]
            for function in functions]


@cocotb.test(timeout_time=100, timeout_unit="us")
async def accesses(dut):
    """Single accesses of all kinds."""
    system, app, monitor = await start(dut, enumerate_bus=False)
    for step in (_host_registers, _reads_of_nothing, _interrupts, _polling, _stores_are_checked):
        await step(system, app)
    monitor.finish()


async def _host_registers(system, app):
    """Reads and writes of BAR 0 by the CPU, and loads by a GPU."""
    await system.root.mem_write(system.bar0 + 0x20, b"registers")
    assert await system.root.mem_read(system.bar0 + 0x20, 9) == b"registers"
    assert await system.gpus[0].load(system.bar0 + 0x21, 5) == b"egist"


async def _reads_of_nothing(system, app):
    """A read without byte enables completes with one byte, and sees the writes before it."""
    base = system.gpus[0].base
    await app.write(base + 0x40, b"data")
    await app.request(base + 0x44, 0, 3)
    tlp = await app.completions[3].get()
    assert (tlp.byte_count, tlp.length, tlp.error_code) == (1, 1, 0)
    assert tlp.lower_address == 0x44 and tlp.request_completed
    assert system.gpus[0].memory.read(0x40, 4) == b"data"


async def _interrupts(system, app):
    """Messages arrive with address and data; a write to no function is dropped."""
    seen = []
    system.interrupts = lambda address, data: seen.append((address, data))
    await app.write(system.interrupt_address + 0x10, (77).to_bytes(4, "little"))
    await app.write(system.interrupt_address + 0x1000, bytes(4))
    await app.write(system.interrupt_address + 0x14, (78).to_bytes(4, "little"))
    await Timer(1, "us")
    assert seen == [(system.interrupt_address + 0x10, 77), (system.interrupt_address + 0x14, 78)]


async def _polling(system, app):
    gpu = system.gpus[0]
    waiting = cocotb.start_soon(gpu.completer.poll(0x80, 4, lambda data: data == b"done"))
    await app.write(gpu.base + 0x80, b"begn")
    await Timer(500, "ns")
    assert not waiting.done()
    await app.write(gpu.base + 0x80, b"done")
    assert await waiting == b"done"


async def _stores_are_checked(system, app):
    for address, size, rule in ((0, 513, "A store of 513 bytes exceeds the maximum payload size"),
                                (0xFF8, 16, "A store of 16 bytes to 0xff8 crosses 4 KiB")):
        with pytest.raises(ValueError, match=rule):
            await system.gpus[0].store(address, bytes(size))


@cocotb.test(timeout_time=100, timeout_unit="us")
async def doorbells(dut):
    """Stores of 16, 32 and 64 bytes by two GPUs arrive as they were posted, in order of each GPU, with stalls on CQ."""
    system, app, monitor = await start(dut, enumerate_bus=False)
    source = rng()
    system.card.stall({"cq": stalls(source, 0.5)})
    posted = [[source.randbytes(16) for _ in range(24)] for _ in system.gpus]

    async def post(number):
        for first, merged in ((0, 1), (8, 2), (16, 4)):
            await system.gpus[number].ring(system.bar2 + 0x1000 * number + 16 * first, posted[number][first:first + 8],
                                           merged=merged)

    await Combine(*(cocotb.start_soon(post(number)) for number in range(2)))
    while len(app.stores) < 2 * (8 + 4 + 2):
        app.stored.clear()
        await app.stored.wait()
    for number in range(2):
        base = system.bar2 + 0x1000 * number
        mine = [(address - base, data) for bar, address, data in app.stores
                if bar == 2 and 0 <= address - base < 0x1000]
        assert [len(data) for _, data in mine] == [16] * 8 + [32] * 4 + [64] * 2
        assert b"".join(data for _, data in mine) == b"".join(posted[number])
        assert [address for address, _ in mine] == sorted(address for address, _ in mine)
    monitor.finish()


@cocotb.test(timeout_time=200, timeout_unit="us")
async def stores_stall(dut):
    """A card that accepts no packet on CQ stalls the GPU's stores by credits, and loses none."""
    system, app, monitor = await start(dut, enumerate_bus=False)
    gpu = system.gpus[0]
    system.card.cq_source.pause = True
    sent = 0

    async def post():
        nonlocal sent
        for number in range(240):
            await gpu.store(system.bar2, number.to_bytes(16, "little"))
            sent += 1

    task = cocotb.start_soon(post())
    await Timer(3, "us")
    # Credits of the card, of the switch, and queues.
    assert 64 <= sent <= 200, sent
    before = sent
    await Timer(1, "us")
    assert sent == before
    system.card.cq_source.pause = False
    await task
    await Timer(3, "us")
    assert [int.from_bytes(data, "little") for _, _, data in app.stores] == list(range(240))
    monitor.finish()


@cocotb.test(timeout_time=100, timeout_unit="us")
async def read_credits(dut):
    """Reads without credit of the card wait, and stores pass them; credits are granted one a cycle, up to 32."""
    system, app, monitor = await start(dut, enumerate_bus=False)
    gpu = system.gpus[0]
    await ClockCycles(dut.clk, 40)
    dut.app_np_req.value = 0
    loads = [cocotb.start_soon(gpu.load(system.bar0, 4)) for _ in range(40)]
    await Timer(2, "us")
    assert app.loads == 32
    await gpu.store(system.bar2, bytes(16))
    await Timer(500, "ns")
    assert app.loads == 32 and len(app.stores) == 1
    await RisingEdge(dut.clk)
    dut.app_np_req.value = 1
    await ClockCycles(dut.clk, 3)
    dut.app_np_req.value = 0
    await Timer(500, "ns")
    assert app.loads == 35
    dut.app_np_req.value = 1
    await Combine(*loads)
    assert app.loads == 40
    monitor.finish()


@cocotb.test(timeout_time=100, timeout_unit="us")
async def sequence_numbers(dut):
    """Each request's number appears once, in order, when it has left for the link."""
    system, app, _ = await start(dut, enumerate_bus=False)
    found = []

    async def watch():
        while True:
            await RisingEdge(dut.clk)
            found.extend(int(getattr(dut, f"cfg__pcie_rq_seq_num{pin}").value) for pin in range(2)
                         if int(getattr(dut, f"cfg__pcie_rq_seq_num_vld{pin}").value))

    cocotb.start_soon(watch())
    for number in range(40):
        await app.write(system.gpus[0].base, bytes(4), sequence=number + 20)
    await Timer(500, "ns")
    assert found == list(range(20, 60))


async def _copy(system, app, base, completer, source, *, reads=16):
    """Writes at random addresses, then reads with many tags in flight, against a copy."""
    size = 1 << 14
    model = bytearray(source.randbytes(size))
    completer.memory.write(0, bytes(model))
    for _ in range(16):
        length = source.choice((1, 2, 4, 5, 64, 200, 512))
        address = source.randrange(size - length)
        length = min(length, 4096 - address % 4096, 512 - address % 4)
        data = source.randbytes(length)
        model[address:address + length] = data
        await app.write(base + address, data)

    async def read(tag):
        length = source.choice((1, 3, 4, 7, 64, 100, 256, 500))
        address = source.randrange(size - length)
        length = min(length, 4096 - address % 4096)
        assert await app.read(base + address, length, tag) == bytes(model[address:address + length]), hex(address)

    await Combine(*(cocotb.start_soon(read(tag)) for tag in range(reads)))
    assert completer.memory.read(0, size) == bytes(model)


@cocotb.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(split=["always", "random"])
async def memories(dut, split):
    """GPU memory peer to peer and host memory: all sizes and alignments, split and reordered, with stalls."""
    source = rng()
    behaviour = {"latency_ns": (50, 800), "reorder": split == "random", "split": split}
    system, app, monitor = await start(
        dut, enumerate_bus=False, gpu=CompleterSettings(**behaviour), host=CompleterSettings(rcb=64, **behaviour),
        seed=source.random())
    if split == "random":
        system.card.stall({"rq": stalls(source, 0.3), "rc": stalls(source, 0.3)})
    await _copy(system, app, system.gpus[1].base, system.gpus[1].completer, source)
    await _copy(system, app, 0, system.host, source)
    assert system.gpus[0].completer.reads == 0 and system.host.idle()
    assert system.gpus[1].completer.reads == monitor.requester.reads // 2 == 16
    monitor.finish()


@cocotb.test(timeout_time=100, timeout_unit="us")
@cocotb.parametrize((("payload", "lanes"), [(64, 16), (512, 16), (256, 2)]))
async def link_rate(dut, payload, lanes):
    """The link between card and switch, or RQ, limits the rate of writes: within 5 % of the rate without DLLPs."""
    system, app, _ = await start(dut, enumerate_bus=False, lanes=lanes)
    gpu, arrivals = system.gpus[0], []
    gpu.completer.written = lambda address, data: arrivals.append(get_sim_time("ns"))
    for number in range(60):
        await app.write(gpu.base + payload * number, bytes(payload))
    while len(arrivals) < 60:
        await Timer(100, "ns")
    rate = 40 * payload / (arrivals[59] - arrivals[19])
    limit = payload_rate(3, lanes, payload)
    dut._log.info("%d-byte writes: %.2f bytes/ns of %.2f", payload, rate, limit)
    # A packet on RQ takes a multiple of half a beat, which is 2 ns.
    limit = min(limit, payload / (2 * -(-(payload + 16) // 32)))
    assert 0.95 * limit < rate <= 1.001 * limit, (rate, limit)
