# SPDX-License-Identifier: Apache-2.0
"""Whether a mutant is equivalent to the original: no test can find it.

First by structure: Yosys optimises the module with and without the mutant, and the netlists are equal but for names
that Yosys makes. Else by proof: it merges equal structures, pairs the signals of the same name, and proves each pair
equal, by combinational logic, then by induction over some cycles, from any state in which all pairs are equal.

The module is regarded alone, with all modules in it and free inputs. A mutant that only the surroundings make
unobservable is not found to be equivalent.
"""

import re
import resource
import subprocess
import sys
from pathlib import Path

from sim.verilator.toolchain import build_root
from tests.mutation.netlist import modules
from tests.mutation.operators import Mutant
from tests.mutation.schemata import with_mutants

__all__ = ["is_equivalent"]

_MODULE = re.compile(r"^(?:attribute [^\n]*\n)*module (\\\S+)\n(.*?)^end\n", flags=re.MULTILINE | re.DOTALL)
_CELL = re.compile(r"^  cell (\\\S+) ", flags=re.MULTILINE)

CYCLES = 3
SECONDS = 30
"""Processor time of a proof."""
def is_equivalent(text: str, mutant: Mutant, *, below: str = "") -> bool:
    """Compare the module of a mutant with the original; False, too, if the time is not enough for a proof.

    Parameters
    ----------
    text : str
        The netlist without mutants.
    below : str
        Path of the instance that has the mutants.
    """
    name = next(module.name for module in modules(text, below=below) if module.path == mutant.module)
    mutated = with_mutants(text, {1: mutant}, below=below)
    folder = build_root() / "mutants" / "equivalence"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "design.il").write_text(_part(mutated, name), encoding="utf-8")
    script = []
    for number, kind in ((0, "gold"), (1, "gate")):
        script += ["read_rtlil design.il", f"hierarchy -top {name}", "proc", "flatten",
                   f"cd {name}", f"connect -set mutant_number 16'd{number}", "cd ..",
                   "opt -full", "memory", "opt -full", "opt_clean -purge", f"rename {name} {kind}",
                   f"write_rtlil {kind}.il",
                   f"design -stash {kind}"]
    return _prove(folder, script)


def _part(text: str, top: str) -> str:
    """The module and those in it; what selects the mutant is a wire of the module, not a port."""
    bodies = {match[1]: match[0] for match in _MODULE.finditer(text)}
    wanted, open_ = [], [top]
    while open_:
        name = open_.pop()
        if name in wanted:
            continue
        wanted.append(name)
        open_ += [kind for kind in _CELL.findall(bodies[name]) if kind in bodies]
    first = re.sub(r"^(  wire width 16) input \d+ (\\mutant_number)$", r"\1 \2", bodies[top], flags=re.MULTILINE)
    # Assertions are no part of the function.
    return re.sub(r"^(?:  attribute [^\n]*\n)*  cell \$check .*?^  end\n", "",
                  "".join([first, *(bodies[name] for name in wanted[1:])]), flags=re.MULTILINE | re.DOTALL)


_CHILD = """
import sys
from pyosys import libyosys

design = libyosys.Design()
for line in sys.stdin.read().splitlines():
    libyosys.run_pass(line, design)
"""


def _prove(folder: Path, script: list[str]) -> bool:
    # After `equiv_make`, nothing may optimise the two copies together.
    if not _yosys(folder, script):
        return False
    gold, gate = (_plain((folder / f"{kind}.il").read_text(encoding="utf-8")) for kind in ("gold", "gate"))
    if gold == gate:
        return True
    script += [f"design -copy-from {kind} -as {kind} {kind}" for kind in ("gold", "gate")]
    script += ["delete gold/t:$scopeinfo gate/t:$scopeinfo", "equiv_make gold gate equal", "hierarchy -top equal",
               "equiv_struct", "equiv_simple", f"equiv_induct -seq {CYCLES}", "tee -o status.txt equiv_status"]
    status = folder / "status.txt"
    status.unlink(missing_ok=True)
    return _yosys(folder, script) and "Equivalence successfully proven" in status.read_text(encoding="utf-8")


def _plain(text: str) -> str:
    """RTLIL with the names that Yosys made replaced by numbers in the order of their use."""
    numbers: dict[str, str] = {}

    def plain(found: re.Match[str]) -> str:
        return numbers.setdefault(found[0], f"${len(numbers)}")

    body = text.partition("\nmodule ")[2].partition("\n")[2]
    return re.sub(r"(?<![\w\\])\$(?:auto|mutant|procmux|flatten|\d)[^\s]*", plain,
                  re.sub(r"^ *(?:attribute|#) .*\n", "", body, flags=re.MULTILINE))


def _yosys(folder: Path, script: list[str]) -> bool:
    """Run a script; False if the time was not enough. Raises RuntimeError if it fails."""
    done = subprocess.run([sys.executable, "-c", _CHILD], input="\n".join(script), cwd=folder, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS)))
    (folder / "yosys.log").write_text(done.stdout, encoding="utf-8")
    if done.returncode > 0:
        raise RuntimeError(f"Yosys failed:\n{done.stdout[-2000:]}")
    return done.returncode == 0
