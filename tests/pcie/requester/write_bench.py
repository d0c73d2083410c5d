# SPDX-License-Identifier: Apache-2.0
"""The write path between random bursts and messages and a packer that checks each TLP, with flushes and discards."""

from collections import deque

from amaranth import Value
from cocotbext.pcie.core.tlp import Tlp

from hw.axi import Resp
from hw.pcie.layouts import (
    MessageLayout,
    flush_layout,
    write_beat_layout,
    write_response_layout,
    write_tlp_layout,
)
from tests.harness.cell import CellBench
from tests.harness.fields import Fields

__all__ = ["Burst", "WriteBench"]

MESSAGES = 1 << 63
"""Addresses from here on are those of messages."""

STALLS = ("beats", "messages", "header", "data", "sent", "responses", "flush", "done")


class Burst:
    """A burst: one strobe and one byte of data per byte of its beats."""

    def __init__(self, address, strobes, data, *, beat, qos=0, cache=0):
        self.address, self.strobes, self.data, self.qos, self.cache = address, strobes, data, qos, cache
        self.beat, self.beats = beat, len(strobes) // beat
        assert len(strobes) == len(data) == self.beats * beat and self.start % 4096 + len(data) <= 4096
        self.number = self.denied = self.mps = None
        self.tlps, self.sent, self.complete, self.refused = [], 0, False, 0

    @property
    def start(self):
        return self.address // self.beat * self.beat

    def fields(self, number):
        """Beat ``number`` on the port."""
        cut = slice(number * self.beat, (number + 1) * self.beat)
        return {"id": self.number, "addr": self.address, "len": self.beats - 1, "qos": self.qos, "cache": self.cache,
                "data": int.from_bytes(self.data[cut], "little"), "first": number == 0,
                "strb": sum(bit << index for index, bit in enumerate(self.strobes[cut])),
                "last": number == self.beats - 1}

    def tlp_after(self, number):
        """The TLP that beat ``number`` completes: (address, bytes), None, or False if it is refused."""
        start = self.start
        end = start + (number + 1) * self.beat
        if self.denied or (end % self.mps and number + 1 < self.beats):
            return None
        low = max(start, (end - 1) // self.mps * self.mps)
        used = [at for at in range(low, end) if self.strobes[at - start]]
        if not used:
            return None
        if used[-1] - used[0] + 1 != len(used):
            return False
        return used[0], bytes(self.data[used[0] - start:used[-1] + 1 - start])

    @property
    def resp(self):
        return Resp.DECERR if self.denied else Resp.SLVERR if self.refused else Resp.OKAY

    @property
    def flushed(self):
        return bool(self.qos & 4 and self.tlps and self.resp is Resp.OKAY)

    @property
    def attributes(self):
        return (self.cache >> 1 == 1) | (self.qos & 3) << 1


class WriteBench(CellBench):
    """Bursts and messages are taken from ``make_burst`` and ``make_message``; None for none in this cycle."""

    def __init__(self, ctx, rng, dut, *, stalls=0.3, prefetch=1, make_burst=None, make_message=None):
        super().__init__(ctx, rng)
        self.dut, self.config = dut, dut.config
        self.stalls = dict.fromkeys(STALLS, stalls) if isinstance(stalls, float) else stalls
        self.prefetch, self.make_burst, self.make_message = prefetch, make_burst, make_message
        self.layouts = {name: Fields(layout) for name, layout in (
            ("beat", write_beat_layout(self.config)), ("tlp", write_tlp_layout(self.config)),
            ("message", MessageLayout), ("flush", flush_layout(self.config)),
            ("response", write_response_layout(self.config)))}
        self.memory, self.expected_memory = {}, {}
        self.number = self.cycle = self.mps = self.master = 0
        self.log = []
        self.set_mps(0)
        self.set_master(1)
        self.clear()

    def set_mps(self, code):
        self.mps = 128 << code
        self.set(self.dut.settings.max_payload, code)

    def set_master(self, level):
        self.master = level
        self.set(self.dut.settings.bus_master, level)

    def clear(self):
        """Start with no burst and no message."""
        self.burst, self.at, self.starts, self.message, self.discarded = None, 0, 0, None, False
        self.tlps, self.messages, self.bursts = deque(), deque(), {}
        self.taken, self.unsent, self.order = deque(), deque(), deque()
        self.flushes, self.done, self.last_burst = [], None, -1

    def _fields(self, name, value):
        layout = self.layouts[name]
        return {field: layout.unpack(value, field) for field in layout.positions}

    def _get(self, value):
        return self.ctx.get(Value.cast(value))

    async def step(self):
        dut, ctx = self.dut, self.ctx
        self._offer()
        response_ready = not self.chance(self.stalls["responses"])
        flush_ready = not self.chance(self.stalls["flush"])
        header_ready = len(self.taken) < self.prefetch and not self.chance(self.stalls["header"])
        sent = bool(self.unsent) and not self.chance(self.stalls["sent"])
        self.set(dut.responses.ready, response_ready)
        self.set(dut.flushes.requests.ready, flush_ready)
        self.set(dut.tlps.ready, header_ready)
        self.set(dut.sent, sent)
        header_valid = ctx.get(dut.tlps.valid)
        takes_header = header_ready and header_valid
        wants = bool(self.taken) or takes_header
        data_ready = wants and not self.chance(self.stalls["data"])
        self.set(dut.data.ready, data_ready)
        # Data of a TLP never stalls, and is there with its header.
        data_valid = ctx.get(dut.data.valid)
        if wants or (header_valid and not self.taken):
            assert data_valid, "a TLP's data stalls"
        if self.discarded:
            assert not header_valid and not ctx.get(dut.responses.valid) and not ctx.get(dut.flushes.requests.valid)
            assert data_valid == bool(self.taken)
        assert ctx.get(dut.flushes.done.ready)
        self._accept()
        if takes_header:
            self._header(self._fields("tlp", self._get(dut.tlps.payload)))
        if data_ready:
            self._data(self._get(dut.data.payload))
        if ctx.get(dut.responses.valid) and response_ready:
            self._response(self._fields("response", self._get(dut.responses.payload)))
        if ctx.get(dut.flushes.requests.valid) and flush_ready:
            self._flush(self._fields("flush", self._get(dut.flushes.requests.payload)))
        self.seen["message_sent"] += ctx.get(dut.message_sent)
        self.seen["refused"] += ctx.get(dut.refused)
        if sent:
            self._sent(self.unsent.popleft())
        await ctx.tick()
        self.cycle += 1

    def _offer(self):
        """Drive the inputs, which stay stable until they are accepted."""
        dut = self.dut
        if self.burst is None and self.make_burst and (burst := self.make_burst()):
            burst.number = self.number = (self.number + 1) % (1 << self.config.axi_id_width)
            self.burst, self.at, self.offered = burst, 0, False
        if self.burst and not self.offered and not self.chance(self.stalls["beats"]):
            self.set(Value.cast(dut.beats.payload), self.layouts["beat"].pack(self.burst.fields(self.at)))
            self.offered = True
        self.set(dut.beats.valid, bool(self.burst and self.offered))
        if self.message is None and self.make_message and not self.chance(self.stalls["messages"]):
            self.message = self.make_message()
            if self.message:
                self.set(Value.cast(dut.messages.payload), self.layouts["message"].pack(self.message))
        self.set(dut.messages.valid, bool(self.message))
        if self.done is None and self.flushes and not self.chance(self.stalls["done"]):
            self.done = self.flushes.pop(self.rng.randrange(len(self.flushes)))
        self.set(dut.flushes.done.valid, self.done is not None)
        if self.done:
            resp = self.rng.choice([Resp.OKAY, Resp.SLVERR])
            self.done.flush_resp, self.done.complete = resp, True
            self.set(Value.cast(dut.flushes.done.payload),
                     self.layouts["response"].pack({"id": self.done.number, "resp": resp.value}))
            self.done = None

    def _accept(self):
        ctx, dut = self.ctx, self.dut
        beat = self.burst and self.offered and ctx.get(dut.beats.ready)
        message = self.message and ctx.get(dut.messages.ready)
        if message:
            # A burst that starts in the same cycle may be first.
            self.messages.append((self.message, self.starts))
            self.message = None
            self.seen["messages"] += 1
        if not beat:
            return
        burst = self.burst
        if self.at == 0:
            burst.denied, burst.mps, burst.index = not self.master, self.mps, self.starts
            self.starts += 1
            self.bursts[burst.number] = burst
        self.seen["beats"] += 1
        self.log.append(("beat", self.cycle))
        tlp = burst.tlp_after(self.at)
        if tlp is False:
            burst.refused += 1
            self.seen["expected_refused"] += 1
        elif tlp:
            burst.tlps.append(tlp)
            self.tlps.append((burst, tlp))
            for offset, byte in enumerate(tlp[1]):
                self.expected_memory[tlp[0] + offset] = byte
        self.at, self.offered = self.at + 1, False
        if self.at == burst.beats:
            self.burst, burst.ended = None, True
            self.seen["bursts"] += 1
            if not burst.flushed:
                self.order.append(burst)
            self.seen[f"flush={burst.flushed} {burst.resp.name} {min(len(burst.tlps), 3)}"] += 1
        else:
            burst.ended = False

    def _header(self, tlp):
        lane = tlp["lane"]
        beats = -(-(lane + tlp["dwords"]) // self.config.beat_dwords)
        self.taken.append([tlp, beats, []])
        self.log.append(("header", self.cycle))

    def _data(self, beat):
        head = self.taken[0]
        head[1] -= 1
        head[2].append(beat.to_bytes(self.config.beat_bytes, "little"))
        self.log.append(("data", self.cycle))
        if head[1] == 0:
            self.taken.popleft()
            self.unsent.append(self._check(head[0], b"".join(head[2])))

    def _check(self, tlp, raw):
        """The burst of a TLP, or None for a message."""
        address, dwords = tlp["address"] * 4, tlp["dwords"]
        raw = raw[tlp["lane"] * 4:][:4 * dwords]
        first_be, last_be = tlp["first_be"], tlp["last_be"]
        assert dwords >= 1 and len(raw) == 4 * dwords and first_be
        assert (last_be == 0) == (dwords == 1)
        enables = [first_be, *[0b1111] * (dwords - 2), *([last_be] if dwords > 1 else [])]
        used = [at for at in range(4 * dwords) if enables[at // 4] >> at % 4 & 1]
        assert used == list(range(used[0], used[-1] + 1))
        found = address + used[0], raw[used[0]:used[-1] + 1]
        # The rules of byte enables once more, in a model of others.
        model = Tlp()
        model.set_addr_be(found[0], len(found[1]))
        assert (model.address, model.length, model.first_be, model.last_be) == (address, dwords, first_be, last_be)
        if address >= MESSAGES:
            message, starts = self.messages.popleft()
            assert found == (message["address"], message["data"].to_bytes(4, "little"))
            assert tlp["attributes"] == 0 and self.last_burst <= starts
            assert not self.tlps or self.tlps[0][0].index >= starts, "a message passes a burst"
            return None
        burst, expected = self.tlps.popleft()
        self.last_burst = burst.index
        assert found == expected, (hex(found[0]), hex(expected[0]), len(found[1]), len(expected[1]))
        assert tlp["attributes"] == burst.attributes
        assert address // burst.mps == (address + 4 * dwords - 1) // burst.mps and 4 * dwords <= burst.mps
        assert tlp["lane"] == tlp["address"] % self.config.beat_dwords
        for offset, byte in enumerate(found[1]):
            self.memory[found[0] + offset] = byte
        burst.flush_address = tlp["address"]
        self.seen["tlps"] += 1
        return burst

    def _sent(self, burst):
        if burst is None:
            self.seen["messages_sent"] += 1
        else:
            burst.sent += 1
            self.log.append(("sent", self.cycle))

    def _flush(self, request):
        burst = self.bursts[request["id"]]
        assert burst.ended and burst.flushed and burst.sent == len(burst.tlps), "a flush passes a TLP"
        assert request["address"] == burst.flush_address and request["attributes"] == burst.attributes & ~2
        self.flushes.append(burst)
        self.seen["flushes"] += 1

    def _response(self, response):
        burst = self.bursts.pop(response["id"])
        assert burst.ended and burst.sent == len(burst.tlps), "a response before its TLPs"
        if burst.flushed:
            assert burst.complete and response["resp"] == burst.flush_resp.value
        else:
            assert burst is self.order.popleft() and response["resp"] == burst.resp.value
        self.log.append(("response", self.cycle))
        self.seen["responses"] += 1

    @property
    def busy(self):
        return bool(self.burst or self.message or self.bursts or self.taken or self.unsent or self.messages)

    async def drain(self):
        """No further burst; until all have their response. Then memory is compared."""
        self.make_burst = self.make_message = None
        self.set_master(1)
        for _ in range(5000):
            if not self.busy:
                break
            await self.step()
        else:
            raise AssertionError("the write path does not become idle")
        for _ in range(5):
            await self.step()
        assert self.ctx.get(self.dut.idle)
        assert self.seen["refused"] == self.seen["expected_refused"]
        assert self.seen["messages_sent"] == self.seen["message_sent"]
        assert self.memory == self.expected_memory

    async def discard(self, *, flushes_done):
        """Reset of the function: only the TLPs whose headers were taken are completed."""
        self.seen["discarded"] += bool(self.burst) + len(self.bursts)
        self.seen["discarded_tlps"] += len(self.taken)
        self.seen["discarded_flushes"] += len(self.flushes)
        self.burst = self.message = None
        make, self.make_burst, self.make_message = (self.make_burst, self.make_message), None, None
        self.set(self.dut.discard, 1)
        self.discarded = True
        if not flushes_done:
            self.flushes = []
        for cycle in range(500):
            await self.step()
            if cycle > 2 and not self.taken and not self.unsent and self.ctx.get(self.dut.idle):
                break
            assert cycle < 3 or not (self.ctx.get(self.dut.idle) and (self.taken or self.unsent)), "idle too early"
        else:
            raise AssertionError("the write path does not become idle in discard")
        self.set(self.dut.discard, 0)
        self.clear()
        self.seen["refused"] = self.seen["expected_refused"] = 0
        assert self.seen["messages_sent"] == self.seen["message_sent"]
        self.expected_memory = dict(self.memory)
        self.make_burst, self.make_message = make
