# SPDX-License-Identifier: Apache-2.0
"""Control of a queue and of the engine by software during traffic."""

import cocotb
import pytest
from cocotb.triggers import RisingEdge

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.config import PRESETS
from hw.dma_engine.control.control import QueueControl
from hw.dma_engine.layouts import OpKind
from hw.dma_engine.words import Command, NativeWord, Status
from tests.dma_engine.bench import DESTINATION, DOMAIN, SOURCE, Bench, parameter, session_seed
from tests.dma_engine.jobs import Job, pairs, suite
from tests.dma_engine.pins import Pins
from tests.dma_engine.victim import DST_BASE, GOOD, LENGTH, LONG, SMALL, SRC, SRC_BASE, VICTIM, VictimBench
from tests.harness.cell import run_cell

pytestmark = pytest.mark.rtl


@pytest.mark.parametrize(("config", "stalls"), [
    ("tiny", "none"),
    *(pytest.param(*run, marks=pytest.mark.soak) for run in (("tiny", "random"), ("base", "patterned")))])
def test_queue_control(engine, config, stalls):
    engine(config, ["paused", "reset_while_waiting", "reset_anywhere", "started_again"], stalls=stalls)


async def _victim(dut, name, **options):
    bench = VictimBench(dut, seed=session_seed(name), stalls=parameter("stalls", "none"), **options)
    await bench.prepare()
    return bench


def _victims_bursts(pins):
    """Write bursts to the victim's destination."""
    return sum(DST_BASE <= transfer.fields[1] < DST_BASE + LENGTH for transfer in pins.seen["aw"])


@cocotb.test()
async def paused(dut):
    """PAUSE stops a queue between two segments: segments in flight complete, and no more are scheduled."""
    bench = await _victim(dut, "paused", latency=50)
    pins = Pins(bench)
    for delay in (0, 10, 60, 400):
        await bench.clean()
        await bench.post(VICTIM, LONG._replace(flags=3), GOOD)
        await bench.wait(delay)
        await bench.command(VICTIM, Command.PAUSE)
        start = bench.cycle
        while (state := await bench.driver.state(VICTIM)).in_flight:
            assert bench.cycle - start < 8000, f"{state} 8,000 cycles after PAUSE"
        bursts = _victims_bursts(pins)
        # The queue continues to accept words.
        await bench.post(VICTIM, SMALL._replace(dst_offset=7 * PAGE_BYTES, flags=1))
        await bench.wait(300)
        again = await bench.driver.state(VICTIM)
        assert (again.running, again.enabled, again.in_flight, again.waiting, again.count) == (0, 1, 0, 1, state.count)
        assert _victims_bursts(pins) == bursts, f"{_victims_bursts(pins) - bursts} bursts of a paused queue"
        await bench.command(VICTIM, Command.START)
        await bench.settle_and_check(f"paused after {delay}")
    await bench.end()


@cocotb.test()
async def reset_while_waiting(dut):
    """RESET of a paused queue drops its words, none of which has moved data."""
    bench = await _victim(dut, "waiting")
    for number in (1, 2, bench.config.queue_depth + 1):
        await bench.clean()
        await bench.post(VICTIM, GOOD)
        await bench.settle_and_check("before")
        await bench.command(VICTIM, Command.PAUSE)
        for index in range(number):
            await bench.post(VICTIM, SMALL._replace(dst_offset=50 * index, flags=3))
        words = [bench.memory.read(address, 8) for address in bench.words_of(VICTIM)]
        assert (await bench.driver.state(VICTIM)).waiting == 1, number
        await bench.command(VICTIM, Command.RESET)
        state = await bench.settle_and_check(f"reset with {number} waiting")
        assert state == (0,) * 10, state
        # RESET clears the counters.
        assert words == [bench.memory.read(address, 8) for address in bench.words_of(VICTIM)]
        await bench.command(VICTIM, Command.START)
    await bench.end()


@cocotb.test()
async def reset_anywhere(dut):
    """RESET interrupts a request of many segments anywhere, and ends after all segments in flight are drained."""
    bench = await _victim(dut, "anywhere", latency=120)
    cut = set()
    for delay in (0, 1, 2, 5, 9, 20, 50, 90, 130, 170, 220, 260, 350, 500, 800, 1500):
        await bench.clean()
        bench.model.freeze(VICTIM)
        await bench.post(VICTIM, GOOD._replace(flags=0), LONG._replace(flags=3),
                         GOOD._replace(dst_offset=7 * PAGE_BYTES))
        await bench.wait(delay)
        before = await bench.driver.state(VICTIM)
        await bench.command(VICTIM, Command.RESET)
        # START is not accepted before the RESET has ended.
        await bench.driver.start(VICTIM)
        state = await bench.settle_and_check(f"reset after {delay}")
        assert state == (0,) * 10, state
        cut.add((before.count, min(before.in_flight, 1)))
        quiet = [bench.memory.read(address, 8) for address in bench.words_of(VICTIM)]
        await bench.wait(600)
        assert quiet == [bench.memory.read(address, 8) for address in bench.words_of(VICTIM)], "a word after a reset"
        await bench.command(VICTIM, Command.START)
        # Counters restart at 0.
        await bench.post(VICTIM, GOOD)
        state = await bench.settle_and_check("after a reset")
        assert (state.count, state.failed, state.status) == (1, 0, 0), state
    assert (0, 1) in cut and (1, 1) in cut, f"cut only at {cut}"
    await bench.end()


