# SPDX-License-Identifier: Apache-2.0
"""The page of a queue's settings, from their table."""

from .config import DmaConfig
from .queue_settings import QUEUE_SETTINGS, QueueSetting

__all__ = ["page"]


def page(config: DmaConfig) -> str:
    """Markdown for the sizes of ``config``."""
    lines = ["# Settings of a queue: dma_engine", "",
             "Software writes the staging registers, then the queue's number to QUEUE_COMMIT, which writes all",
             "settings in one cycle. The registers read as the values that were last staged; the settings of a queue",
             "cannot be read. A keyword is one of the driver's `configure_queue`; the other settings follow from its",
             "`sc`, `rc`, `ark` and `ring`.", "",
             "| setting | set by | register | bits | legal | reset | meaning | used by, in `hw/dma_engine/` |",
             "|---|---|---|---|---|---|---|---|"]
    lines += [f"| `{setting.name}` | {setting.setter.value} | {_register(setting, config)} | "
              f"{_legal(setting, config)} | {setting.reset} | {setting.doc} | {', '.join(setting.stages)} |"
              for setting in QUEUE_SETTINGS]
    return "\n".join([*lines, ""])


def _register(setting: QueueSetting, config: DmaConfig) -> str:
    width = setting.bits(config)
    if width > 32:
        return f"{setting.register}_LO, _HI | {width - 1}:0"
    high = setting.lsb + width - 1
    return f"{setting.register}.{setting.field} | {setting.lsb if width == 1 else f'{high}:{setting.lsb}'}"


def _legal(setting: QueueSetting, config: DmaConfig) -> str:
    if setting.codes is not None:
        return ", ".join(f"{code.value} {code.name}" for code in setting.codes)
    if setting.low_bits or setting.bits(config) > 32:
        return f"multiples of {1 << setting.low_bits if setting.low_bits else 8}"
    legal = setting.values(config)
    return f"{legal[0]} to {legal[-1]}"
