# SPDX-License-Identifier: Apache-2.0
"""Options of the test suite: ``--waves``, ``--seed N``, ``--long``, ``--soak``.

A test that simulates takes the fixture ``simulate``, or ``seed`` and ``waves`` if it calls the builder.
All tests of a session use the same seed; a failure prints the ``--seed`` that reproduces it.
"""

import os
import random
import re

import pytest

_SESSION_SEED = pytest.StashKey[int]()


def pytest_addoption(parser):
    group = parser.getgroup("dmace")
    group.addoption("--waves", action="store_true", help="record every signal of the simulations that run")
    group.addoption("--seed", type=int, metavar="N", help="random seed of this session (default: a new one)")
    group.addoption("--long", action="store_true", help="run only the second stage: tests marked long or synth")
    group.addoption("--soak", action="store_true", help="run the long tests too, and the others for longer")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: second stage, `make test-long`; with --long or --soak")
    config.addinivalue_line("markers", "soak: runs long; only with --soak")
    if not config.getoption("--soak"):
        os.environ.setdefault("DMACE_QUICK_BUILDS", "1")
    seed = config.getoption("--seed")
    # All workers of pytest-xdist must use the same seed.
    shared = getattr(config, "workerinput", {}).get("seed")
    seed = shared if shared is not None else seed
    config.stash[_SESSION_SEED] = random.SystemRandom().randrange(2**31) if seed is None else seed


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    node.workerinput["seed"] = node.config.stash[_SESSION_SEED]


def pytest_report_header(config):
    return f"seed: {config.stash[_SESSION_SEED]}"


def _is_long(item):
    """Whether a test belongs to the second stage: synthesis, simulated netlists, variants of a covered block."""
    return any(item.get_closest_marker(mark) for mark in ("long", "synth"))


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--soak"):
        stage = config.getoption("--long")
        others = [item for item in items if _is_long(item) != stage]
        # A test named on the command line runs in either stage.
        if not any("::" in argument for argument in config.args):
            config.hook.pytest_deselected(items=others)
            items[:] = [item for item in items if _is_long(item) == stage]
        for item in items:
            if item.get_closest_marker("soak"):
                item.add_marker(pytest.mark.skip(reason="runs long; --soak runs it"))
    if hasattr(config, "workerinput"):
        # One of several workers runs the longest tests first, so that no worker starts one near the end.
        items.sort(key=lambda item: item.get_closest_marker("synth") is None)


def pytest_runtest_setup(item):
    random.seed(item.config.stash[_SESSION_SEED])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        again = f"pytest --seed {item.config.stash[_SESSION_SEED]} '{item.nodeid}'"
        report.sections.append(("to repeat", again))
    return report


@pytest.fixture
def seed(request):
    """Seed of this session: start every random choice from it."""
    return request.config.stash[_SESSION_SEED]


@pytest.fixture
def waves(request):
    """Whether ``--waves`` was given."""
    return request.config.getoption("--waves")


@pytest.fixture
def soak(request):
    """Whether ``--soak`` was given."""
    return request.config.getoption("--soak")


@pytest.fixture
def simulate(request, seed, waves):
    """``simulate(component, testcase=None, **run)`` runs cocotb tests of the test's own module.

    ``name`` of the top module defaults to the class name of the component in snake_case; other options are passed
    to :meth:`sim.verilator.build.Build.run`. Three failed tests end the run, as each may take many cycles.
    """
    from sim.verilator.build import Design, build

    def run(component, *, name=None, module=None, **options):
        if name is None:
            kind = component.kind if isinstance(component, Design) else type(component)
            name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower()
        made = build(component, name=name, waves=waves)
        env = {"COCOTB_MAX_FAILURES": 3} | (options.pop("env", None) or {})
        result = made.run(module or request.module.__name__, env=env, **{"seed": seed, **options})
        if result.waves:
            print(f"waves: {result.waves}")
        return result

    return run
