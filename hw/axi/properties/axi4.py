# SPDX-License-Identifier: Apache-2.0
"""Rules of AXI4 ports.

Section numbers in the messages are those of Arm IHI 0022E. A monitor has every signal of the bus as
an input and drives nothing back: put it beside any design in a simulation, where a broken rule stops
the run with its message, or into a formal proof, where one side's rules are assumed and the other
side's are asserted. It is not meant for synthesis: its tables are read asynchronously.
"""

from amaranth import *
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from hw.axi.signature import AxiSignature, Burst, Resp

from .bursts import byte_lanes, check_burst
from .rules import BusRules, Rows, Table

__all__ = ["AxiChecker"]


# Bursts of one ID, counted modulo 2**16; differences between two counts are exact.
_Issued = data.StructLayout({"epoch": 16, "bursts": 16})
_Completed = data.StructLayout({"epoch": 16, "bursts": 16, "lock": 1})
_Retired = data.StructLayout({"epoch": 16, "bursts": 16, "beats": 9})


class AxiChecker(BusRules):
    """Check all five channels of an AXI4 bus.

    The manager's rules: VALID and payload hold until the transfer (A3.2.1) and VALID is low out of
    reset (A3.1.2); bursts are INCR, or with ``bursts="all"`` of legal length and alignment, no wider than the bus, and
    stay within 4 KiB (A3.4.1); AxCACHE is not a reserved value (A4.4); WLAST marks the last beat and no other, with
    write data in the order of the addresses (A3.4.1, A5.4); WSTRB stays in the lanes of the transfer (A3.4.3).

    The subordinate's rules: the first two as above; a response is to a burst with its ID that has
    been accepted in full (A3.3.1); RLAST marks the last beat and no other, with the bursts of one ID in
    order (A3.4.1, A5.3); EXOKAY never occurs without exclusive accesses (A3.4.4).

    With ``exclusive``, an access with AxLOCK is aligned to its size, a power of two of at most 128 bytes and 16 beats
    (A7.2.4), and EXOKAY is a response to such an access (A7.2.3): on R exactly, on B while one with this ID is
    outstanding.

    Write data may arrive before its address. The length of such a burst is checked when the address
    arrives; its WSTRB is not checked.

    Parameters
    ----------
    signature : :class:`AxiSignature`
        The bus.
    max_outstanding : int
        Bursts that the tables can hold in each direction, from 1 to 16384. Exceeding it fails with a message
        of its own. Write data may be ahead of the addresses, or behind them, by the same number of bursts.
    max_per_id : int or None
        Read bursts of one ID that the tables can hold, from 1 to ``max_outstanding``. ``None`` chooses the
        largest number that keeps the table at 16384 rows: 1024 with 4 ID bits, 16 with 10.
    bursts : ``"incr"`` or ``"all"``
        Whether FIXED and WRAP bursts are legal.
    exclusive : bool
        With ``awlock`` and ``arlock``.
    manager, subordinate : ``"assert"``, ``"assume"`` or ``None``
        Treatment of the rules of each side.
    name : str
        Name of the bus in messages.

    Members
    -------
    awid, awaddr, ... : ``In``
        Every signal of ``signature``; :meth:`observe` connects them.
    awlock, arlock : ``In(1)``
        With ``exclusive`` only.
    reads : ``Out(range(max_outstanding + 1))``
        Read bursts whose last beat has not been transferred.
    writes : ``Out(range(max_outstanding + 1))``
        Write addresses whose response has not been transferred.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    """

    _ROWS = 16384

    def __init__(self, signature: AxiSignature, *, max_outstanding: int = 1024, max_per_id: int | None = None,
                 bursts: str = "incr", exclusive: bool = False, manager: str | None = "assert",
                 subordinate: str | None = "assert", name: str = "AXI4") -> None:
        if not isinstance(signature, AxiSignature):
            raise ValueError(f"AxiChecker signature must be an AxiSignature, not {signature!r}")
        if signature.id_width > 14:
            raise ValueError(f"AxiChecker has tables for at most 14 ID bits, not {signature.id_width}")
        if not isinstance(max_outstanding, int) or not 1 <= max_outstanding <= 16384:
            raise ValueError(
                f"AxiChecker max_outstanding must be an integer from 1 to 16384, not {max_outstanding!r}")
        if max_per_id is None:
            max_per_id = min(max_outstanding, max(1, self._ROWS >> signature.id_width))
        if not isinstance(max_per_id, int) or not 1 <= max_per_id <= max_outstanding:
            raise ValueError("AxiChecker max_per_id must be an integer from 1 to the max_outstanding of "
                             f"{max_outstanding}, not {max_per_id!r}")
        if bursts not in ("incr", "all"):
            raise ValueError(f'AxiChecker bursts must be "incr" or "all", not {bursts!r}')
        self.bursts, self.exclusive = bursts, exclusive
        self.max_outstanding = max_outstanding
        self.max_per_id = max_per_id
        super().__init__(signature, {
            "reads": Out(range(max_outstanding + 1)),
            "writes": Out(range(max_outstanding + 1)),
            **({"awlock": In(1), "arlock": In(1)} if exclusive else {}),
        }, name=name, manager=manager, subordinate=subordinate)

    def elaborate(self, platform):
        m = Module()

        # Memories have no reset, so each row carries the number of resets before it was written.
        epoch = Signal(16, reset_less=True)
        in_reset = Signal(reset_less=True)
        m.d.sync += in_reset.eq(self.reset)
        with m.If(self.reset & ~in_reset):
            m.d.sync += epoch.eq(epoch + 1)

        self.check_handshakes(m)
        with m.If(~self.reset):
            for channel in ("aw", "ar"):
                check_burst(m, self, channel)
        self._check_reads(m, epoch)
        self._check_writes(m, epoch)
        return m

    def _check_reads(self, m, epoch):
        """Read data belongs to the oldest outstanding burst of its ID."""
        per_id = range(self.max_per_id)
        issued = Table(m, "ar_issued", self.bus.id_width, _Issued, epoch)
        retired = Table(m, "r_retired", self.bus.id_width, _Retired, epoch)
        lengths = Rows(m, "ar_lengths", self.bus.id_width + len(Signal(per_id)),
                       data.StructLayout({"len": 8, "lock": 1}))
        slot = len(Signal(per_id))

        # An accepted address starts another burst of its ID.
        ar_transfer = self.transfers(m, "ar")
        r_transfer = self.transfers(m, "r")
        ar_issued = issued.read(m, self.arid)
        ar_retired = retired.read(m, self.arid)
        held = Signal(16, name="ar_held")
        m.d.comb += held.eq(ar_issued.bursts - ar_retired.bursts)
        issued.write(m, ar_transfer, self.arid, {"bursts": ar_issued.bursts + 1})
        lengths.write(m, ar_transfer, Cat(ar_issued.bursts[:slot], self.arid),
                      {"len": self.arlen, "lock": self.arlock if self.exclusive else 0})
        with m.If(ar_transfer & ~self.reset):
            self.capacity(m, held < self.max_per_id,
                          f"{self.max_per_id + 1} reads outstanding with ARID={{:#x}}: max_per_id", self.arid)

        # Offered data belongs to a burst accepted before, and RLAST marks its last beat.
        r_issued = issued.read(m, self.rid)
        r_retired = retired.read(m, self.rid)
        burst = lengths.read(m, Cat(r_retired.bursts[:slot], self.rid))
        length = burst.len
        last = Signal(name="r_last_expected")
        m.d.comb += last.eq(r_retired.beats == length)
        with m.If(self.rvalid & ~self.reset):
            outstanding = r_issued.bursts != r_retired.bursts
            self.rule(m, "subordinate", "A3.3.1", outstanding,
                      "read data with RID={:#x}, of which no burst is outstanding", self.rid)
            with m.If(outstanding):
                self.rule(m, "subordinate", "A3.4.1", self.rlast | ~last,
                          "RLAST is low on the last beat of a burst, RID={:#x} ARLEN={}", self.rid, length)
                self.rule(m, "subordinate", "A3.4.1", ~self.rlast | last,
                          "RLAST is high on beat {} of a burst with RID={:#x} ARLEN={}",
                          r_retired.beats, self.rid, length)
            self._check_exokay(m, "R", self.rresp, burst.lock)
        retired.write(m, r_transfer, self.rid, {
            "bursts": r_retired.bursts + self.rlast,
            "beats": Mux(self.rlast, 0, r_retired.beats + 1),
        })

        self._count(m, "reads", ar_transfer, r_transfer & self.rlast)

    def _check_writes(self, m, epoch):
        """Write data matches the addresses in order; responses belong to bursts accepted in full."""
        rows = (self.max_outstanding - 1).bit_length()
        accepted = Rows(m, "aw_accepted", rows, data.StructLayout({
            "id": self.bus.id_width, "addr": 7, "len": 8, "size": 3, "burst": Burst, "lock": 1}))
        early = Rows(m, "w_early", rows, 8)
        aw_transfer = self.transfers(m, "aw")
        w_transfer = self.transfers(m, "w")

        # Bursts are numbered from 0 on both channels.
        aw_number = Signal(rows + 2)
        w_number = Signal(rows + 2)
        beat = Signal(9)
        ahead = Signal(signed(rows + 2))
        m.d.comb += ahead.eq(aw_number - w_number)
        with m.If(aw_transfer):
            m.d.sync += aw_number.eq(aw_number + 1)
        with m.If(w_transfer):
            m.d.sync += beat.eq(Mux(self.wlast, 0, beat + 1))
            with m.If(self.wlast):
                m.d.sync += w_number.eq(w_number + 1)

        # The address of this write data, if it arrived before or arrives in this cycle.
        address = {"id": self.awid, "addr": self.awaddr[:7], "len": self.awlen, "size": self.awsize,
                   "burst": self.awburst, "lock": self.awlock if self.exclusive else C(0)}
        accepted.write(m, aw_transfer, aw_number, address)
        current = Signal(accepted.shape)
        known = Signal()
        m.d.comb += [
            known.eq((ahead > 0) | ((ahead == 0) & aw_transfer)),
            current.eq(accepted.read(m, w_number)),
        ]
        with m.If(ahead == 0):
            m.d.comb += [current[field].eq(value) for field, value in address.items()]
        with m.If(w_transfer & ~self.reset):
            with m.If(known):
                self.rule(m, "manager", "A3.4.1", self.wlast | (beat != current.len),
                          "WLAST is low on the last beat of a burst with AWLEN={}", current.len)
                self.rule(m, "manager", "A3.4.1", ~self.wlast | (beat == current.len),
                          "WLAST is high on beat {} of a burst with AWLEN={}", beat, current.len)
                lanes = byte_lanes(m, current, beat, self.bus.data_width // 8)
                self.rule(m, "manager", "A3.4.3", (self.wstrb & ~lanes) == 0,
                          "WSTRB of {:#x} is outside the lanes of beat {}", self.wstrb, beat)
            with m.Else():
                self.rule(m, "manager", "A3.4.1", self.wlast | (beat < 255),
                          "write data ahead of its address has more than 256 beats")
                self.capacity(m, (ahead > -self.max_outstanding) | ~self.wlast,
                              f"data of {self.max_outstanding + 1} writes ahead of the address: "
                              "max_outstanding")

        # An address whose write data arrived before it.
        early.write(m, w_transfer & self.wlast, w_number, beat)
        early_length = early.read(m, aw_number)
        with m.If(aw_transfer & ~self.reset):
            with m.If(ahead < 0):
                self.rule(m, "manager", "A3.4.1", self.awlen == early_length,
                          "AWLEN of {} for a burst whose data came before with WLAST on beat {}",
                          self.awlen, early_length)
            with m.Elif(ahead == 0):
                self.rule(m, "manager", "A3.4.1", self.awlen >= beat,
                          "AWLEN of {} for a burst of which {} beats without WLAST came before",
                          self.awlen, beat)

        # A burst is complete when its address and its last beat have arrived: at most one per cycle.
        done = Signal()
        done_id, done_lock = Signal(self.bus.id_width), Signal()
        with m.If(ahead < 0):
            m.d.comb += [done.eq(aw_transfer), done_id.eq(self.awid), done_lock.eq(address["lock"])]
        with m.Else():
            m.d.comb += [done.eq(w_transfer & self.wlast & known), done_id.eq(current.id), done_lock.eq(current.lock)]
        completed = Table(m, "w_completed", self.bus.id_width, _Completed, epoch)
        responded = Table(m, "b_responses", self.bus.id_width, _Issued, epoch)
        before = completed.read(m, done_id)
        completed.write(m, done, done_id, {
            "bursts": before.bursts + 1,
            "lock": done_lock | (before.lock & (before.bursts != responded.read(m, done_id).bursts))})

        # Responses.
        b_transfer = self.transfers(m, "b")
        b_completed = completed.read(m, self.bid)
        b_responses = responded.read(m, self.bid).bursts
        with m.If(self.bvalid & ~self.reset):
            self.rule(m, "subordinate", "A3.3.1", b_completed.bursts != b_responses,
                      "response with BID={:#x}, of which no completed burst is outstanding", self.bid)
            self._check_exokay(m, "B", self.bresp, b_completed.lock)
        responded.write(m, b_transfer, self.bid, {"bursts": b_responses + 1})

        self._count(m, "writes", aw_transfer, b_transfer)

    def _check_exokay(self, m, channel, resp, lock):
        if self.exclusive:
            self.rule(m, "subordinate", "A7.2.3", (resp != Resp.EXOKAY) | lock,
                      f"{channel}RESP is EXOKAY for an access that is not exclusive")
        else:
            self.rule(m, "subordinate", "A3.4.4", resp != Resp.EXOKAY,
                      f"{channel}RESP is EXOKAY, but there are no exclusive accesses")

    def _count(self, m, name, start, finish):
        """Count outstanding bursts and check the number against the size of the tables."""
        count = getattr(self, name)
        with m.If(start & ~finish):
            m.d.sync += count.eq(count + 1)
        with m.If(finish & ~start & (count != 0)):
            m.d.sync += count.eq(count - 1)
        with m.If(start & ~self.reset):
            self.capacity(m, count < self.max_outstanding,
                          f"{self.max_outstanding + 1} {name} outstanding: max_outstanding")
