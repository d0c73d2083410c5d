# SPDX-License-Identifier: Apache-2.0
"""The page of a report."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from sim.system.experiment import Experiment
from sim.system.settings import flatten
from sim.system.training import Run

from . import pipeline, plots

__all__ = ["figure", "page", "section", "table", "write"]

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; }
th, td { padding: .2em .8em; text-align: right; border-bottom: 1px solid #ddd; font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; }
figure { margin: 1.5em 0; } svg { max-width: 100%; height: auto; }
figcaption { color: #555; } details { margin: 1em 0; } summary { cursor: pointer; }
"""


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """HTML of a list of dicts of equal keys."""
    if not rows:
        return ""
    head = "".join(f"<th>{escape(str(key))}</th>" for key in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{escape(_text(value))}</td>" for value in row.values()) + "</tr>\n"
                   for row in rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>\n"


def section(title: str, *parts: str) -> str:
    return f"<section><h2>{escape(title)}</h2>\n{''.join(parts)}</section>\n"


def page(title: str, *sections: str) -> str:
    """A whole page."""
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
            f"<style>{_STYLE}</style></head>\n<body><h1>{escape(title)}</h1>\n{''.join(sections)}</body></html>\n")


def write(path: Path, experiments: Sequence[Experiment], runs: Sequence[Run], result: Mapping[str, Any]) -> None:
    """Write the report of ``dmace train``.

    Parameters
    ----------
    path : Path
    experiments : list of Experiment
    runs : list of Run
        Of each.
    result : dict
        What ``--json`` writes.
    """
    named = {experiment.endpoint: run for experiment, run in zip(experiments, runs, strict=True)}
    first = experiments[0]
    shape = "x".join(map(str, first.shape))
    headline = [{
        "endpoint": one["endpoint"], "iteration, us": one["step_seconds"] * 1e6,
        "compute, us": one["compute_seconds"] / one["steps"] * 1e6,
        "exposed, us": one["exposed_seconds"] / one["steps"] * 1e6,
        "network, GB/s": one["network_bytes_per_s"] / 1e9, "links busy, %": one["link_utilisation"] * 100,
        "over best baseline": one["speedup_over_best_baseline"], "of ideal": one["share_of_ideal"],
    } for one in result["rows"]]
    sections = [
        f"<p>{escape(runs[0].graph.source)}.</p>" if runs[0].graph.source else "",
        section("Iteration time", table(headline), figure(
            plots.iterations(result["rows"]),
            "Mean of an iteration. Slower compute: what communication takes of cores and memory bandwidth.")),
        section("Links", figure(
            plots.links(result["rows"]),
            "Share of the whole run for which links carry data, by dimension of the torus.")),
        section("The last iteration", *(figure(
            *((pipeline.timeline(run), f"{name}: what the processor of a rank of each stage does, and below it sends "
               "and collectives, from their request until they have ended.") if _is_pipeline(run) else
              (plots.timeline(run), f"{name}: what the processor does (top), and collectives from asking until they "
               "have ended.")))
            for name, run in named.items())),
        section("Layers", figure(plots.layers(named), "Layers that the processor waits for longest."), *(
            f"<details><summary>{escape(name)}</summary>{table(_layers(run))}</details>"
            for name, run in named.items())),
        section("Inputs", table(_inputs(experiments))),
    ]
    path.write_text(page(f"{runs[0].graph.name} on {shape} ranks", *sections), encoding="utf-8")


def _is_pipeline(run: Run) -> bool:
    """Whether it is a transformer, with one stage or several."""
    return run.graph.nodes[0].micro is not None


def figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>\n"


def _layers(run: Run) -> list[dict[str, object]]:
    layers = run.layers()
    names = ["forward", "input_grad", "weight_grad", "other", "exchange", "exposed"]
    if not any(one.other for one in layers):
        names.remove("other")
    return [{"layer": one.layer} | {f"{name.replace('_', ' ')}, us": getattr(one, name) * 1e6 for name in names}
            for one in layers]


def _inputs(experiments: Iterable[Experiment]) -> list[dict[str, object]]:
    flat = {experiment.endpoint: flatten(experiment.config()) | experiment.described() for experiment in experiments}
    names = dict.fromkeys(name for values in flat.values() for name in values)
    return [{"input": name} | {endpoint: values.get(name) for endpoint, values in flat.items()} for name in names]


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.3f}" if 1e-3 <= abs(value) < 1e6 or not value else f"{value:.4g}"
    return str(value)
