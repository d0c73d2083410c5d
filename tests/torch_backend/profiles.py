# SPDX-License-Identifier: Apache-2.0
"""In the process of a rank: traces of collectives, alone and beside those of ``torch.profiler``."""

import json

import torch
import torch.distributed as dist

import dmace.torch
from tests.torch_backend.rank import leave, start


def profile(store, path, folder):
    """Ranges in the profiler's table, and the events of this backend's tracks."""
    start(store, socket=path)
    me = dist.get_rank()
    dmace.torch.reset_stats()
    weights = torch.randn(40, 40)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        with torch.profiler.record_function("step"):
            one, two = torch.ones(3000), torch.ones(5)
            work = dist.all_reduce(one, async_op=True)
            for _ in range(20):
                weights = torch.tanh(weights @ weights)
            work.wait()
            dist.broadcast(two, 0)
    ranges = {one.key: one.count for one in profiler.key_averages() if one.key.startswith("dmace:")}
    file = f"{folder}/trace{me}.json"
    profiler.export_chrome_trace(file)
    written = dmace.torch.write_trace(file, beside=file, clock_mhz=100, label=f"rank {me}")
    with open(file, encoding="utf-8") as text:
        events = json.load(text)["traceEvents"]
    step, = [event for event in events if event.get("name") == "step" and event.get("cat") == "user_annotation"]
    ours = [event for event in events if event.get("cat") == "dmace"]
    inside = [step["ts"] <= event["ts"] and event["ts"] + event["dur"] <= step["ts"] + step["dur"] for event in ours]
    alone = f"{folder}/alone{me}.json"
    dmace.torch.write_trace(alone)
    found = dmace.torch.stats()
    errors = []
    for call in (lambda: dmace.torch.write_trace(alone, clock_mhz=0), lambda: dmace.torch.write_trace(
            alone, beside=f"{folder}/none"), lambda: dmace.torch.write_trace(alone, beside=__file__)):
        try:
            call()
        except dmace.torch.DmaceError as error:
            errors.append(str(error).split(":")[0].replace(folder, ""))
    leave()
    return {"ranges": ranges, "written": written, "inside": inside, "same process": ours[0]["pid"] == step["pid"],
            "names": [event["name"] for event in ours], "cycles": [event["args"]["cycles"] for event in ours],
            "microseconds": [event["dur"] for event in ours], "share": found.simulated_share,
            "recorded": [one.result.cycles for one in found.records], "errors": len(errors)}
