# SPDX-License-Identifier: Apache-2.0
"""Sweeps: a set of experiments, of which those without a stored result run on one core, many cores, or a Dask cluster.

Each result is a file named by the hash of its inputs. An interrupted sweep therefore continues where it stopped, and
overlapping sweeps share results.
"""

import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

from hw.errors import UserError

from .configuration import ENDPOINTS
from .experiment import Experiment, parse_nodes, row
from .settings import Setting, quantity

__all__ = ["Store", "experiments_of", "read_spec", "run_all", "run_one"]

Result = dict[str, Any]
"""``row`` and ``inputs``, or ``error``: see :func:`run_one`."""

_Each = Callable[[Mapping[str, Experiment]], Iterator[tuple[str, Result]]]
"""Runs experiments, and yields the key and the result of each when it completes."""

_FIXED = {"workload": "resnet50", "nodes": "4x4x4", "endpoint": "ace", "steps": 2}
MOST_RUNS = 100_000


def read_spec(path: str | Path) -> dict[str, Any]:
    """Contents of a TOML file::

        workload = "resnet50"            # or nodes, endpoint, steps: the same for all experiments
        [settings]                       # as --set of dmace train
        order = "fifo"
        [vary]                           # every combination of these values
        endpoint = ["ace", "ideal"]
        "ace.fsms" = [4, 8, 16]          # for one endpoint only
    """
    try:
        # Some editors put a byte order mark before the text.
        spec = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UserError(f"the sweep {path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"the sweep {path} is not valid TOML: {error}.") from None
    known = {*_FIXED, "settings", "vary"}
    if unknown := [key for key in spec if key not in known]:
        raise UserError(f"the sweep {path} has a key {unknown[0]!r}; it can have {', '.join(sorted(known))}.")
    for key in ("settings", "vary"):
        if not isinstance(spec.setdefault(key, {}), dict):
            raise UserError(f"{key} of the sweep {path} must be a table, not {spec[key]!r}.")
        spec[key] = _flat(spec[key])
    for name, values in spec["vary"].items():
        if not isinstance(values, list) or not values:
            raise UserError(f"{name} in vary of the sweep {path} must be a list of values, not {values!r}.")
    return spec


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values of nested tables by their dotted names: ``outer.inner``."""
    made: dict[str, Any] = {}
    for name, value in table.items():
        made |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return made


def experiments_of(spec: Mapping[str, Any]) -> list[tuple[Experiment, dict[str, Setting]]]:
    """``(experiment, varied)`` for each combination of a spec, each experiment once; ``varied`` maps names to
    values."""
    names, lists = list(spec["vary"]), list(spec["vary"].values())
    total = 1
    for values in lists:
        total *= len(values)
    if total > MOST_RUNS:
        raise UserError(f"a sweep can have {MOST_RUNS:,} combinations, not {total:,}.")
    found: dict[str, tuple[Experiment, dict[str, Setting]]] = {}
    for values in product(*lists):
        varied = {name: quantity(value) for name, value in zip(names, values, strict=True)}
        fixed: dict[str, Any] = {**_FIXED, **{name: spec[name] for name in _FIXED if name in spec}}
        settings = {name: quantity(value) for name, value in spec["settings"].items()}
        for name, value in varied.items():
            if name in _FIXED:
                fixed[name] = value
            else:
                settings[name] = value
        if fixed["endpoint"] not in ENDPOINTS:
            raise UserError(f"endpoint must be one of {', '.join(ENDPOINTS)}, not {fixed['endpoint']!r}.")
        mine: dict[str, Setting] = {}
        for name, value in settings.items():
            first, _, rest = name.partition(".")
            if first in ENDPOINTS:
                if first != fixed["endpoint"]:
                    varied.pop(name, None)
                    continue
                name = f"endpoint.{rest}"
            mine[name] = value
        experiment = Experiment(workload=str(fixed["workload"]), shape=parse_nodes(fixed["nodes"]),
                                endpoint=fixed["endpoint"], steps=fixed["steps"], settings=mine)
        found.setdefault(repr(experiment), (experiment, varied))
    return list(found.values())


@dataclass(frozen=True)
class Store:
    """A folder of results.

    Parameters
    ----------
    folder : Path
    """

    folder: Path

    def get(self, key: str) -> Result | None:
        """Result of a key, or None if there is none or its file is damaged."""
        try:
            result: Result = json.loads((self.folder / f"{key}.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        return result

    def put(self, key: str, result: Result) -> None:
        """Store a result atomically."""
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f".{key}.{os.getpid()}"
        part.write_text(json.dumps(result, indent=1, default=repr) + "\n", encoding="utf-8")
        part.replace(self.folder / f"{key}.json")


def run_one(experiment: Experiment) -> Result:
    """Result of an experiment as plain data: ``row`` and ``inputs``, or ``error`` as a sentence."""
    try:
        result = {"row": row(experiment, experiment.run()), "inputs": experiment.inputs()}
    except UserError as error:
        return {"error": str(error)}
    # Convert to the form in which the store returns it.
    stored: Result = json.loads(json.dumps(result, default=repr))
    return stored


@contextmanager
def _serial() -> Iterator[_Each]:
    def each(experiments: Mapping[str, Experiment]) -> Iterator[tuple[str, Result]]:
        for key, experiment in experiments.items():
            yield key, run_one(experiment)
    yield each


@contextmanager
def _dask(scheduler: str | None, workers: int | None) -> Iterator[_Each]:
    try:
        distributed: Any = import_module("distributed")
    except ModuleNotFoundError:
        raise UserError("a sweep on several cores or machines needs the Python package distributed; run "
                        "`pip install -e '.[sweep]'` in the checkout, or use --serial.") from None
    cluster = None
    try:
        if scheduler is None:
            cluster = distributed.LocalCluster(n_workers=workers, threads_per_worker=1, processes=True,
                                               dashboard_address=None)
        try:
            client = distributed.Client(cluster or scheduler, timeout="10s", set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise UserError(f"there is no Dask scheduler at {scheduler}: {error}.") from None
        with client:
            def each(experiments: Mapping[str, Experiment]) -> Iterator[tuple[str, Result]]:
                futures = {client.submit(run_one, experiment, key=f"dmace-{key}", pure=False): key
                           for key, experiment in experiments.items()}
                for future in distributed.as_completed(futures, loop=client.loop):
                    if future.status == "finished":
                        yield futures[future], future.result()
                    else:
                        yield futures[future], {"error": f"the worker failed: {future.exception()}"}
            yield each
    finally:
        if cluster is not None:
            cluster.close()


def run_all(experiments: Mapping[str, Experiment], store: Store, *, scheduler: str | None = None,
            workers: int | None = None, serial: bool = False,
            progress: Callable[[int, int], object] = lambda done, total: None) -> dict[str, Result]:
    """Results of experiments by key. Experiments without a stored result are run; errors are not stored.

    Parameters
    ----------
    experiments : dict
        Key -> :class:`Experiment`.
    store : Store
    scheduler : str or None
        Address of a Dask scheduler whose workers have dmace installed; None for a local cluster.
    workers : int or None
        Workers of the local cluster; None for one per core.
    serial : bool
        Run in this process, without Dask.
    progress : callable
        Called with the number of results so far and the total number.
    """
    results = {key: found for key in experiments if (found := store.get(key)) is not None}
    missing = {key: experiment for key, experiment in experiments.items() if key not in results}
    progress(len(results), len(experiments))
    if missing:
        with _serial() if serial else _dask(scheduler, workers) as each:
            for key, result in each(missing):
                results[key] = result
                if "error" not in result:
                    store.put(key, result)
                progress(len(results), len(experiments))
    return results
