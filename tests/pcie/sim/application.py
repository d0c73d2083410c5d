# SPDX-License-Identifier: Apache-2.0
"""The application side of :class:`Wires` in cocotb: requests and completions as TLPs of the library."""

import logging

import cocotb
from cocotb.queue import Queue
from cocotb.triggers import Event
from cocotbext.axi import AxiStreamBus
from cocotbext.pcie.core.tlp import TlpType
from cocotbext.pcie.xilinx.us.interface import CcSource, CqSink, RcSink, RqSource
from cocotbext.pcie.xilinx.us.tlp import Tlp_us

__all__ = ["Application"]


class Application:
    """Sends reads and writes on RQ, and serves BARs from a dict of bytes."""

    def __init__(self, dut, *, rc_segments=None):
        wide = len(dut.rq__tdata) == 512
        self.dut = dut
        for name in ("cq", "cc", "rq", "rc"):
            logging.getLogger(f"cocotb.{dut._name}.app_{name}").setLevel(logging.WARNING)
        dut.app_np_req.value = 1
        dut.app_flr_done.value = dut.app_mgmt_read.value = dut.app_mgmt_addr.value = 0

        def bus(name):
            return AxiStreamBus.from_prefix(dut, f"app_{name}", bus_separator="__")

        segments = 2 if wide else 1
        self.rq = RqSource(bus("rq"), dut.clk, dut.rst, segments=segments)
        self.rc = RcSink(bus("rc"), dut.clk, dut.rst, segments=rc_segments or segments)
        self.cq = CqSink(bus("cq"), dut.clk, dut.rst)
        self.cc = CcSource(bus("cc"), dut.clk, dut.rst)
        self.stores, self.loads, self.memory = [], 0, bytearray(1 << 16)
        self.stored = Event()
        self.completions = [Queue() for _ in range(256)]
        cocotb.start_soon(self._receive_requests())
        cocotb.start_soon(self._receive_completions())

    async def _receive_requests(self):
        while True:
            tlp = Tlp_us.unpack_us_cq(await self.cq.recv())
            if tlp.fmt_type in (TlpType.MEM_WRITE, TlpType.MEM_WRITE_64):
                self.stores.append((tlp.bar_id, tlp.address, bytes(tlp.get_data())))
                if tlp.bar_id == 0:
                    offset = tlp.address & 0xFFFC
                    self.memory[offset:offset + 4 * tlp.length] = tlp.get_data()
                self.stored.set()
            else:
                self.loads += 1
                reply = Tlp_us.create_completion_data_for_tlp(tlp, tlp.completer_id)
                offset = tlp.address & 0xFFFC
                reply.set_data(self.memory[offset:offset + 4 * tlp.length])
                reply.byte_count = tlp.get_be_byte_count()
                reply.lower_address = (tlp.address & 0x7C) + tlp.get_first_be_offset()
                await self.cc.send(reply.pack_us_cc())

    async def _receive_completions(self):
        while True:
            frame = await self.rc.recv()
            tlp = Tlp_us.unpack_us_rc(frame)
            tlp.discontinue = frame.discontinue
            self.completions[tlp.tag].put_nowait(tlp)

    async def write(self, address, data, *, sequence=0):
        tlp = self._request(TlpType.MEM_WRITE, address, data=data)
        tlp.seq_num = sequence
        await self.rq.send(tlp.pack_us_rq())

    def _request(self, kind, address, *, length=0, data=None, tag=0):
        tlp = Tlp_us()
        tlp.fmt_type = kind
        if data is None:
            tlp.set_addr_be(address, length)
            tlp.tag = tag
            if not length:
                tlp.length, tlp.first_be, tlp.last_be = 1, 0, 0
        else:
            tlp.set_addr_be_data(address, data)
        return tlp

    async def request(self, address, length, tag):
        """Send a read, and return without its completions."""
        await self.rq.send(self._request(TlpType.MEM_READ, address, length=length, tag=tag).pack_us_rq())

    async def read(self, address, length, tag=0):
        """Bytes of a read; a completion in place of them if it has an error."""
        await self.request(address, length, tag)
        data = bytearray()
        while True:
            tlp = await self.completions[tag].get()
            if tlp.error_code:
                return tlp
            skip = tlp.lower_address & 3
            data += tlp.get_data()[skip:skip + tlp.byte_count]
            if tlp.request_completed:
                return bytes(data[:length])
