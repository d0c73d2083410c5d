# SPDX-License-Identifier: Apache-2.0
"""``dmace soak fuzz --engine ace``: arbitrary bits at two accelerators and their links, and the checks of them.

::

    program = build_fuzz()
    result = run_fuzz(program, seed=1, runs=100)
    assert not result["finding"], result["job"]

A job is a list of steps (``sim/ace/fuzz_job.h``): stores of any bits to a tenant's doorbell, collectives of any kind,
wrong words in its programs, directory, extents and communicator, any value in any register that holds no table; error
responses of memories; links that drop, corrupt, duplicate, delay and reorder packets or are cut, beats that no sender
makes, CREDIT packets with any contents, and packets with changed headers and a matching CRC; ``rst`` of a rank, and
recovery by software, at any moment. Checked are:

* no byte is written, and no read issued, outside the regions and completion words of the queues;
* collectives of another communicator, which are valid, complete with the right bits, and write nothing else, also over
  links with as many faults as they cope with. Those that an error, a cut or many faults may have ended need not
  complete; behind forged packets the bits of its buffers may be wrong;
* after a recovery (revoke, clear, start the links, configure, open) both communicators give the right bits;
* register accesses, doorbells, ends of communicators and links take no longer than a limit;
* the rules of AXI4 hold at both memory ports.

A job that reaches states that no other had is kept and changed further. A job with a finding is shortened; its text
replays it.
"""

from collections.abc import Iterable
from pathlib import Path

from amaranth.lib.wiring import Component

from dmace.drivers.ace import AceDriver, Share
from dmace.drivers.registers import wait
from hw.ace import header
from hw.ace.collectives import Collective, Numbered, OneShot, Ordered
from hw.ace.config import AceConfig
from hw.dma_engine.config import TINY
from hw.dma_engine.header import c_header
from sim.ace.beat import beat_header
from sim.cpp.clocked import ClockedInputs
from sim.verilator.build import Status
from sim.verilator.design import Design, component_of
from sim.verilator.program import Program, build_program

__all__ = ["FUZZED", "build_fuzz"]

FUZZED = AceConfig(data_width=64, lanes=2, prod=False, fp8=False, avg=False, dimensions=1, fsms=4, slots=8,
                   chunk_bytes=1024, message_bytes=512, packet_bytes=128, link_beats=64, replay_beats=128, queues=2,
                   queue_depth=4, regions=16, communicators=2, program_words=512, extent_rows=16)
"""The accelerator that is fuzzed: each of two ranks has two links to the other, and chunks are short."""

_HERE = Path(__file__).parent
_CPP = _HERE.parent / "cpp"
_SOURCES = (*(_HERE / name for name in ("fuzz.h", "fuzz_anchors.h", "fuzz_job.h", "fuzz_pair.h", "cluster.h",
                                        "endpoint.h", "faults.h", "link.h", "workers.h", "workgroups.h")),
            *(_CPP / name for name in ("axi_rules.h", "fuzz_main.h", "fuzz_steps.h", "ports.h", "axi_memory.h",
                                       "memory.h")))

_RANKS, _BASE, _ARENA, _TENANT_BYTES = 2, 1 << 32, 0x10000, 20_000
_DOMAINS = (1, 2)
_SHARES = (Share(0, 2, 0, 4), Share(2, 2, 4, 4))
_COLLECTIVES: tuple[Numbered, ...] = (
    Collective.ALL_REDUCE, OneShot.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.ALL_GATHER, Collective.ALL_TO_ALL,
    Collective.BROADCAST, Collective.REDUCE, Collective.BARRIER, Ordered.ALL_REDUCE)
_PARTS = ("TenantSource", "TenantTarget", "AnchorSource", "AnchorTarget", "Foreign", "Words")
_WORD_PITCH, _WATCHDOG, _TIMEOUT, _TRIES = 64, 30_000, 400, 16


class _Recorder:
    """A bus that only notes writes."""

    def __init__(self) -> None:
        self.writes: list[tuple[int, int]] = []

    async def write(self, offset: int, value: int) -> None:
        self.writes.append((offset, value))

    async def read(self, offset: int) -> int:
        raise NotImplementedError

    async def store(self, address: int, data: bytes) -> None:
        raise NotImplementedError


def build_fuzz(*, component: Component | None = None, checked: bool = False, status: Status | None = None) -> Program:
    """Build the program for accelerators of the sizes :data:`FUZZED`.

    Parameters
    ----------
    component : Component, optional
        In place of ``AceEngine(FUZZED)``, with the same ports.
    checked : bool
        With the assertions of the design, which stop it; slower.
    status : callable, optional
        Receives the status of the build.

    Raises
    ------
    BuildFailed
        If Verilator or the compiler fails.
    """
    from hw.ace.engine import AceEngine

    design = Design(ClockedInputs, Design(AceEngine, FUZZED)) if component is None else ClockedInputs(component)
    ports = component_of(component or Design(AceEngine, FUZZED)).signature.members
    id_width: int = ports["m_axi"].signature.id_width
    return build_program(design, name="ace_fuzz", main=_HERE / "fuzz.cpp", sources=_SOURCES, includes=[_HERE, _CPP],
                         generated={"beat.h": beat_header(FUZZED, id_width), "ethernet.h": "",
                                    "dmace.h": c_header(TINY), "dmace_ace.h": header.c_header(FUZZED),
                                    "ace_setup.h": _setup_header()},
                         checked=checked, status=status)


