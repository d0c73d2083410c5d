# SPDX-License-Identifier: Apache-2.0
"""Networks of a machine: for each dimension a ring of links, or switches with a link from each rank.

::

    8x16, links.0.kind=switch, links.1.kind=switch, links.1.leaf_ranks=4, links.1.oversubscription=2

is 16 domains of 8 ranks at a switch each. Ranks of the same number in their domains are a *rail*: a tree of leaf
switches, of 4 ranks each, below a spine to which each leaf has links for half of the bandwidth of its ranks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hw.errors import UserError

from .parts import GB, Npu, check

__all__ = ["NETWORKS", "Background", "LinkConfig", "check_network", "default_links", "network"]

KINDS = ("ring", "switch")


@dataclass(frozen=True, kw_only=True)
class Background:
    """Traffic of other jobs on a link: :class:`.background.Backlog` is the model.

    Parameters
    ----------
    load : float
        Bandwidth that they request together, as a share of the link's; 0 to 1.
    jobs : int
        Number of them; a link is shared fairly by all that have something to send.
    period_s : float
        They send in bursts at the link's rate, one in each period, at the same times on all links; 0 for a steady
        load.
    """

    load: float = 0.0
    jobs: int = 1
    period_s: float = 0.0

    def __post_init__(self) -> None:
        check("background traffic", self, "load", "jobs", "period_s")


@dataclass(frozen=True, kw_only=True)
class LinkConfig:
    """Links of a dimension.

    Parameters
    ----------
    bytes_per_s : float
        Bandwidth of each direction of each link, for payload and headers.
    latency_s : float
        Time from the departure of a packet's last byte until its arrival; through a switch, to the other rank.
    kind : str
        ``ring``: each rank has a link to each of two neighbours. ``switch``: each has one link, to a switch.
    leaf_ranks : int or None
        With ``switch``: ranks of the dimension at each leaf switch, below a spine; None: one switch for all.
    oversubscription : float
        Bandwidth of all ranks of a leaf over that of its links to the spine, which carry everything between leaves.
    spine_latency_s : float
        Additional time from leaf to leaf.
    rails : bool
        Each group of ranks along the dimension has leaves of its own. Otherwise all groups share their leaves' links to
        the spine: a leaf has ``leaf_ranks`` of each group.
    reduces : bool
        With ``switch``: it can add and multicast what all of its ranks send, for endpoints with ``in-network``.
    background : Background
        Other jobs, on all links of a ring, or between leaves and spine.
    """

    bytes_per_s: float
    latency_s: float
    kind: str = "ring"
    leaf_ranks: int | None = None
    oversubscription: float = 1.0
    spine_latency_s: float = 0.0
    rails: bool = True
    reduces: bool = False
    background: Background = field(default_factory=Background)

    def __post_init__(self) -> None:
        check("a link", self, "bytes_per_s", "latency_s", "leaf_ranks", "oversubscription", "spine_latency_s")
        if self.kind not in KINDS:
            raise UserError(f"kind of a link must be one of {', '.join(KINDS)}, not {self.kind!r}.")
        if not self.switched and (self.reduces or self.leaf_ranks is not None):
            name = "reduces" if self.reduces else "leaf_ranks"
            raise UserError(f"{name}={str(getattr(self, name)).lower()} is for links of the kind switch, not ring.")
        if self.leaf_ranks is None:
            for name, usual in (("oversubscription", 1), ("spine_latency_s", 0), ("rails", True)):
                if getattr(self, name) != usual:
                    raise UserError(f"{name}={str(getattr(self, name)).lower()} is for links with a spine, so "
                                    "leaf_ranks must not be none.")
            if self.switched and self.background.load:
                raise UserError(f"background.load={self.background.load:g} of a switch is on links between leaves and "
                                "spine, so leaf_ranks must not be none.")

    @property
    def switched(self) -> bool:
        """There is a switch, and no ring."""
        return self.kind == "switch"


def check_network(links: Sequence[LinkConfig], shape: Sequence[int]) -> None:
    """Check links beside the number of ranks of each dimension.

    Raises
    ------
    UserError
        If leaves do not divide the ranks evenly.
    """
    for number, (link, ranks) in enumerate(zip(links, shape, strict=True)):
        if link.leaf_ranks is not None and ranks % link.leaf_ranks:
            raise UserError(f"leaf_ranks of links.{number} must divide {ranks} ranks evenly, not be "
                            f"{link.leaf_ranks}.")


def default_links() -> tuple[LinkConfig, ...]:
    """Links of the first dimension inside a package, of the others between packages."""
    clock = Npu().clock_hz
    between = LinkConfig(bytes_per_s=25 * GB, latency_s=500 / clock)
    return (LinkConfig(bytes_per_s=200 * GB, latency_s=90 / clock), between, between)


_NVLINK = LinkConfig(bytes_per_s=450 * GB, latency_s=700e-9, kind="switch", reduces=True)
_RAIL = LinkConfig(bytes_per_s=50 * GB, latency_s=2e-6, kind="switch")

NETWORKS = {"torus": default_links(), "nvlink-rails": (_NVLINK, _RAIL, _RAIL)}
"""Links by the name of a network. ``torus``: the ACE paper's. ``nvlink-rails``: a domain of NVLink 4 (18 links of 25
GB/s in each direction) at switches that reduce, and a rail of 400 Gbit/s for each rank; latencies are assumptions."""


def network(name: object) -> tuple[LinkConfig, ...]:
    """Links of one of :data:`NETWORKS`."""
    if name not in NETWORKS:
        raise UserError(f"network must be one of {', '.join(NETWORKS)}, not {name!r}.")
    return NETWORKS[str(name)]
