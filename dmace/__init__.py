# SPDX-License-Identifier: Apache-2.0
"""dmace, as users import it: devices over any transport, the drivers, and the command line.

::

    with dmace.open("sim:tiny") as device, device.queue() as queue:
        source, target = device.register(numpy.arange(1000)), device.allocate(8000)
        queue.copy(target, source).wait()

:func:`open` gives a :class:`Device`; errors are :class:`DmaceError`. ``dmace.drivers`` programs an engine over any bus
that reads and writes 32-bit registers; nothing in it knows about simulation. ``dmace.cli`` is the command ``dmace``.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dmace.runtime.cluster import Cluster, open_cluster
    from dmace.runtime.collective_request import CollectiveRequest
    from dmace.runtime.communicator import Communicator
    from dmace.runtime.device import Device, DeviceInfo
    from dmace.runtime.device import open_device as open
    from dmace.runtime.errors import CollectiveFailed, DmaceError, RequestFailed, RequestTimeout
    from dmace.runtime.memory import Memory, Span
    from dmace.runtime.queue import Queue, Request

__all__ = ["Cluster", "CollectiveFailed", "CollectiveRequest", "Communicator", "Device", "DeviceInfo", "DmaceError",
           "Memory", "Queue", "Request", "RequestFailed", "RequestTimeout", "Span", "__version__", "open",
           "open_cluster"]

try:
    __version__ = version("dmace")
except PackageNotFoundError:
    __version__ = "0+unknown"

_MODULES = {
    "open": "device", "Device": "device", "DeviceInfo": "device", "DmaceError": "errors", "RequestFailed": "errors",
    "RequestTimeout": "errors", "CollectiveFailed": "errors", "Cluster": "cluster", "open_cluster": "cluster",
    "CollectiveRequest": "collective_request", "Communicator": "communicator",
    "Memory": "memory", "Span": "memory", "Queue": "queue", "Request": "queue",
}
"""Name -> module of ``dmace.runtime``, imported when it is used: it needs NumPy."""


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'dmace' has no attribute {name!r}")
    module = import_module(f"dmace.runtime.{_MODULES[name]}")
    return getattr(module, "open_device" if name == "open" else name)