@cocotb.test()
async def started_again(dut):
    """Words after RESET are refused; START clears the refusal; a second START has no effect."""
    bench = await _victim(dut, "started")
    for clears in (False, True):
        await bench.command(VICTIM, Command.RESET)
        await bench.settle_and_check("reset")
        logged = bench.logged()
        assert not await bench.post(VICTIM, GOOD)
        assert not await bench.post(VICTIM, GOOD)
        state = await bench.settle_and_check("refused")
        assert (state.enabled, state.refusing, state.count, state.failed, state.status) == (0, 1, 0, 0, 0), state
        assert bench.logged() == logged + 1 and bench.model.log[-1].status is Status.DISABLED
        if clears:
            await bench.command(VICTIM, Command.CLEAR)
            assert not (await bench.settle_and_check("cleared")).refusing
        for _ in range(2):
            await bench.command(VICTIM, Command.START)
            assert await bench.post(VICTIM, GOOD)
        state = await bench.settle_and_check("started")
        assert (state.enabled, state.refusing, state.count) == (1, 0, 2), state
    await bench.end()


@pytest.mark.parametrize("config", ["tiny", pytest.param("base", marks=pytest.mark.soak)])
def test_engine_control(engine, config):
    engine(config, ["rst_brings_all_back", "rst_clears_regions", "counters_add_up", "numbers_beyond_the_tables",
                    "watchdog_waits", "watchdog_counts_from_progress"])


@cocotb.test()
async def rst_brings_all_back(dut):
    """``rst`` with requests without a response, waiting words, and queues that are held or refuse words."""
    bench = Bench(dut, seed=session_seed("rst"), latency=1000)
    config, rng = bench.config, bench.rng
    jobs = suite("all_tags", config, rng)
    words = await bench.lay_out(jobs)
    withheld = [0x3_0000_0000, 0x3_0000_2000]
    for region, base in enumerate(withheld, 8):
        bench.fill(base, rng.randbytes(2 * PAGE_BYTES))
        await bench.define_region(region, base=base, length=PAGE_BYTES, domain=DOMAIN)
        bench.withhold(base)
    await bench.run(words[:30], queues=[3])
    # Queue 0 waits for reads, 1 for writes, 2 is paused, 3 holds an error and refuses words.
    for queue, word in ((0, NativeWord.copy(src=(8, 0), dst=(DESTINATION, 0), length=1)),
                        (1, NativeWord.copy(src=(SOURCE, 0), dst=(9, 0), length=2))):
        for _ in range(min(4, config.queue_depth)):
            await bench.post(queue, word)
    await bench.command(2, Command.PAUSE)
    await bench.post(2, *words[:3])
    await bench.post(3, words[0]._replace(dst_region=15), *words[:3])
    await bench.wait(5000)
    stuck = [await bench.driver.state(queue) for queue in range(4)]
    assert [(state.in_flight > 0, state.waiting, state.held) for state in stuck[:3]] == \
        [(True, 0, 0), (True, 0, 0), (False, 1, 0)], stuck
    assert stuck[3].held and stuck[3].count == 30, stuck[3]

    for address, length in ((bench.model.regions[DESTINATION].base, 1), (withheld[1], 2)):
        bench.model.memory.discard(address, length)
    await bench.restart()
    assert set((await bench.driver.counters()).values()) == {0}
    assert await bench.driver.pop_log() is None and await bench.driver.lost() == 0
    assert not any((await bench.driver.interrupts()).values()) and not int(dut.irq.value)
    for queue in range(config.queues):
        state = await bench.driver.state(queue)
        assert state == (0,) * 10, f"queue {queue}: {state}"
    await bench.start_queues(range(config.queues))

    # All tags are free, and the other state is unchanged.
    pins = Pins(bench)
    bench.assert_equal()
    length = bench._cursor + PAGE_BYTES & -PAGE_BYTES
    await bench.define_region(SOURCE, base=0x7_1234_5000, length=bench._source_bytes, domain=DOMAIN, writable=False)
    await bench.define_region(DESTINATION, base=0xABCD_0000_9000, length=length, domain=DOMAIN, readable=False)
    await bench.run(words)
    assert pins.in_flight["segments"] == min(config.tags, config.queues * config.window), pins.in_flight
    await bench.end()