def _setup_header() -> str:
    """``ace_setup.h``: addresses, and the register writes that configure each rank."""
    setups, tenants, words = [], [], 0
    for rank in range(_RANKS):
        bus = _Recorder()
        driver = AceDriver(bus, FUZZED, watchdog=_WATCHDOG)
        words = wait(_set_up(driver, bus, rank))
        setups.append(bus.writes)
        tenants.append(_program(driver, bus.writes, words))
    share = next(value for offset, value in setups[0] if offset == driver.map["COMMUNICATOR_SHARE"].offset)
    values = {"Base": _BASE, "Arena": _ARENA, "Span": _ARENA * len(_PARTS), "TenantBytes": _TENANT_BYTES,
              **{name: _ARENA * number for number, name in enumerate(_PARTS)}, "WordPitch": _WORD_PITCH,
              "Watchdog": _WATCHDOG, "Timeout": _TIMEOUT, "Communicators": FUZZED.communicators,
              "Queues": FUZZED.queues, "Extents": FUZZED.extent_rows, "TenantWords": words, "TenantShare": share}
    return "".join((
        "#pragma once\n#include <cstdint>\n#include <vector>\n",
        *(f"constexpr uint64_t k{name} = {value:#x};\n" for name, value in values.items()),
        "struct SetUp {\n    uint32_t offset, value;\n};\n",
        f"inline const std::vector<SetUp> kSetUp[{_RANKS}] = {{{_rows(_pairs(writes) for writes in setups)}}};\n",
        f"inline const uint64_t kTenantProgram[{_RANKS}][{words}] = {{{_rows(map(_numbers, tenants))}}};\n"))


async def _set_up(driver: AceDriver, bus: _Recorder, rank: int) -> int:
    """Write the whole configuration of a rank; returns the number of the tenant's program words."""
    await driver.set_link_patience(timeout=_TIMEOUT, tries=_TRIES)
    for number, part in enumerate(_PARTS[:4]):
        tenant = part.startswith("Tenant")
        await driver.define_region(number, base=_BASE + _ARENA * number, length=_TENANT_BYTES if tenant else _ARENA,
                                   domain=_DOMAINS[not tenant], readable=number % 2 == 0, writable=number % 2 == 1)
    foreign = _BASE + _ARENA * _PARTS.index("Foreign")
    for number, rights in ((4, {"readable": True}), (5, {"writable": True})):
        await driver.define_region(number, base=foreign, length=_ARENA, domain=7, **{
            "readable": False, "writable": False, **rights})
    await driver.define_region(6, base=foreign, length=_ARENA, domain=1, readable=False, writable=False)
    for queue, domain in enumerate(_DOMAINS):
        await driver.configure_queue(queue, domain=domain,
                                     sc=_BASE + _ARENA * _PARTS.index("Words") + _WORD_PITCH * queue)
    words = 0
    for number, (domain, share) in enumerate(zip(_DOMAINS, _SHARES, strict=True)):
        left_out = await driver.define_communicator(number, shape=(_RANKS,), coordinates=(rank,), share=share,
                                                    domain=domain, collectives=_COLLECTIVES)
        if unfit := set(_COLLECTIVES) & set(left_out):
            raise ValueError(f"The fuzzer's accelerator has no program for {unfit}")
        words = words or sum(offset == driver.map["PROGRAM_COMMIT"].offset for offset, _ in bus.writes)
    return words


def _program(driver: AceDriver, writes: list[tuple[int, int]], words: int) -> list[int]:
    """The program words below an address, from the writes."""
    found, low, high = [0] * words, 0, 0
    offsets = {name: driver.map[name].offset for name in ("PROGRAM_WORD_LO", "PROGRAM_WORD_HI", "PROGRAM_COMMIT")}
    for offset, value in writes:
        if offset == offsets["PROGRAM_WORD_LO"]:
            low = value
        elif offset == offsets["PROGRAM_WORD_HI"]:
            high = value
        elif offset == offsets["PROGRAM_COMMIT"] and value < words:
            found[value] = high << 32 | low
    return found


def _pairs(writes: Iterable[tuple[int, int]]) -> str:
    return ", ".join(f"{{{offset:#x}, {value:#x}}}" for offset, value in writes)


def _numbers(words: Iterable[int]) -> str:
    return ", ".join(f"{word:#x}" for word in words)


def _rows(texts: Iterable[str]) -> str:
    return ",\n    ".join(f"{{{text}}}" for text in texts)
