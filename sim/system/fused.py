# SPDX-License-Identifier: Apache-2.0
"""Computation fused with its communication: a request by the GPU sends each slice of a result when it is computed.

After "Optimizing distributed ML communication with fused computation-collective operations" (arXiv 2305.06942): a
kernel computes its output in slices, and the thread that finishes a slice posts its request. Without fusion, the whole
output is computed first. The operations are in :mod:`.fused_operations`.
"""

from dataclasses import dataclass, field
from math import prod

from hw.ace.words import Collective
from hw.errors import UserError

from .configuration import MachineConfig
from .dlrm_step import Dlrm, DlrmStep
from .kernel import SECOND
from .machine import Machine
from .moe import Expert, Moe
from .slice_costs import SliceCosts
from .slices import AllToAll, Collectives, Fused, Fusion, Slices
from .workgroups import Workgroups

__all__ = ["MOST_UNFOLDED", "FusedRun", "can_fold", "kind_of", "run", "simulate"]

MOST_UNFOLDED = 32


@dataclass(frozen=True, kw_only=True)
class FusedRun:
    """Times of a run.

    Parameters
    ----------
    seconds : float
        Until the last rank has received all its data.
    computed : float
        Until the last rank has computed all its slices.
    skew : float
        Time between the first and the last rank that has all its data, as a share of ``seconds``; 0 for a folded
        machine.
    slice_bytes : int
    compute_seconds : float
        For which the busiest processor computed: a lower bound of ``seconds``.
    link_seconds : float
        For which the busiest direction of a link was busy, headers included: another lower bound.
    phases : dict
        Seconds of the ends of an operation's phases, by name, if it has several.
    """

    seconds: float
    computed: float
    skew: float
    slice_bytes: int
    compute_seconds: float = 0.0
    link_seconds: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)


def run(operation: Fused, config: MachineConfig, *, slices: int | None = None, order: str | None = None,
        engine: str | SliceCosts = "hardware", per_slice: float = 0.0, workgroups: Workgroups | None = None,
        relay: bool = False) -> FusedRun:
    """:class:`FusedRun` of an operation on an idle machine.

    Parameters
    ----------
    operation : Fused
    config : MachineConfig
    slices : int or None
        Slices of the part for each rank (all-to-all), or of the whole result (reductions); None: not fused.
    order : str
        One of :data:`~.slices.ORDERS`, for an all-to-all, by default the first; ``by-rank`` simulates every rank, and
        at most 32 of them.
    engine, per_slice, workgroups, relay
        As :class:`~.slices.Fusion` has them.
    """
    more = {} if order is None else {"order": order}
    return simulate(operation, config, Fusion(
        fused=slices is not None, slices=1 if slices is None else slices, engine=engine, per_slice=per_slice,
        workgroups=workgroups or Workgroups(), relay=relay, **more))


def can_fold(operation: Fused, config: MachineConfig, fusion: Fusion) -> bool:
    """Whether all ranks do the same, so that one represents all.

    Raises
    ------
    UserError
        If they do not, and are too many to be simulated.
    """
    what = ""
    if operation.collective == Collective.ALL_TO_ALL and fusion.order == "by-rank":
        what = "slices in the order of ranks"
    elif isinstance(operation, Moe) and len(set(operation.loads)) > 1:
        what = "experts of different loads"
    ranks = prod(config.shape)
    if what and ranks > MOST_UNFOLDED:
        raise UserError(f"{what} are simulated on at most {MOST_UNFOLDED} ranks, not on {ranks}.")
    return not what


def kind_of(operation: Fused) -> type[Slices]:
    """The pattern of an operation's communication."""
    if isinstance(operation, Moe):
        return Expert
    if isinstance(operation, Dlrm):
        return DlrmStep
    return AllToAll if operation.collective == Collective.ALL_TO_ALL else Collectives


def simulate(operation: Fused, config: MachineConfig, fusion: Fusion, *,
             kind: type[Slices] | None = None) -> FusedRun:
    """:class:`FusedRun` of an operation on an idle machine, which is folded if all ranks do the same; ``kind``: by
    default :func:`kind_of` the operation."""
    machine = Machine(config.with_(fold=can_fold(operation, config, fusion)))
    slices = (kind or kind_of(operation))(operation, machine, fusion)
    slices.start()
    machine.run()
    last, first = max(slices.done.values()), min(slices.done.values())
    return FusedRun(
        seconds=last, computed=max(slices.computed.values()), skew=(last - first) / last if last else 0.0,
        slice_bytes=slices.size, compute_seconds=slices.busy,
        link_seconds=max(port.busy for one in machine.endpoints for port in one.ports) / SECOND,
        phases=slices.phases)
