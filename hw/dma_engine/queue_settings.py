# SPDX-License-Identifier: Apache-2.0
"""The settings of a queue: one row for each, from which registers, C header, gateware, driver, random tests and the
page of settings derive.

Plain Python. A new setting is a row here and its use in a stage (and in the golden model, if a request's result depends
on it).
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hw.common.sizes import ADDR_WIDTH, DOMAIN_WIDTH, PAGE_BYTES, REGION_ID_WIDTH, WEIGHT_WIDTH

from .config import CLASSES, TARGETS, DmaConfig
from .words import QueueMode

__all__ = ["QUEUE_REGISTERS", "QUEUE_SETTINGS", "QueueSetting", "Setter", "check_queue_settings",
           "setting_fields"]

_ROW, _PAGE_BITS = "settings", (PAGE_BYTES - 1).bit_length()


class Setter(enum.Enum):
    """Source of the value that a driver writes."""

    KEYWORD = "a keyword"
    """The keyword of the setting's name, an integer."""

    COMPLETION = "`sc`, `rc`"
    """Whether the queue has completion words, and where."""

    ARK = "`ark`"
    """Written only if the queue is to be in ARK mode."""

    RING = "`ring`"
    """Written only if a descriptor ring is to drive the queue."""

    MODE = "`ark`, `ring`"
    """Which of them is given."""


@dataclass(frozen=True, kw_only=True)
class QueueSetting:
    """A row of :data:`QUEUE_SETTINGS`.

    Parameters
    ----------
    name : str
        Its name, and the driver's keyword if ``setter`` is KEYWORD.
    doc : str
        Its meaning, in a sentence.
    register : str
        The staging register, a key of :data:`QUEUE_REGISTERS`. A setting of more than 32 bits is a pair of registers.
    width : int, or callable from DmaConfig to int
    field : str, optional
        The register's field; ``name`` by default.
    lsb : int
        Its lowest bit in the register.
    reset : int
        Value after reset, of the register and of every queue, and the driver's default.
    legal : range, optional
        Values that software may write; by default all that fit.
    codes : type of IntEnum, optional
        Names of the values.
    member : str, optional
        Member of :class:`~.configuration.QueueWriteSignature`. The default, ``settings.<name>``, is a field of the
        queue's row in :mod:`~.frontend.settings`, which is looked up for each segment when it is scheduled and when it
        retires. Another member exists only while the configuration is committed, and its stages keep it.
    low_bits : int
        Lowest bits that hardware ignores; ``member`` lacks them.
    setter : Setter
    scheduling : bool
        It affects when the queue's segments are scheduled, and no result: the golden model ignores it.
    stages : tuple of str
        Files below ``hw/dma_engine`` of the stages that use it.
    """

    name: str
    doc: str
    register: str
    width: int | Callable[[DmaConfig], int]
    field: str = ""
    lsb: int = 0
    reset: int = 0
    legal: range | None = None
    codes: type[enum.IntEnum] | None = None
    member: str = ""
    low_bits: int = 0
    setter: Setter = Setter.KEYWORD
    scheduling: bool = False
    stages: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "field", self.field or self.name)
        object.__setattr__(self, "member", self.member or f"{_ROW}.{self.name}")
        if self.register not in QUEUE_REGISTERS:
            raise ValueError(f"Register of the queue setting {self.name!r} must be one of "
                             f"{', '.join(QUEUE_REGISTERS)}, not {self.register!r}")
        if self.reset and not self.in_row:
            raise ValueError(f"Reset value of the queue setting {self.name!r} must be 0, not {self.reset}: only "
                             f"members of {_ROW!r} have another one")

    def bits(self, config: DmaConfig) -> int:
        """Its width in an engine of these sizes."""
        return self.width if isinstance(self.width, int) else self.width(config)

    def values(self, config: DmaConfig) -> range:
        """Legal values in an engine of these sizes."""
        return range(1 << self.bits(config)) if self.legal is None else self.legal

    @property
    def in_row(self) -> bool:
        """It is a field of the queue's row of settings."""
        return self.member.startswith(f"{_ROW}.")

    @property
    def row_field(self) -> str:
        """Name of that field."""
        return self.member.removeprefix(f"{_ROW}.")


QUEUE_REGISTERS = {
    "QUEUE_SC": "Address of the send completion word; a multiple of 8",
    "QUEUE_RC": "Address of the receive completion word; a multiple of 8",
    "QUEUE_CONFIG": "Behaviour of the queue.",
    "RING_BASE": "Address of the queue's descriptor ring; a multiple of its length and of 4096, lower bits are ignored",
    "RING_RECORDS": "Address of the ring's completion records; a multiple of their length and of 4096, lower bits are "
                    "ignored",
    "RING_CONFIG": "Layout of the queue's descriptor ring.",
    "QUEUE_LIMIT": "Limit of the engine's resources that the queue occupies.",
    "QUEUE_ARK": "Segments of a queue in ARK mode.",
}
"""Name -> meaning of each staging register, in the order of their offsets."""


def _address(name: str, register: str, member: str, setter: Setter, stages: tuple[str, ...],
             low_bits: int = 0) -> QueueSetting:
    return QueueSetting(name=name, doc=f"{QUEUE_REGISTERS[register]}.", register=register, field="value",
                        width=ADDR_WIDTH, low_bits=low_bits, member=member, setter=setter, stages=stages)


