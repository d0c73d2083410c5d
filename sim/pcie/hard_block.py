# SPDX-License-Identifier: Apache-2.0
"""The PCIe hard block on the card's pins: cocotbext-pcie's model of UltraScale+, with resets, errors and credits.

The library's model converts between packets on the pins and TLPs. This class adds or replaces, by overriding:

* Resets: function-level reset with its pins, link down and hot reset, which the library lacks (:mod:`sim.pcie.resets`
  drives them). Requests in flight at a function-level reset complete with error code FLR, as in the hard block.
* Completion time-outs of the hard block: :meth:`HardBlock.expire`.
* Credits of posted and non-posted requests return when a request has left for CQ; the library returns them on
  arrival, so that doorbells would never stall on the link.
* Requests are refused while memory space is disabled.
* A read of no byte completes with the lower address of the specification (2.2.9, bits 1:0 are 0); the library
  expects 3 there.
* Status pins change with configuration writes, not by polling, for speed. Configuration is read, but not written,
  through ``cfg_mgmt_addr``.

Known limits of the library (0.2.16):

* There is no latency inside the hard block, and no replay. A value of 2 or 3 on ``pcie_cq_np_req`` grants one
  credit, as 1 does.
* The receive buffer for completions has 256 headers and 32 KiB, from which each header takes 16 bytes; read requests do
  not reserve it, although that is intended. The library drops a completion that does not fit; here, it ends the test.
  Where stalls of the test are the reason, enlarge ``rx_buf_cplh_fc_limit`` and ``rx_buf_cpld_fc_limit``.
* A completion with a wrong byte count is noticed only where its lower address does not fit to it, as code 5. After a
  mismatch (code 4) the request stays in flight, until :meth:`HardBlock.expire`.
* Requests without bus-master enable, or with ``discontinue``, are dropped, and no completion is generated for reads.
* Assertions in the library end the test: a tag in use, a tag above 31 without extended tags, a TLP across 4 KiB.
* With 512 bits, the hard block's 4-DW segments of RC are used only with ``rc_4tlp_straddle``.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import cocotb
from cocotb.triggers import Event, RisingEdge
from cocotbext.axi import AxiStreamBus
from cocotbext.pcie.core.tlp import CplStatus, Tlp, TlpType
from cocotbext.pcie.core.utils import PcieId
from cocotbext.pcie.xilinx.us import UltraScalePlusPcieDevice
from cocotbext.pcie.xilinx.us.tlp import ErrorCode, Tlp_us

from sim.pcie.stream import Violation

__all__ = ["LINKS", "HardBlock"]

LINKS = {128: (3, 4), 256: (3, 8), 512: (3, 16)}
"""Generation and lanes of the link that fits each data width at 250 MHz."""

_MEMORY = {TlpType.MEM_READ, TlpType.MEM_READ_64, TlpType.MEM_WRITE, TlpType.MEM_WRITE_64}
_CONFIGURATION = {TlpType.CFG_READ_0, TlpType.CFG_WRITE_0}


class HardBlock(UltraScalePlusPcieDevice):
    """The hard block of one card.

    Parameters
    ----------
    dut : handle
        Top with the pins of :mod:`hw.pcie.pins`: ``cq__*``, ``cc__*``, ``rq__*``, ``rc__*``, ``cfg__*``, and ``clk``
        and ``rst``, which this model drives.
    bars : dict
        Number of a BAR -> ``(bytes, whether it is 64-bit and prefetchable)``.
    vectors : int
        MSI-X vectors; their table and pending bits are in BAR 0.
    table_offset, pba_offset : int
        Offsets of the table and of the pending bits.
    max_payload : int
        Largest payload that the function supports, in bytes.
    rc_4tlp_straddle : bool
        With 512 bits, up to four completions in a beat.

    Attributes
    ----------
    link_up : bool
        While False, nothing passes.
    sent : list of callable
        Each is called with every TLP that leaves for the link.
    changed : list of callable
        Each is called after the configuration may have changed.
    flr_done : Event
        Set when the card has finished a function-level reset.
    function_resets : list of callable
        Each is called at that moment, too.
    withdrawn : int
        This number of completions on RC are still to be discontinued, on all of their beats.
    """

    def __init__(self, dut: Any, *, bars: dict[int, tuple[int, bool]], vectors: int, table_offset: int, pba_offset: int,
                 max_payload: int = 1024, rc_4tlp_straddle: bool = False) -> None:
        self.dut = dut
        self.link_up = True
        # Members of the library's class that this one changes.
        self.cq_np_req_count: int
        self.rx_buf_cplh_fc_count: int
        self.rx_buf_cpld_fc_count: int
        self.sent: list[Callable[[Tlp], None]] = []
        self.changed: list[Callable[[], None]] = []
        self.flr_done = Event()
        self.function_resets: list[Callable[[], None]] = []
        self.withdrawn = 0
        self._configured, self._requested = Event(), Event()
        # Credits of the requests in the queues for CQ, in order, posted and non-posted apart.
        self._credits: deque[Callable[[], None] | None] = deque()
        self._held: deque[Callable[[], None] | None] = deque()
        # Whether each completion in the queue for RC is of a read of no byte.
        self._empty_reads: deque[bool] = deque()
        buses = {f"{name}_bus": AxiStreamBus.from_prefix(dut, name, bus_separator="__")
                 for name in ("cq", "cc", "rq", "rc")}
        width = len(dut.rq__tdata)
        generation, lanes = LINKS[width]
        wide = width == 512
        pins = ("max_payload", "max_read_req", "function_status", "flr_in_process", "flr_done", "interrupt_msix_enable",
                "interrupt_msix_mask", "phy_link_down", "mgmt_addr", "mgmt_read", "mgmt_write", "mgmt_read_data",
                "mgmt_read_write_done")
        super().__init__(
            pcie_generation=generation, pcie_link_width=lanes, user_clk_frequency=250e6, alignment="dword",
            rq_straddle=wide, rc_straddle=wide and not rc_4tlp_straddle, rc_4tlp_straddle=wide and rc_4tlp_straddle,
            max_payload_size=max_payload, enable_client_tag=True, enable_extended_tag=True,
            pf0_msix_enable=True, pf0_msix_table_size=vectors - 1, pf0_msix_table_bir=0,
            pf0_msix_table_offset=table_offset, pf0_msix_pba_bir=0, pf0_msix_pba_offset=pba_offset,
            user_clk=dut.clk, user_reset=dut.rst, **buses,
            pcie_cq_np_req=dut.cfg__pcie_cq_np_req,
            **{f"pcie_rq_seq_num{suffix}": getattr(dut, f"cfg__pcie_rq_seq_num{suffix}")
               for suffix in ("0", "1", "_vld0", "_vld1")},
            **{f"cfg_{name}": getattr(dut, f"cfg__cfg_{name}") for name in pins})
        for pin in (self.cfg_flr_in_process, self.cfg_interrupt_msix_mask):
            pin.value = 0
        self.user_reset.value = 1
        function = self.function
        function.pcie_cap.function_level_reset_capability = True
        function.pcie_cap.initiate_function_level_reset = self._begin_function_reset
        for number, (size, wide_bar) in bars.items():
            function.configure_bar(number, size, ext=wide_bar, prefetch=wide_bar)
        self._bars = tuple(function.bar)
        self.refresh()

    @property
    def function(self) -> Any:
        return self.functions[0]

    def refresh(self) -> None:
        """Let the status pins follow the configuration; needed only after a change through the backdoor."""
        self._configured.set()
        for observer in self.changed:
            observer()

    # Link side

    async def upstream_recv(self, tlp: Tlp) -> None:
        kind = tlp.fmt_type
        if not self.link_up or (kind in _MEMORY and not self.function.memory_space_enable):
            await self._refuse(tlp)
        elif kind in _MEMORY:
            release, tlp.release_fc_cb = tlp.release_fc_cb, None
            waiting = self.cq_queue.qsize()
            await super().upstream_recv(tlp)
            if self.cq_queue.qsize() > waiting:
                self._credits.append(release)
                self._requested.set()
            elif release is not None:
                release()
        elif tlp.is_completion():
            request = self.active_request[tlp.tag]
            empty = bool(request and not request.first_be and tlp.status == CplStatus.SC and not tlp.lower_address & 3)
            if empty:
                tlp.lower_address |= 3
            waiting = self.rc_queue.qsize()
            await super().upstream_recv(tlp)
            if self.rc_queue.qsize() > waiting:
                self._empty_reads.append(empty)
            elif tlp.requester_id == self.function.pcie_id:
                raise Violation(
                    f"RC: the completion with tag {tlp.tag} and {tlp.length} DW does not fit the receive buffer of "
                    f"{self.rx_buf_cplh_fc_limit} headers and {16 * self.rx_buf_cpld_fc_limit} bytes; fewer reads may "
                    f"be in flight while RC stalls")
        else:
            await super().upstream_recv(tlp)
            if kind in _CONFIGURATION:
                self.refresh()

    async def _refuse(self, tlp: Tlp) -> None:
        """Drop a TLP; a non-posted request completes as unsupported, with a link down in place of the switch port."""
        tlp.release_fc()
        if tlp.is_nonposted():
            completer = PcieId(self.bus_num, 0, 0) if self.link_up else tlp.completer_id
            await super().upstream_send(Tlp.create_ur_completion_for_tlp(tlp, completer))

    async def upstream_send(self, tlp: Tlp) -> None:
        if self.link_up:
            for observer in self.sent:
                observer(tlp)
            await super().upstream_send(tlp)

    # Pins

    async def _run_cq_logic(self) -> None:
        edge = RisingEdge(self.user_clk)
        while True:
            if self.cq_np_req_count == 32 and self.cq_queue.empty():
                self._requested.clear()
                await self._requested.wait()
            await edge
            if int(self.pcie_cq_np_req.value):
                self.cq_np_req_count = min(self.cq_np_req_count + 1, 32)
            while not self.cq_np_queue.empty() and self.cq_np_req_count > 0:
                await self._deliver(self.cq_np_queue.get_nowait(), self._held.popleft())
            while not self.cq_queue.empty():
                tlp, release = self.cq_queue.get_nowait(), self._credits.popleft()
                if tlp.is_nonposted() and not self.cq_np_req_count:
                    self.cq_np_queue.put_nowait(tlp)
                    self._held.append(release)
                else:
                    await self._deliver(tlp, release)

    async def _deliver(self, tlp: Tlp_us, release: Callable[[], None] | None) -> None:
        self.cq_np_req_count -= tlp.is_nonposted()
        await self.cq_source.send(tlp.pack_us_cq())
        if release is not None:
            release()

    async def _run_rc_logic(self) -> None:
        while True:
            tlp = await self.rc_queue.get()
            if self._empty_reads.popleft():
                tlp.lower_address &= ~3
            if self.withdrawn:
                self.withdrawn, tlp.discontinue = self.withdrawn - 1, True
            await self.rc_source.send(tlp.pack_us_rc())
            self.rx_buf_cplh_fc_count = max(self.rx_buf_cplh_fc_count - 1, 0)
            self.rx_buf_cpld_fc_count = max(self.rx_buf_cpld_fc_count - tlp.get_data_credits() - 1, 0)

    async def _run_rq_seq_num_logic(self) -> None:
        edge = RisingEdge(self.user_clk)
        pins = ((self.pcie_rq_seq_num0, self.pcie_rq_seq_num_vld0), (self.pcie_rq_seq_num1, self.pcie_rq_seq_num_vld1))
        while True:
            number: int | None = await self.rq_seq_num.get()
            while number is not None:
                await edge
                for pin, valid in pins[:2 if self.dw == 512 else 1]:
                    valid.value = number is not None
                    if number is not None:
                        pin.value = number
                    number = None if self.rq_seq_num.empty() else self.rq_seq_num.get_nowait()
            await edge
            for _, valid in pins:
                valid.value = 0

    async def _run_cfg_mgmt_logic(self) -> None:
        edge = RisingEdge(self.user_clk)
        while True:
            if not int(self.cfg_mgmt_read.value) and not int(self.cfg_mgmt_write.value):
                await RisingEdge(self.cfg_mgmt_read)
            for _ in range(4):
                await edge
            self.cfg_mgmt_read_data.value = await self.function.read_config_register(int(self.cfg_mgmt_addr.value))
            self.cfg_mgmt_read_write_done.value = 1
            await edge
            self.cfg_mgmt_read_write_done.value = 0
            await edge

    async def _run_cfg_status_logic(self) -> None:
        while True:
            await self._configured.wait()
            self._configured.clear()
            await RisingEdge(self.user_clk)
            function = self.function
            self.cfg_phy_link_down.value = int(not self.link_up)
            self.cfg_max_payload.value = function.pcie_cap.max_payload_size & 3
            self.cfg_max_read_req.value = function.pcie_cap.max_read_request_size
            enables = (function.io_space_enable, function.memory_space_enable, function.bus_master_enable,
                       function.interrupt_disable)
            self.cfg_function_status.value = sum(int(enable) << bit for bit, enable in enumerate(enables))
            self.cfg_interrupt_msix_enable.value = int(function.msix_cap.msix_enable)
            self.cfg_interrupt_msix_mask.value = int(function.msix_cap.msix_function_mask)

    async def _run_cfg_ctrl_logic(self) -> None:
        """Pins of this group do not exist."""

    async def _run_cfg_int_logic(self) -> None:
        """MSI-X status is set with the others."""

    # Errors and resets

    def _terminate(self, tag: int, error: ErrorCode) -> None:
        """A descriptor on RC that is no completion: only tag, function and ``request_completed`` have a meaning."""
        request, self.active_request[tag] = self.active_request[tag], None
        tlp = Tlp_us(Tlp.create_completion_for_tlp(request, PcieId(0, 0, 0)))
        tlp.error_code, tlp.request_completed = error, True
        self.tag_available_count = self.get_available_tag_count()
        self._empty_reads.append(False)
        self.rc_queue.put_nowait(tlp)

    def expire(self, tag: int) -> None:
        """Let the hard block time out the request with ``tag``, which must be in flight."""
        if self.active_request[tag] is None:
            raise ValueError(f"No request with tag {tag} is in flight, so that none can time out")
        self._terminate(tag, ErrorCode.TIMEOUT)

    async def _begin_function_reset(self) -> None:
        cocotb.start_soon(self._function_reset())

    async def _function_reset(self) -> None:
        self.flr_done.clear()
        edge = RisingEdge(self.user_clk)
        await edge
        self.reset_configuration(keep_payload=True)
        self.cfg_flr_in_process.value = 1
        for tag, request in enumerate(self.active_request):
            if request is not None:
                self._terminate(tag, ErrorCode.FLR)
        await edge
        while not int(self.cfg_flr_done.value) & 1:
            await edge
        self.cfg_flr_in_process.value = 0
        for observer in self.function_resets:
            observer()
        self.flr_done.set()

    def reset_configuration(self, *, keep_payload: bool = False) -> None:
        """Configuration registers as after reset; ``keep_payload``: MPS survives, as at an FLR (6.6.2)."""
        function, capability = self.function, self.function.pcie_cap
        function.io_space_enable = function.memory_space_enable = function.bus_master_enable = False
        function.parity_error_response_enable = function.serr_enable = function.interrupt_disable = False
        function.bar = list(self._bars)
        if not keep_payload:
            capability.max_payload_size = 0
        capability.max_read_request_size = 2
        capability.extended_tag_field_enable = False
        function.msix_cap.msix_enable = function.msix_cap.msix_function_mask = False
        self.refresh()

    async def flush(self, cycles: int = 40) -> None:
        """Lose all packets in the hard block; call it while ``user_reset`` is asserted and the link is down."""
        for _ in range(cycles):
            for queue in (self.rq_seq_num, self.rc_queue, self.cq_queue, self.cq_np_queue, self.rq_np_queue):
                while not queue.empty():
                    queue.get_nowait()
            for credits in (self._credits, self._held):
                for release in credits:
                    if release is not None:
                        release()
                credits.clear()
            self._empty_reads.clear()
            self.rq_np_queue_dequeue.set()
            self.active_request = [None] * 256
            self.tag_available_count = self.get_available_tag_count()
            self.cq_np_req_count = self.cpld_credit_count = 0
            self.rx_buf_cplh_fc_count = self.rx_buf_cpld_fc_count = 0
            for stream in (self.rc_source, self.cq_source, self.rq_sink, self.cc_sink):
                stream.clear()
                stream.queue_occupancy_bytes = stream.queue_occupancy_frames = 0
            for source in (self.rc_source, self.cq_source):
                source.dequeue_event.set()
                # A packet in progress runs on, beat by beat, without reaching the pins.
                source.drive_obj = None
                source.drive_sync.set()
            for sink in (self.rq_sink, self.cc_sink):
                if sink.active and sink.seg_count == 1:
                    # The rest of a packet in progress: its last beat, marked as discontinued.
                    sink.sample_obj = sink._transaction_obj(tlast=1, tuser=1 << sink.discontinue_offset)
                    sink.sample_sync.set()
            await RisingEdge(self.user_clk)

    def stall(self, patterns: dict[str, Any]) -> None:
        """Pause ``cq``, ``cc``, ``rq``, ``rc`` by iterators of booleans, one value per cycle; None ends the stalls.

        The library's sources may pause between two beats of a packet, which the hard block does not do on CQ and RC.
        """
        streams = {"cq": self.cq_source, "cc": self.cc_sink, "rq": self.rq_sink, "rc": self.rc_source}
        for name, pattern in patterns.items():
            streams[name].set_pause_generator(pattern)
            if pattern is None:
                streams[name].pause = False
