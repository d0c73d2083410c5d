# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Modules that only connect: a missing connection is refused, and so is an input without a driver in an accelerator
that is built without some of its parts."""

import gc
from dataclasses import replace

import pytest
from amaranth.hdl import Fragment, Module

from hw import connections
from hw.ace.chunk_path import ChunkPath
from hw.ace.command_path import CommandPath
from hw.ace.config import TINY
from hw.ace.engine import AceEngine
from hw.ace.link.port import LinkPort
from hw.ace.network import Network
from hw.ace.supervision import Supervision
from hw.ace.tables import Tables
from hw.ace.timing import AceTimingOptions
from hw.common.wiring import Wiring, WiringError
from hw.endpoint.config import TINY as ENDPOINT
from hw.endpoint.engine import Endpoint
from hw.endpoint.puts import Puts

pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")

CALLS = ("connect", "broadcast", "leave_open", "tie_off", "idle")
"""Methods of :class:`Wiring` that account for a port."""

PUTS = replace(TINY, link_channels=2)

MODULES = {
    "engine": lambda: AceEngine(PUTS), "command_path": lambda: CommandPath(TINY), "tables": lambda: Tables(TINY),
    "chunk_path": lambda: ChunkPath(TINY), "network": lambda: Network(PUTS), "supervision": lambda: Supervision(TINY),
    "link_port": lambda: LinkPort(TINY), "endpoint": lambda: Endpoint(ENDPOINT), "puts": lambda: Puts(ENDPOINT),
}

REDUCED = {
    "counters": {"counters": False}, "varying": {"varying": False}, "dimensions": {"dimensions": 1},
    "all": {"counters": False, "varying": False, "prod": False, "fp8": False, "avg": False, "widen": False,
            "dimensions": 1, "timing": AceTimingOptions.ecp5()},
}


@pytest.fixture(autouse=True)
def _collected():
    """Collect parts that are connected, but not elaborated, while the warning about them is off."""
    yield
    gc.collect()


def _recorded(monkeypatch, module):
    """The module's calls of its wiring: ``(method, arguments, keywords)``, in order."""
    calls = []

    def recording(name, method):
        def record(self, *arguments, **keywords):
            calls.append((name, arguments, keywords))
            return method(self, *arguments, **keywords)

        return record

    with monkeypatch.context() as patch:
        for name in ("add", *CALLS):
            patch.setattr(Wiring, name, recording(name, getattr(Wiring, name)))
        module.elaborate(None)
    return calls


def _repeat(module, calls):
    """Wire the module up again, by these calls."""
    wires = Wiring(Module(), module)
    for name, arguments, keywords in calls:
        getattr(wires, name)(*arguments, **keywords)
    wires.finish()


def _without_one(calls):
    """The calls without each connection in turn, and without each sink of a broadcast."""
    for index, (name, arguments, keywords) in enumerate(calls):
        before, after = calls[:index], calls[index + 1:]
        if name in CALLS:
            yield before + after
        if name == "broadcast":
            for sink in range(1, len(arguments)):
                yield [*before, (name, arguments[:sink] + arguments[sink + 1:], keywords), *after]


@pytest.mark.parametrize("name", MODULES)
def test_each_connection_that_is_left_out_is_refused(monkeypatch, name):
    module = MODULES[name]()
    calls = _recorded(monkeypatch, module)
    _repeat(module, calls)
    cases = list(_without_one(calls))
    assert len(cases) > 5
    for fewer in cases:
        with pytest.raises(WiringError, match=rf"^Not connected in {type(module).__name__}: "):
            _repeat(module, fewer)


@pytest.mark.parametrize("left_out", REDUCED)
def test_what_may_be_left_out_leaves_no_input_undriven(left_out):
    connections.check(Fragment.get(AceEngine(replace(TINY, **REDUCED[left_out])), None))