QUEUE_SETTINGS = (
    _address("sc", "QUEUE_SC", "sc_addr", Setter.COMPLETION, ("completion/writer.py", "completion/ark_flags.py")),
    _address("rc", "QUEUE_RC", "rc_addr", Setter.COMPLETION, ("completion/writer.py",)),
    QueueSetting(
        name="domain", doc="Protection domain of the queue's requests.",
        register="QUEUE_CONFIG", lsb=0, width=DOMAIN_WIDTH,
        stages=("frontend/legalizer.py", "frontend/ark_words.py")),
    QueueSetting(
        name="sc_enable", doc="The queue has a send completion word.",
        register="QUEUE_CONFIG", lsb=8, width=1, setter=Setter.COMPLETION,
        stages=("frontend/legalizer.py", "completion/retire.py", "completion/ark_flags.py")),
    QueueSetting(
        name="rc_enable", doc="The queue has a receive completion word.",
        register="QUEUE_CONFIG", lsb=9, width=1, setter=Setter.COMPLETION,
        stages=("frontend/legalizer.py", "completion/retire.py")),
    QueueSetting(
        name="skip_errors", doc="Continue after a failed request instead of holding.",
        register="QUEUE_CONFIG", lsb=10, width=1,
        stages=("completion/retire.py",)),
    QueueSetting(
        name="target", doc="Memory with most of the queue's traffic, see TARGET_LIMIT.",
        register="QUEUE_CONFIG", lsb=24, width=(TARGETS - 1).bit_length(), scheduling=True,
        stages=("frontend/targets.py", "frontend/legalizer.py")),
    QueueSetting(
        name="limit", doc="Maximum of segments in flight; 0 for the engine's default.",
        register="QUEUE_LIMIT", field="segments", width=lambda config: config.limit_bits, member="limit",
        scheduling=True, stages=("frontend/scheduler.py",)),
    QueueSetting(
        name="priority", doc="Class; higher classes are scheduled first.",
        register="QUEUE_CONFIG", lsb=26, width=(CLASSES - 1).bit_length(), member="priority", scheduling=True,
        stages=("frontend/shares.py",)),
    QueueSetting(
        name="weight", doc="Share of the bus within the class; 0 counts as 1.",
        register="QUEUE_CONFIG", lsb=28, width=WEIGHT_WIDTH, scheduling=True,
        stages=("frontend/shares.py",)),
    QueueSetting(
        name="mode", doc="Meaning of stores to its page; NATIVE in a queue that is not extended.",
        register="QUEUE_CONFIG", lsb=11, width=2, codes=QueueMode, setter=Setter.MODE,
        stages=("frontend/shares.py", "completion/retire.py", "rings/lifecycle.py")),
    _address("ring_base", "RING_BASE", "ring.page", Setter.RING, ("rings/pointers.py",), _PAGE_BITS),
    _address("ring_records", "RING_RECORDS", "ring.record_page", Setter.RING, ("rings/records.py",), _PAGE_BITS),
    QueueSetting(
        name="ring_size", doc="Log2 of the number of descriptors and records, 3 to 16; other values saturate.",
        register="RING_CONFIG", field="size", lsb=0, width=5, setter=Setter.RING, member="ring.size",
        stages=("rings/pointers.py", "rings/records.py")),
    QueueSetting(
        name="ring_has_records", doc="The ring has records.",
        register="RING_CONFIG", field="records", lsb=8, width=1, setter=Setter.RING, member="ring.records",
        stages=("rings/lifecycle.py",)),
    QueueSetting(
        name="ring_pair", doc="The ring prefetches as many descriptors as both rings of its pair, queues 2n and "
                              "2n + 1; the other queue then has none.",
        register="RING_CONFIG", field="pair", lsb=9, width=1, setter=Setter.RING, member="ring.pair",
        stages=("rings/lifecycle.py",)),
    QueueSetting(
        name="ark_base", doc="Region that is the queue's segment 0.",
        register="QUEUE_ARK", field="base", width=REGION_ID_WIDTH, setter=Setter.ARK, member="ark.base",
        stages=("frontend/ark_words.py",)),
)


def setting_fields(register: str) -> tuple[QueueSetting, ...]:
    """Settings in a staging register."""
    return tuple(setting for setting in QUEUE_SETTINGS if setting.register == register)


def check_queue_settings(config: DmaConfig, given: Mapping[str, int]) -> dict[str, int]:
    """Values of all settings that have a keyword: those given, and the reset values of the others.

    Raises
    ------
    TypeError
        If there is no setting of that name.
    ValueError
        If a value is not legal.
    """
    known = {setting.name: setting for setting in QUEUE_SETTINGS if setting.setter is Setter.KEYWORD}
    values = {name: setting.reset for name, setting in known.items()}
    for name, value in given.items():
        if name not in known:
            raise TypeError(f"Setting of a queue must be one of {', '.join(known)}, not {name!r}")
        legal = known[name].values(config)
        if int(value) not in legal:
            raise ValueError(f"Setting {name!r} of a queue must be from {legal[0]} to {legal[-1]}, not {value}")
        values[name] = int(value)
    return values