@cocotb.test()
async def rst_clears_regions(dut):
    """A region from before ``rst`` is not valid afterwards."""
    bench = Bench(dut, seed=session_seed("regions"))
    words = await bench.lay_out(pairs(bench.config, bench.rng, 1))
    await bench.restart()
    await bench.start_queues([0])
    await bench.post(0, words[0])
    await bench.settle(0)
    await bench.wait_log()
    bench.assert_equal()
    assert [entry.status for entry in bench.model.log] == [Status.SRC_REGION]


@cocotb.test()
async def counters_add_up(dut):
    """The counters agree with the pins, with stalls on every bus and some bad requests."""
    bench = Bench(dut, seed=session_seed("counters"), stalls="random")
    pins = Pins(bench)
    config, rng = bench.config, bench.rng
    jobs = [*pairs(config, rng, 100), Job(5000, 1, 1)]
    words = await bench.lay_out(jobs, skip_errors=True)
    expected = {"words": len(words) + 5, "requests": len(words) + 5, "failed": 5 + 1, "refused": 2}
    expected["segments"] = sum((word.dst_offset + word.length - 1) // config.segment_bytes
                               - word.dst_offset // config.segment_bytes + 1 for word in words)
    bad = [words[0]._replace(dst_region=15, length=10_000) for _ in range(5)]
    await bench.run(words + bad)
    await bench.command(2, Command.RESET)
    await bench.settle(2)
    await bench.post(2, words[0], words[0])
    await bench.wait_log()
    await bench.end()
    completion = 1 << (config.axi_id_width - 1)
    completions = sum(bool(transfer.fields[0] & completion) for transfer in pins.seen["aw"])
    expected |= {"read_beats": len(pins.seen["r"]), "write_beats": len(pins.seen["w"]),
                 "completion_writes": completions,
                 "read_stalls": pins.stalled["ar"], "write_stalls": pins.stalled["w"]}
    assert len(pins.seen["aw"]) == expected["segments"] + completions == len(pins.seen["b"])
    found = await bench.driver.counters()
    assert found.pop("unexpected") == 0
    assert found == expected
    assert min(found.values()) > 0 and not pins.stalled["r"] and not pins.stalled["b"]


@cocotb.test()
async def numbers_beyond_the_tables(dut):
    """Writes for a region, page or queue that does not exist do not affect an existing one."""
    bench = Bench(dut, seed=session_seed("numbers"), latency=60)
    words, registers, config = await bench.lay_out(pairs(bench.config, bench.rng, 40)), bench.driver.map, bench.config
    running = cocotb.start_soon(bench.run(words[:20]))
    # The staged values would corrupt any entry.
    for register in ("REGION_ACCESS", "REGION_LENGTH_LO", "QUEUE_CONFIG"):
        await bench.bus.write(registers[register].offset, 0)
    await bench.driver.acknowledge(error=True, completion=True)
    await bench.driver.enable_interrupts(register=True)
    assert not int(dut.irq.value) and await bench.driver.refused_write() is None
    commands = [("REGION_COMMIT", config.regions | number) for number in (SOURCE, DESTINATION)]
    commands += [("QUEUE_COMMIT", config.queues | number) for number in range(config.queues)]
    commands += [("QUEUE_COMMAND", command << 8 | config.queues | number)
                 for command in (Command.PAUSE, Command.RESET) for number in range(config.queues)]
    commands += [("QUEUE_COMMAND", command << 8 | number)
                 for command in (0, 5, 6, 7, 8 | Command.RESET, 1 << 20 | Command.PAUSE)
                 for number in range(config.queues)]
    for register, word in commands:
        await bench.bus.write(registers[register].offset, word)
        await bench.wait(4)
        assert int(dut.irq.value), f"{word:#x} to {register}"
        sentence = await bench.driver.refused_write()
        assert sentence == f"The write of {word:#x} to {register} was refused: {registers[register].illegal(word)}"
        await bench.driver.acknowledge(register=True)
        await bench.wait(4)
        assert not int(dut.irq.value)
    await running
    await bench.run(words[20:])
    await bench.end()


@cocotb.test()
async def watchdog_waits(dut):
    """TIMEOUT follows the end of the last segment by one to two times WATCHDOG cycles."""
    bench = await _victim(dut, "watchdog")
    for watchdog in (700, 1500, 3000):
        bench.withhold(SRC_BASE)
        await bench.driver.set_watchdog(watchdog)
        await bench.clean()
        await bench.wait(bench.rng.randrange(watchdog))
        start = bench.cycle
        await bench.post(VICTIM, SMALL)
        bench.model.time_out(VICTIM)
        await RisingEdge(dut.irq)
        took = bench.cycle - start
        slack = 4 * bench.config.queues + 40
        assert watchdog <= took <= 2 * watchdog + slack, f"TIMEOUT after {took} cycles with WATCHDOG {watchdog}"
        bench.release(SRC_BASE)
        await bench.driver.set_watchdog(0)
        await bench.settle_and_check("timed out")
        await bench.command(VICTIM, Command.CLEAR)
        state = await bench.settle_and_check("cleared")
        assert (state.held, state.status, state.in_flight) == (0, 0, 0), state
    await bench.end()


@cocotb.test()
async def watchdog_counts_from_progress(dut):
    """Queues that are idle, paused, held, or just slow do not time out; with WATCHDOG 0 none does."""
    bench = Bench(dut, seed=session_seed("timeout"), latency=400)
    words = await bench.lay_out(pairs(bench.config, bench.rng, 40))
    await bench.driver.set_watchdog(1000)
    await bench.command(0, Command.PAUSE)
    await bench.post(0, *words[:2])
    await bench.post(1, words[2]._replace(src_region=15), *words[3:5])
    await bench.run(words[5:], queues=[2, 3])
    await bench.wait(4000)
    await bench.settle(1)
    for queue in (0, 1):
        state = await bench.driver.state(queue)
        assert (state.held, state.status) == ((0, 0) if queue == 0 else (1, Status.SRC_REGION)), state
    await bench.command(0, Command.START)
    await bench.command(1, Command.CLEAR)
    await bench.settle(1)
    # WATCHDOG 0 disables it.
    await bench.driver.set_watchdog(0)
    bench.fill(SRC_BASE, bytes(PAGE_BYTES))
    await bench.define_region(SRC, base=SRC_BASE, length=PAGE_BYTES, domain=DOMAIN)
    bench.withhold(SRC_BASE)
    await bench.post(2, words[0]._replace(src_region=SRC, src_offset=0, length=1, flags=1))
    await bench.wait(10_000)
    bench.release(SRC_BASE)
    await bench.end()
    assert set(bench.errors) == {"SRC_REGION"}, bench.errors


@pytest.mark.parametrize("phase", range(4))
def test_reset_sees_what_was_scheduled_before_it(phase):
    """Segments scheduled between the scanner's visit to a queue and its RESET keep the RESET from ending, in whichever
    of the scanner's 4 cycles the command arrives."""
    config, queue = PRESETS["tiny"], 2
    dut = QueueControl(config)

    async def testbench(ctx):
        async def step(in_flight, cycles=1):
            """Number of RESETs that end in these cycles."""
            ended = 0
            for _ in range(cycles):
                ctx.set(dut.scan.in_flight, in_flight if ctx.get(dut.scan.queue) == queue else 0)
                ended += ctx.get(dut.scans.valid) and ctx.get(dut.scans.payload.kind) == OpKind.RESET
                await ctx.tick()
            return ended

        async def send(command, in_flight):
            ctx.set(dut.command.command, command)
            ctx.set(dut.command.queue, queue)
            ctx.set(dut.command.valid, 1)
            await step(in_flight)
            ctx.set(dut.command.valid, 0)

        ctx.set(dut.scans.ready, 1)
        await send(Command.START, 0)
        while not (ctx.get(dut.scan.valid) and ctx.get(dut.scan.queue) == queue):
            await step(0)
        if phase:
            await step(0, phase)
        await send(Command.RESET, 1)
        assert await step(1, 200) == 0
        assert await step(0, 2 * 4 * config.queues + 8) == 1

    run_cell(dut, testbench)


def test_watchdog_restarts_behind_an_error():
    """Segments in flight wait while their queue is held. It times out one to two times WATCHDOG cycles after CLEAR, not
    before."""
    config, queue, watchdog = PRESETS["tiny"], 2, 300
    dut = QueueControl(config)

    async def testbench(ctx):
        ctx.set(dut.scans.ready, 1)
        ctx.set(dut.command.watchdog, watchdog)
        round_cycles = 4 * config.queues
        for held in (5 * watchdog, 5 * watchdog + 100, round_cycles + 1):
            ctx.set(dut.held, 1 << queue)
            cleared = None
            for cycle in range(held + 3 * watchdog):
                if cycle == held:
                    ctx.set(dut.held, 0)
                    cleared = cycle
                ctx.set(dut.scan.in_flight, ctx.get(dut.scan.queue) == queue)
                timed_out = ctx.get(dut.scans.valid)
                await ctx.tick()
                if timed_out:
                    break
            assert timed_out and cleared is not None
            assert watchdog - round_cycles <= cycle - cleared <= 2 * watchdog + 2 * round_cycles
            # It makes progress again.
            ctx.set(dut.scan.in_flight, 0)
            await ctx.tick().repeat(2 * round_cycles)

    run_cell(dut, testbench)
