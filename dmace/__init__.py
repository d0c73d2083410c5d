# SPDX-License-Identifier: Apache-2.0
"""dmace, as users import it: the command line and the drivers.

``dmace.drivers`` programs an engine over any bus that reads and writes 32-bit registers; nothing in it knows about
simulation. ``dmace.cli`` is the command ``dmace``.
"""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["__version__"]

try:
    __version__ = version("dmace")
except PackageNotFoundError:
    __version__ = "0+unknown"
