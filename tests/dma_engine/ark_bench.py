# SPDX-License-Identifier: Apache-2.0
"""Two GPUs with queues in ARK mode: their segments, connections and arrays of flags."""

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.words import ArkWord, Command
from sim.dma.ark import ARRAY_BYTES, ArkThread
from tests.dma_engine.bench import DOMAIN, Bench, parameter, session_seed

A, B = 0, 1
"""Two GPUs, each with a queue, of the same number, in ARK mode."""
BASE = {A: 1, B: 6}
SEGMENTS = 4
SEGMENT_BYTES = 3 * PAGE_BYTES
MEMORY = {A: 0x10_0000_0000, B: 0xFF_0000_0000_0000}
FOREIGN, UNMAPPED = 12, 13
TO = {A: 2, B: 3}
"""Connections that lead to a GPU."""
FOREIGN_CONNECTION = 1


def arrays(gpu):
    """Addresses of a GPU's SC and RC arrays."""
    return MEMORY[gpu] + 0x100_0008, MEMORY[gpu] + 0x100_0008 + ARRAY_BYTES


class ArkBench(Bench):
    """Two GPUs with segments, arrays, a queue and a connection each."""

    async def prepare(self, *, skip_errors=False, **settings):
        await self.start()
        self.threads = {}
        for gpu in (A, B):
            for sid in range(SEGMENTS):
                base = self.segment(gpu, sid)
                self.fill(base - PAGE_BYTES, self.rng.randbytes(SEGMENT_BYTES + 2 * PAGE_BYTES))
                await self.define_region(BASE[gpu] + sid, base=base, length=SEGMENT_BYTES, domain=DOMAIN)
            sc, rc = arrays(gpu)
            self.fill(sc & -PAGE_BYTES, bytes(2 * PAGE_BYTES))
            self.threads[gpu] = ArkThread(self, gpu, sc, rc)
            await self.define_connection(TO[gpu], base=BASE[gpu], rc=rc, domain=DOMAIN)
            await self.configure_queue(gpu, domain=DOMAIN, sc=sc, ark=BASE[gpu], skip_errors=skip_errors, **settings)
            await self.command(gpu, Command.START)

    @staticmethod
    def segment(gpu, sid):
        return MEMORY[gpu] + sid * 16 * PAGE_BYTES

    def clear_flags(self):
        for gpu in (A, B):
            sc, rc = arrays(gpu)
            self.fill(sc, bytes(ARRAY_BYTES))
            self.fill(rc, bytes(ARRAY_BYTES))

    async def send(self, *words, queue=A, upper=False):
        """Store ARK words one by one."""
        for word in words:
            await self.store(queue, word.to_bytes(), offset=8 * upper, size=3)

    async def end(self):
        await self.finish()
        self.assert_equal()


async def start_bench(dut, name, *, latency=20, **settings):
    bench = ArkBench(dut, seed=session_seed(name), stalls=parameter("stalls", "none"), latency=latency)
    await bench.prepare(**settings)
    return bench


def ark_word(src=0, dst=0, connection=TO[B], length=100):
    return ArkWord.send(src=src, dst=dst, connection=connection, length=length)
