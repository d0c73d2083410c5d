# SPDX-License-Identifier: Apache-2.0
"""Persistent kernels beside endpoints, and the threads that post and poll for them: the Python side of
``workgroups.h``, which describes how they behave.

::

    cluster.start_kernel(0, Kernel(workgroups=8, notice=Notice.TICK, tasks=[...], slices=[...], waits=[...]))
    cluster.run(100_000)
    cluster.kernel_times(0, Times.SEEN)
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

__all__ = ["Credit", "Kernel", "Notice", "Poster", "Rule", "Slice", "Store", "Task", "Times", "Wait", "packed"]


class Notice(IntEnum):
    """A workgroup's notice that its part of a slice is in memory."""

    NOTHING = 0
    TICK = 1
    """The slice's ``tick`` is stored."""
    MASK = 2
    """The part's bit of the slice's mask is set, for a thread that polls it."""
    LAST = 3
    """The same by an atomic operation; the workgroup that sets the last bit posts ``posts`` itself."""


class Times(IntEnum):
    """Times of a kernel that can be read."""

    STARTED = 0
    """Each task's start."""
    VISIBLE = 1
    """Each task: its bytes are in memory."""
    NOTICED = 2
    """Each slice: its last tick was transferred, or its last bit set."""
    POSTED = 3
    """Each rule, poster by poster, then each slice, with LAST: its last post was transferred."""
    SEEN = 4
    """Each wait: its poll that found the count."""


@dataclass(frozen=True)
class Store:
    """A store of 8 or 16 bytes to an aligned address of ``s_axi_db``."""

    address: int
    data: bytes


@dataclass(frozen=True, kw_only=True)
class Task:
    """Part of a slice.

    Parameters
    ----------
    slice : int
        Number of its slice.
    compute : int
        Cycles.
    address : int
        Where ``data``, its result, is written.
    data : bytes
    bit : int
        Its bit in the slice's mask.
    read_bytes : int
        Bytes that it reads meanwhile in the memory's bandwidth; 0 where ``compute`` includes all reads.
    """

    slice: int
    compute: int
    address: int
    data: bytes
    bit: int = 0
    read_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Result of some tasks. With :attr:`Notice.TICK` each of them stores ``tick``, with MASK and LAST its mask is at
    ``mask``, with LAST ``posts`` are stored at its end. A slice without them is only computed."""

    tick: Store | None = None
    mask: int = 0
    posts: Sequence[Store] = ()


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Store ``posts`` in order when the lowest ``bits`` bits at ``address`` are 1; at once if ``bits`` is 0."""

    posts: Sequence[Store]
    address: int = 0
    bits: int = 0


@dataclass(frozen=True, kw_only=True)
class Poster:
    """A thread that polls all its rules in each period.

    Parameters
    ----------
    rules : sequence of :class:`Rule`
    after_kernel : bool
        Starts when the kernel has ended, else with it.
    in_order : bool
        No rule is met before those in front of it.
    delay : int
        Cycles until it starts.
    period : int
        Cycles from one poll to the next, at least 1.
    latency : int
        Cycles from the loads of a poll to the first store that depends on them.
    gap : int
        Cycles from one store to the next, at least 1.
    """

    rules: Sequence[Rule]
    after_kernel: bool = False
    in_order: bool = False
    delay: int = 0
    period: int = 1
    latency: int = 0
    gap: int = 1


@dataclass(frozen=True)
class Credit:
    """At most ``depth`` posts to a doorbell page are in flight; the word at address ``word`` counts the completed ones.
    A rule's posts wait for the credits of all of them. Ticks and posts of the hardware need none.

    One in ``every`` posts requests the word: the bits ``flag`` of its first 8 bytes are set. 0: they are as given.
    """

    page: int
    depth: int
    word: int
    every: int = 0
    flag: int = 0


