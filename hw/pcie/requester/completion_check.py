# SPDX-License-Identifier: Apache-2.0
"""Each completion against its request (PCI Express Base 2.3.1.1; PG213, error codes of RC).

CompletionFinder -> CompletionCheck -> ReadDelivery.  Latency: 0 cycles.  Throughput: one beat per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import Resp

from ..config import PcieConfig
from ..layouts import RequesterEvents
from ..tlp import CompletionStatus, ErrorCode
from .read_layouts import StateUpdate, TagEvent, Termination, checked_layout, found_layout

__all__ = ["CompletionCheck"]


class CompletionCheck(wiring.Component):
    """Accept the beats that a request expects, end it with an error on any other, and drop what follows.

    A request whose completion is wrong has received all of its beats from then on, but its tag is in use until its
    last completion: one that is marked as such, or holds as many bytes as remain by its own byte count. A completion
    that the hard block does not accept as the request's own (``MISMATCH``, ``INVALID_ADDRESS``, ``INVALID_TAG``) does
    not end it: the tag then waits for the hard block's time-out, or until it expires.

    =========================================  ========  =====================
    completion                                 response  event
    =========================================  ========  =====================
    unsupported request                        DECERR    ``unsupported``
    other status: completer abort, retry       SLVERR    ``aborted``
    poisoned                                   SLVERR    ``poisoned``
    time-out, here or in the hard block        SLVERR    ``timed_out``
    other error code                           SLVERR    ``malformed``
    does not fit its request                   SLVERR    ``malformed``
    request never sent                         DECERR
    =========================================  ========  =====================

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    found : ``In(stream.Signature(found_layout))``
    checked : ``Out(stream.Signature(checked_layout))``
        From registers, through up to 6 levels of logic.
    updates : ``Out(StateUpdate)``
    completed : ``Out(TagEvent)``
        No further completion of this tag may arrive.
    events : ``Out(RequesterEvents)``
        Registered.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "found": In(stream.Signature(found_layout(config))),
            "checked": Out(stream.Signature(checked_layout(config))),
            "updates": Out(StateUpdate(config)), "completed": Out(TagEvent(config)), "events": Out(RequesterEvents()),
        })

    def elaborate(self, platform):
        m = Module()
        found, kind = self.found.payload, self.found.payload.kind
        completion, record, state = found.completion, found.record, found.state
        move, arrived, ignored, live, due = Signal(), Signal(), Signal(), Signal(), Signal()
        # The current completion is ignored until its last beat: no request waited for it, or its tag has expired since.
        ignoring = Signal()
        current = Signal(self.completed.tag.shape())
        m.d.comb += [
            move.eq(self.found.valid & self.checked.ready), self.found.ready.eq(self.checked.ready),
            arrived.eq(kind == Termination.NONE),
            ignored.eq(arrived & Mux(completion.first, ~state.waiting, ignoring)),
            live.eq((kind == Termination.REFUSED) | state.waiting & ~ignored), due.eq(live & (state.left != 0)),
        ]
        with m.If(move & arrived):
            m.d.sync += [ignoring.eq(ignored & ~completion.last), current.eq(completion.tag)]
        with m.Elif(move & (kind == Termination.EXPIRED) & (completion.tag == current)):
            m.d.sync += ignoring.eq(1)

        errors = self._classify(m, found, arrived)
        wrong, last = Signal(), Signal()
        m.d.comb += [
            wrong.eq(Cat(errors.values()).any() | (kind != Termination.NONE)),
            last.eq((kind == Termination.EXPIRED) | (kind == Termination.REFUSED)
                    | arrived & completion.last & (completion.completed | _counted_last(found))),
            self.completed.valid.eq(move & live & last), self.completed.tag.eq(completion.tag),
            self.updates.valid.eq(move & live), self.updates.tag.eq(completion.tag),
            self.updates.state.waiting.eq(~last), self.updates.state.beat.eq(state.beat + 1),
            self.updates.state.offset.eq(0),
            self.updates.state.left.eq(Mux(wrong | (state.left == 0), 0, state.left - 1)),
        ]
        for name, error in errors.items():
            m.d.sync += getattr(self.events, name).eq(move & due & error)
        m.d.sync += self.events.unexpected.eq(move & arrived & completion.first & ~due)

        checked = self.checked.payload
        m.d.comb += [checked[name].eq(record[name]) for name in ("id", "flush", "stored", "slot", "ends_burst")]
        m.d.comb += [
            self.checked.valid.eq(self.found.valid & due), checked.tag.eq(completion.tag),
            checked.beat.eq(state.beat), checked.left.eq(state.left), checked.data.eq(completion.data),
        ]
        with m.If(errors["unsupported"] | (kind == Termination.REFUSED)):
            m.d.comb += checked.resp.eq(Resp.DECERR)
        with m.Elif(wrong):
            m.d.comb += checked.resp.eq(Resp.SLVERR)
        return m

    def _classify(self, m, found, arrived):
        """Event -> whether it is the error of this beat."""
        completion = found.completion
        names = ("unsupported", "aborted", "poisoned", "malformed", "timed_out")
        errors = {name: Signal(name=name) for name in names}
        refused, other, shapely = Signal(), Signal(), Signal()
        success = completion.status == CompletionStatus.SUCCESSFUL
        unsupported = completion.status == CompletionStatus.UNSUPPORTED_REQUEST
        m.d.comb += [
            refused.eq(arrived & ((completion.error == ErrorCode.BAD_STATUS)
                                  | (completion.error == ErrorCode.NONE) & ~success)),
            errors["unsupported"].eq(refused & unsupported), errors["aborted"].eq(refused & ~unsupported),
            errors["poisoned"].eq(arrived & (completion.error == ErrorCode.POISONED)),
            errors["timed_out"].eq(Mux(arrived, completion.error == ErrorCode.TIMEOUT,
                                       found.kind != Termination.REFUSED)),
            other.eq((completion.error != ErrorCode.NONE) & (completion.error != ErrorCode.BAD_STATUS)
                     & (completion.error != ErrorCode.POISONED) & (completion.error != ErrorCode.TIMEOUT)),
            shapely.eq(_fits(found)),
            errors["malformed"].eq(arrived & (other | (completion.error == ErrorCode.NONE) & success & ~shapely)),
        ]
        return errors


def _fits(found):
    """Whether a beat continues its request: its address, length and byte count, and its position in its completion."""
    completion, record, state = found.completion, found.record, found.state
    lane = len(state.offset)
    final = found.beats == state.left
    counted = found.count == state.left << lane
    first = (completion.address == Cat(state.offset, state.beat)) & Mux(
        record.flush, found.zero_length,
        found.whole & counted & (found.beats <= state.left) & (completion.completed == final))
    end = Mux(completion.last, completion.completed == (state.left == 1), state.left != 1)
    return (first | ~completion.first) & end


def _counted_last(found):
    """Whether the completion holds all bytes that remain by its own byte count.

    With another error code, its request is still in flight in the hard block, unless it says otherwise.
    """
    completion = found.completion
    counts = (completion.error == ErrorCode.NONE) | (completion.error == ErrorCode.POISONED)
    return counts & (completion.dwords != 0) & (found.count_dwords <= completion.dwords)
