# SPDX-License-Identifier: Apache-2.0
"""Configuration: tables and settings that software commits throughout the engine, and the state bits of queues.

FrontPanel, QueueControl -> every stage with a table.  A write is one cycle with ``valid`` high, and every receiver
takes it. No write occurs during the sweep after reset. Each receiver uses the members that it needs.
"""

from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from hw.common.sizes import ADDR_WIDTH

from .config import TARGETS, DmaConfig
from .layouts import ArkSettings, Connection, PageEntry, RingSettings, queue_settings_layout
from .queue_settings import QUEUE_SETTINGS

__all__ = ["AblationSignature", "ConnectionWriteSignature", "PageWriteSignature", "QueueStatesSignature",
           "QueueWriteSignature", "TargetSettingsSignature"]


class QueueWriteSignature(wiring.Signature):
    """Software commits the settings of one queue.

    Members
    -------
    valid : ``Out(1)``, queue : ``Out``
    settings : ``Out(queue_settings_layout)``
    priority, limit, sc_addr, rc_addr : ``Out``
        One member for each setting of :data:`~.queue_settings.QUEUE_SETTINGS` that is not part of a struct. In ARK
        mode, ``sc_addr`` is the address of the sender's array.
    ring : ``Out(RingSettings)``, ark : ``Out(ArkSettings)``
        Of an extended queue; ignored for others.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({
            "valid": Out(1), "queue": Out(config.queue_bits),
            "settings": Out(queue_settings_layout(config)),
            **{setting.member: Out(setting.bits(config)) for setting in QUEUE_SETTINGS if "." not in setting.member},
            "ring": Out(RingSettings), "ark": Out(ArkSettings),
        })


class PageWriteSignature(wiring.Signature):
    """Software commits an entry of the page table. Segments looked up earlier may be in flight to the old frame."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "page": Out(config.page_bits), "entry": Out(PageEntry)})


class ConnectionWriteSignature(wiring.Signature):
    """Software commits an entry of the connection table; ``rc_addr`` is the receiver's flag array, a multiple of 8."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "connection": Out(config.connection_bits), "entry": Out(Connection),
                          "rc_addr": Out(ADDR_WIDTH)})


class TargetSettingsSignature(wiring.Signature):
    """Levels, not a write: for each target the limit of beats in flight (0 for none), and whether stalls may interrupt
    its read data.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"limit": Out(config.load_width).array(TARGETS), "slow": Out(TARGETS)})


class AblationSignature(wiring.Signature):
    """Levels that switch optimizations off, to measure their benefit.

    Members
    -------
    single_read : ``Out(1)``
        Issue a segment only after the bursts of the previous one have been read.
    every_word : ``Out(1)``
        Do not retire from a queue while one of its completion words is to be written.
    """

    def __init__(self) -> None:
        super().__init__({"single_read": Out(1), "every_word": Out(1)})


class QueueStatesSignature(wiring.Signature):
    """State bits of all queues; registers.

    Members
    -------
    enabled : ``Out(queues)``
        Queues that take words and doorbells.
    running : ``Out(queues)``
        Queues that may be scheduled.
    resetting : ``Out(queues)``
        Queues being reset: their errors are dropped, and their rings discard their state.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({name: Out(config.queues) for name in ("enabled", "running", "resetting")})