@dataclass(frozen=True)
class Wait:
    """A consumer polls the word at ``address`` every ``period`` cycles until its lower half is at least ``count``."""

    address: int
    count: int = 1
    period: int = 1


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A persistent kernel of an endpoint's GPU.

    Parameters
    ----------
    workgroups : int
        Each runs one task at a time; the next task goes to the first free one.
    notice : :class:`Notice`
    tasks : sequence of :class:`Task`
        In the order in which they start.
    slices, posters, credits, waits : sequence
    fence : bool
        A workgroup starts a task only when the bytes of its last one are visible; else it waits in the background
        with its notice.
    store_delay : int
        Cycles of a store from the GPU to the pins of ``s_axi_db``.
    atomic_latency : int
        Cycles of the operation of :attr:`Notice.LAST` on the mask.
    begin : int
        Cycles from now until the kernel starts.
    """

    workgroups: int = 1
    notice: Notice = Notice.NOTHING
    tasks: Sequence[Task] = ()
    slices: Sequence[Slice] = ()
    posters: Sequence[Poster] = ()
    credits: Sequence[Credit] = ()
    waits: Sequence[Wait] = ()
    fence: bool = False
    store_delay: int = 0
    atomic_latency: int = 0
    begin: int = 0


def _structure(name: str, **fields: Any) -> type[ctypes.Structure]:
    return type(name, (ctypes.Structure,), {"_fields_": list(fields.items())})


_u32, _u64 = ctypes.c_uint32, ctypes.c_uint64
_Task = _structure("TaskParameters", compute=_u64, read_bytes=_u64, address=_u64, bytes=_u64, slice=_u32, bit=_u32)
_Store = _structure("StoreParameters", address=_u32, strobes=_u32, words=_u64 * 2)
_Slice = _structure("SliceParameters", mask=_u64, first_store=_u32, stores=_u32, tick=_Store)
_Rule = _structure("RuleParameters", address=_u64, bits=_u32, first_store=_u32, stores=_u32)
_Poster = _structure("PosterParameters", first_rule=_u32, rules=_u32, after_kernel=_u32, in_order=_u32, delay=_u64,
                     period=_u64, latency=_u64, gap=_u64)
_Credit = _structure("CreditParameters", page=_u32, depth=_u32, every=_u32, reserved=_u32, word=_u64,
                     flag=_u64)
_Wait = _structure("WaitParameters", address=_u64, period=_u64, count=_u32, reserved=_u32)
_List = _structure("List", items=ctypes.c_void_p, count=_u64)
_LISTS = ("tasks", "bytes", "slices", "stores", "rules", "posters", "credits", "waits")
_Kernel = _structure("KernelParameters", begin=_u64, workgroups=_u32, notice=_u32, fence=_u32, store_delay=_u32,
                     atomic_latency=_u32, reserved=_u32, **dict.fromkeys(_LISTS, _List))


def packed(kernel: Kernel) -> tuple[ctypes.Structure, list[Any]]:
    """The ``KernelParameters`` of a :class:`Kernel`, and the arrays that must exist as long as they are used.

    Raises
    ------
    ValueError
        If a store is not of 8 or 16 bytes at a multiple of its length, or a count of cycles is out of range.
    """
    if kernel.tasks and kernel.workgroups < 1:
        raise ValueError(f"A kernel with tasks must have at least one workgroup, not {kernel.workgroups}")
    stores: list[Any] = []

    def several(posts: Sequence[Store]) -> tuple[int, int]:
        first = len(stores)
        stores.extend(map(_store, posts))
        return first, len(posts)

    slices = [_Slice(one.mask, *several(one.posts), _store(one.tick) if one.tick else _Store())
              for one in kernel.slices]
    rules = [_Rule(rule.address, rule.bits, *several(rule.posts)) for poster in kernel.posters for rule in poster.rules]
    posters, first = [], 0
    for poster in kernel.posters:
        if poster.period < 1 or poster.gap < 1:
            raise ValueError("Period and gap of a thread must be at least 1 cycle, "
                             f"not {poster.period} and {poster.gap}")
        posters.append(_Poster(first, len(poster.rules), int(poster.after_kernel), int(poster.in_order), poster.delay,
                               poster.period, poster.latency, poster.gap))
        first += len(poster.rules)
    for wait in kernel.waits:
        if wait.period < 1:
            raise ValueError(f"Period of a wait must be at least 1 cycle, not {wait.period}")
    lists = {
        "tasks": (_Task, [_Task(task.compute, task.read_bytes, task.address, len(task.data), task.slice, task.bit)
                          for task in kernel.tasks]),
        "slices": (_Slice, slices), "stores": (_Store, stores), "rules": (_Rule, rules), "posters": (_Poster, posters),
        "credits": (_Credit, [_Credit(one.page, one.depth, one.every, 0, one.word, one.flag)
                              for one in kernel.credits]),
        "waits": (_Wait, [_Wait(wait.address, wait.period, wait.count, 0) for wait in kernel.waits])}
    arrays: dict[str, Any] = {name: (kind * len(items))(*items) for name, (kind, items) in lists.items()}
    data = b"".join(task.data for task in kernel.tasks)
    arrays["bytes"] = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
    made = _Kernel(kernel.begin, kernel.workgroups, int(kernel.notice), int(kernel.fence), kernel.store_delay,
                   kernel.atomic_latency, 0,
                   *(_List(ctypes.cast(arrays[name], ctypes.c_void_p), len(arrays[name])) for name in _LISTS))
    return made, list(arrays.values())


def _store(store: Store) -> Any:
    length = len(store.data)
    if length not in (8, 16) or store.address % length:
        raise ValueError(f"A store must be of 8 or 16 bytes at a multiple of its length, not of {length} bytes at "
                         f"{store.address:#x}")
    lane = store.address % 16
    words = (bytes(lane) + store.data).ljust(16, b"\0")
    halves = [int.from_bytes(words[at:at + 8], "little") for at in (0, 8)]
    return _Store(store.address - lane, ((1 << length) - 1) << lane, (_u64 * 2)(*halves))
