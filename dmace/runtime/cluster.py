# SPDX-License-Identifier: Apache-2.0
"""Clusters: simulated cards in this process whose accelerators are connected as a torus."""

import errno
import itertools
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from math import prod
from types import TracebackType
from typing import Self

import numpy as np

from dmace.drivers.ace import Share, share_for
from hw.ace.config import DIMENSIONS, ONE_SHOT_BYTES, ONE_SHOT_WIDTH, AceConfig
from hw.ace.registers import LINK_TIMEOUT, LINK_TRIES
from hw.card import PRESET_NAMES

from .accelerator import Accelerator
from .communicator import Communicator
from .device import Device, open_device
from .errors import DmaceError, RequestTimeout
from .names import Status as Progress
from .names import resolve

__all__ = ["MAX_CARDS", "Cluster", "open_cluster"]

MAX_CARDS = 16

_LINK_SECONDS = 120.0
_numbers = itertools.count()


class Cluster:
    """Connected devices, from :func:`dmace.open_cluster`. A context manager.

    Attributes
    ----------
    shape : tuple of int
        Sizes of the torus; the last dimension's coordinate of a rank varies fastest.
    devices : tuple of :class:`Device`
        In rank order; each is closed with the cluster.
    """

    def __init__(self, name: str, shape: tuple[int, ...], devices: tuple[Device, ...], config: AceConfig,
                 link_latency: int) -> None:
        self.name, self.shape, self.devices, self.config = name, shape, devices, config
        self._link_latency = link_latency
        self._accelerators = [Accelerator(device, config) for device in devices]
        for one in self._accelerators:
            one.do(one.driver.set_link_patience(timeout=LINK_TIMEOUT + 3 * link_latency, tries=LINK_TRIES))
        self._made = self._fsms = self._slots = 0
        self.connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close all devices. A second call does nothing."""
        for device in self.devices:
            device.close()

    def connect(self) -> None:
        """Bring links up that are not: a device that is reset alone takes its neighbours' ends of its links down.

        Raises
        ------
        DmaceError
            If a link does not come up.
        """
        waiting = [(rank, port) for rank in range(len(self.devices)) for dimension, size in enumerate(self.shape)
                   if size > 1 for port in (2 * dimension, 2 * dimension + 1)]
        deadline, next_start = time.monotonic() + _LINK_SECONDS, 0
        while True:
            waiting = [(rank, port) for rank, port in waiting if not self._accelerators[rank].link_is_up(port)]
            if not waiting:
                return
            if time.monotonic() > deadline:
                rank, port = waiting[0]
                raise DmaceError(f"The link at port {port} of rank {rank} has not come up within "
                                 f"{_LINK_SECONDS:.0f} s.")
            cycles = self.devices[0].cycles() or 0
            if cycles >= next_start:
                ends = {*waiting, *((self._neighbour(rank, port), port ^ 1) for rank, port in waiting)}
                for rank in {rank for rank, _ in ends}:
                    one = self._accelerators[rank]
                    one.do(one.driver.start_links(port for other, port in ends if other == rank))
                waiting = sorted(ends)
                # Some round trips; a start in the middle of a handshake begins it again.
                next_start = cycles + 10 * self._link_latency + 5_000

    def _neighbour(self, rank: int, port: int) -> int:
        place = [int(one) for one in np.unravel_index(rank, self.shape)]
        dimension = port // 2
        place[dimension] = (place[dimension] + (-1 if port % 2 else 1)) % self.shape[dimension]
        return int(np.ravel_multi_index(place, self.shape))

    def reopen(self, ranks: Sequence[Communicator], *, timeout: float | None = None) -> None:
        """Open a communicator again that has ended: that was revoked, timed out, or lost a link or memory.

        No rank may post meanwhile. Its devices must not have been reset.

        Parameters
        ----------
        ranks : sequence of :class:`Communicator`
            All that :meth:`communicators` returned.
        timeout : float or None
            Seconds until all ranks' collectives have ended.

        Raises
        ------
        RequestTimeout
        """
        self.connect()
        deadline = None if timeout is None else time.monotonic() + timeout
        for rank in ranks:
            while not rank.ended():
                if deadline is not None and time.monotonic() >= deadline:
                    raise RequestTimeout(f"The communicator's collectives have not ended at rank {rank.rank} within "
                                         f"{timeout} s.", errno.ETIMEDOUT)
                time.sleep(1e-3)
        for rank in ranks:
            rank.reopen()

    def communicators(self, *, dimensions: Sequence[int] | None = None, domain: int = 0, priority: int = 0,
                      fsms: int | None = None, slots: int | None = None,
                      memory_latency: int = 100, one_shot: int = ONE_SHOT_BYTES) -> tuple[Communicator, ...]:
        """Make a communicator, and return the part of each rank. Each has a queue, FSMs and slots of its own.

        Parameters
        ----------
        dimensions : sequence of int
            Those of the torus that it spans, all by default. With fewer, there is one communicator for each row or
            plane, and a rank is part of its own.
        domain : int
            Protection domain: it reaches memory of the same one.
        priority : int
            0 to 3; a higher one goes first.
        fsms, slots : int
            Chunks on the links, and in the SRAM, at a time: powers of two. By default what keeps links and memory busy,
            by the rule of :mod:`hw.ace.sizing`, and no more than an even part, for each queue, of what is left.
        memory_latency : int
            Cycles, for this rule.
        one_shot : int
            Bytes of the longest :meth:`~.Communicator.all_reduce` that goes around the rings in half of the hops, with
            more bytes on each link, and adds in rank order in each dimension; 0 for none.

        Raises
        ------
        DmaceError
            If there is nothing left, or no such dimension.
        """
        chosen = tuple(range(len(self.shape)) if dimensions is None else dimensions)
        if len(set(chosen)) != len(chosen) or not set(chosen) <= set(range(len(self.shape))) or not chosen:
            raise DmaceError(f"Dimensions of a communicator must be some of 0 to {len(self.shape) - 1}, each once, not "
                             f"{chosen}.")
        for name, value, limit in (("domain", domain, 255), ("priority", priority, 3),
                                   ("one_shot", one_shot, (1 << ONE_SHOT_WIDTH) - 1)):
            if not 0 <= value <= limit:
                raise DmaceError(f"The {name} of a communicator must be from 0 to {limit}, not {value}.")
        config, number = self.config, self._made
        left = min(config.queues, config.communicators) - number
        if not left:
            raise DmaceError(f"All {number} queues for communicators are in use.")
        shape = tuple(self.shape[dimension] for dimension in chosen)
        free_fsms, free_slots = config.fsms - self._fsms, config.slots - self._slots
        rule = share_for(config, shape, link_rate=1, link_latency=self._link_latency, memory_latency=memory_latency,
                         first_fsm=self._fsms, fsms=free_fsms // left, first_slot=self._slots, slots=free_slots // left)
        share = Share(self._fsms, _part("fsms", rule.fsms if fsms is None else fsms, free_fsms),
                      self._slots, _part("slots", rule.slots if slots is None else slots, free_slots))
        if share.slots < share.fsms:
            raise DmaceError(f"A communicator needs as many slots as FSMs at least, not {share.slots} and "
                             f"{share.fsms}.")

        def open_rank(one: Accelerator, place: Sequence[int]) -> Communicator:
            coordinates = tuple(place[dimension] for dimension in chosen)
            left_out = one.open_communicator(number, number, domain=domain, share=share, shape=shape,
                                             coordinates=coordinates, dimensions=chosen, priority=priority,
                                             one_shot=one_shot)
            rank = int(np.ravel_multi_index(coordinates, shape))
            return Communicator(one, number, number, shape=shape, rank=rank, domain=domain, left_out=left_out)

        self._made += 1
        self._fsms, self._slots = self._fsms + share.fsms, self._slots + share.slots
        # A cycle of one card is one of all: the ranks' registers are written at the same time.
        with ThreadPoolExecutor(len(self.devices)) as pool:
            return tuple(pool.map(open_rank, self._accelerators, np.ndindex(*self.shape)))


def _part(name: str, wanted: int, free: int) -> int:
    """``wanted``, if it is a power of two and free."""
    if wanted < 1 or wanted & wanted - 1:
        raise DmaceError(f"The {name} of a communicator must be a power of two, not {wanted}.")
    if wanted > free:
        raise DmaceError(f"A communicator cannot have {wanted} {name}: {free} are left.")
    return wanted


def open_cluster(name: str, *, shape: Sequence[int], link_latency: int = 20,
                 status: Progress | None = None) -> Cluster:
    """Open simulated cards in this process, connected as a torus; their clocks advance together.

    Parameters
    ----------
    name : str
        ``sim:tiny``, with the options of :func:`dmace.open`.
    shape : sequence of int
        One to three sizes; ``(4,)`` is a ring of four cards.
    link_latency : int
        Cycles from the departure of a beat to its arrival.
    status : callable or None
        Receives ``(what, done, total)`` while the simulator is built.

    Raises
    ------
    DmaceError
        If there is no such card, or no such torus.
    """
    sizes = tuple(shape)
    if not 1 <= len(sizes) <= DIMENSIONS or any(not isinstance(size, int) or size < 1 for size in sizes):
        raise DmaceError(f"The shape of a cluster must be 1 to {DIMENSIONS} sizes from 1 on, not {sizes}.")
    if prod(sizes) > MAX_CARDS:
        raise DmaceError(f"A cluster has up to {MAX_CARDS} cards, not {prod(sizes)}.")
    if not 1 <= link_latency <= 10_000:
        raise DmaceError(f"The latency of a link must be from 1 to 10000 cycles, not {link_latency}.")
    kind, _, rest = name.partition(":")
    preset = rest.partition(",")[0]
    if kind != "sim" or preset not in PRESET_NAMES:
        raise DmaceError(f"A cluster is made of simulated cards, sim:PRESET with one of {', '.join(PRESET_NAMES)}, not "
                         f"{name!r}.")
    resolved = resolve(name, status)
    # Imported here, so that wrong arguments are reported without waiting for it.
    from hw.card.config import PRESETS

    options = f"cluster={os.getpid()}.{next(_numbers)},shape={'x'.join(map(str, sizes))},link={link_latency}"
    with ExitStack() as opened:
        devices = tuple(opened.enter_context(open_device(f"{resolved},{options},rank={rank}"))
                        for rank in range(prod(sizes)))
        for rank, device in enumerate(devices):
            device.name = f"{name}, rank {rank}"
        cluster = Cluster(name, sizes, devices, PRESETS[preset].endpoint.ace, link_latency)
        opened.pop_all()
    return cluster
