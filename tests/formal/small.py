# SPDX-License-Identifier: Apache-2.0
"""The smallest legal configurations, for proofs of whole subsystems, and assumptions that several proofs share."""

from amaranth.hdl import Assume, Module, Mux, Signal

from hw.ace.config import AceConfig
from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.config import DmaConfig
from hw.pcie.config import PcieConfig

__all__ = ["ACE", "DMA", "assume_constant", "assume_legal_cache", "assume_segment", "pcie", "swept"]

DMA = DmaConfig(data_width=64, queues=2, queue_depth=4, entries=16, window=4, regions=4, pages=4, tags=4,
                buffer_beats=16, segment_bytes=32, extended=2, ring_depth=4, connections=2)
"""The minimum of every field of :class:`DmaConfig`."""

ACE = AceConfig(data_width=64, lanes=1, prod=False, fp8=False, avg=False, widen=False, varying=False, counters=False,
                dimensions=1, address_width=32, fsms=2, slots=2, chunk_bytes=1024, message_bytes=64, packet_bytes=64,
                link_beats=16, replay_beats=32, queues=2, queue_depth=2, regions=2, communicators=2, program_words=256,
                extent_rows=16)
"""The minimum of every field of :class:`AceConfig`."""


def pcie(tags: int, *, data_width: int = 128) -> PcieConfig:
    """Sizes of a PCIe adapter with this number of tags."""
    return PcieConfig(data_width=data_width, axi_id_width=2, doorbell_addr_width=13, tags=tags, order_rows=32)


def assume_constant(m: Module, value) -> None:
    """Assume that the solver chooses ``value`` once."""
    before, known = Signal.like(value, name="before"), Signal(name="known")
    m.d.sync += [before.eq(value), known.eq(1)]
    m.d.comb += Assume(~known | (value == before))


def swept(m: Module, init, rows: int):
    """Drive the sweep signals ``init`` for ``rows`` cycles, a power of two; the result is high in later cycles."""
    count = Signal(range(rows + 1), name="sweep_row")
    done = Signal(name="sweep_done")
    m.d.comb += [done.eq(count == rows), init.active.eq(~done), init.address.eq(count)]
    with m.If(~done):
        m.d.sync += count.eq(count + 1)
    return done


def assume_segment(m: Module, config: DmaConfig, segment) -> None:
    """Assume of a segment of ``segment_layout`` the properties that ``test_legalizer.py`` asserts."""
    lanes, beats = config.lane_bits, PAGE_BYTES // config.beat_bytes
    offset = segment.src_addr[:12]
    crosses = offset + segment.size >= PAGE_BYTES
    m.d.comb += [
        Assume(segment.dst_addr[:config.segment_bits] + segment.size < config.segment_bytes),
        Assume(segment.src_beats == Mux(segment.signal, 1, ((offset[:lanes] + segment.size) >> lanes) + 1)),
        Assume(segment.crosses == (crosses & ~segment.signal)),
        Assume(~segment.crosses | (segment.first_beats == beats - offset[lanes:])),
        Assume(~segment.jumps | segment.crosses),
        # A signal writes 8 bytes, which are aligned.
        Assume(~segment.signal | (segment.dst_addr[:3] == 0)),
    ]
    assume_legal_cache(m, segment.src_attributes, segment.dst_attributes)


def assume_legal_cache(m: Module, *attributes) -> None:
    """The register bank makes no reserved AxCACHE (``hw/dma_engine/control/frontpanel.py``)."""
    m.d.comb += [Assume(one.cache[1] | (one.cache[2:] == 0)) for one in attributes]
