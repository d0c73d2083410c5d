# SPDX-License-Identifier: Apache-2.0
"""Keys of stored results follow the sources that matter, and no others."""

from sim.system import sources
from sim.system.sources import ROOT, reachable


def test_files_that_a_result_depends_on():
    found = {str(path.relative_to(ROOT)) for path in reachable("sim.system.experiment")}
    assert {"sim/system/port.py", "sim/system/accelerator.py", "sim/system/workloads/gnmt.py",
            "sim/system/chakra/read.py", "hw/ace/programs/schedule.py", "hw/ace/config.py"} <= found
    assert not [path for path in found if "report" in path or path.endswith(("timeline.py", "sweep.py", "speedups.py"))]


def test_imports_of_every_kind(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    package = tmp_path / "sim" / "system"
    (package / "inner").mkdir(parents=True)
    texts = {"a.py": "from . import b\ndef later():\n    from .inner.c import x\n", "b.py": "import sim.system.d\n",
             "d.py": "import os\n", "inner/__init__.py": "from .e import y\nfrom ..f import z\n", "inner/c.py": "",
             "inner/e.py": "", "f.py": "", "g.py": ""}
    for name, text in texts.items():
        (package / name).write_text(text)
    found = {str(path.relative_to(package)) for path in reachable("sim.system.a")}
    assert found == {"a.py", "b.py", "d.py", "inner/c.py"}
    assert {str(path.relative_to(package)) for path in reachable("sim.system.inner")} == {
        "inner/__init__.py", "inner/e.py", "f.py"}


def test_the_digest_changes_with_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    package = tmp_path / "sim" / "system"
    package.mkdir(parents=True)
    digests = set()
    for number in range(2):
        (package / "a.py").write_text("from . import b\n")
        (package / "b.py").write_text(f"x = {number}\n")
        (package / "unrelated.py").write_text(f"y = {number}\n")
        sources.digest.cache_clear()
        digests.add(sources.digest("sim.system.a"))
    sources.digest.cache_clear()
    assert len(digests) == 2
