# SPDX-License-Identifier: Apache-2.0
"""Words that must not return: the last column of the glossary in CONTRIBUTING.md, where a pattern can find it.

Docstrings, comments, messages, register descriptions and names of Python files, comments and messages of C and C++
files, and the prose of Markdown files. Text in backquotes and code blocks is exempt.
"""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

FILES = ("*.md", "docs/*.md", "sim/**/*.cpp", "sim/**/*.h", "hw/**/*.h.in", "dmace/**/*.[ch]", "tests/**/*.[ch]", *(
    f"{folder}/**/*.py" for folder in ("dmace", "hw", "sim", "fpga", "scripts", "examples", "tests")))

#: Pattern -> the term to use.
FORBIDDEN = {
    # Timing
    r"\b(?:long(?:er|est)?|short(?:er|est)?|slow(?:er|est)?) ways?\b": "timing path or critical path",
    r"\bends? of (?:a |the )?ways?\b": "endpoint",
    r"\bways (?:between|from|into|of more)\b": "timing paths",
    r"\bns (?:for )?(?:the )?wires?\b": "ns routing",
    r"\blate[ _]ram\b": "output register, or the timing option",
    r"\bshows? late\b|\bcomes? late\b|\bwhat comes late\b": "late-arriving (a signal), delayed (a packet)",
    # Transactions
    r"\b(?:there|way|ways?) (?:there )?and back\b": "round trip",
    r"\bunder way\b": "in flight (a transaction), in progress (a command)",
    r"\bon (?:its|their|the) way\b": "in flight",
    r"\b(?:is|are|was|were|still|while) outside\b(?! (?:the|its|it|of|a|this|their)\b)": "outstanding",
    r"\bon suspicion\b": "prefetch",
    r"\bowe[sd]?\b|\bdebts?\b": "outstanding (a response), negative deficit (of round robin)",
    r"\bstrays?\b": "unexpected response",
    r"\bgiv(?:e|es|en|ing)(?: \w+)? up\b|\bgave(?: \w+)? up\b|\bgiv(?:e|ing)-ups?\b":
        "time out (a limit), abandon (outstanding responses)",
    r"\bgo(?:es|ing)? on\b|\bwent on\b|\bgets? on\b": "continue, resume, progress",
    r"\bfor good\b": "permanently",
    r"\bas ever\b": "as always, or nothing",
    r"\bnever pauses\b|\bpauses (?:on|of|between|at)\b|\b(?:with|no|random) pauses\b|\bpausing\b": "stalls",
    r"\bharm(?:s|ed|ing)?\b": "corrupt",
    r"\bforget(?:s|ting)?\b|\bforgot(?:ten)?\b|\bforgiv(?:e|es|en)\b": "discard, drop, clear",
    r"\bmend(?:s|ed|ing)?\b": "correct, repair",
    r"\bheard\b|\bhears?\b": "receive",
    r"\bkeep(?:s|ing)? back\b|\bkept back\b": "withhold",
    r"\b(?:un)?answer(?:s|ed|ing)?\b": "response, respond",
    r"\bholds? up\b(?! to)|\bheld up\b": "stall, block",
    r"\b(?:has|have|had) (?:not )?come\b(?! up)": "arrive",
    r"\bstands? still\b": "makes no progress",
    r"\banew\b|\bas new\b": "again, restart, in its initial state",
    r"\bin turns\b": "in turn, round robin, alternating",
    # Structure
    r"\b(?:has|have|had|no|enough|more|makes?|making|there is|the|of) room\b|\broom (?:for|in|at)\b":
        "credits (at the sender), free entries (at the receiver)",
    r"\b(?:a|each|every|one|no|free|these|those|many|window|its own|queue's|record's|\d+) places?\b|\bplaces? (?:of|in)"
    r" (?:a|the|its|their) (?:queue|window|table|ring|slot)s?\b":
        "entry (of a table), position (of a piece in a slot)",
    r"\blaps?\b": "generation bit, pass over the ring",
    r"\b(?:earlier|former|old|new|own|its|their|queue's) (?:life|lives)\b|\blives of\b": "epoch",
    r"\brests\b|\bwhat rests\b": "remaining",
    # People for hardware
    r"\bnobody\b|\bsomebody\b|\beverybody\b|\bwhoever\b": "no requester, another manager, every rank, ...",
    r"\bwho (?:asks?|comes?|goes?|waits?|writes?|posts?|gets?|takes?|requests?|looks?|sends?|reads?)\b":
        "requester, sender, manager, software, ...",
    r"\btold\b|\btells?\b|\btelling\b": "report, indicate, notify",
    r"\blook(?:s|ed) at\b": "check, look up, poll",
    r"\bask(?:s|ed|ing)? for\b": "request, issue",
    r"\bwitness(?:es)?\b": "independent count",
    # Sentences
    r"\bseed of all\b|\ball that is random\b": "random seed",
    r"\b(?:so|that) many\b(?! (?:as|that))": "this number of, N",
    r"\bfalls? silent\b": "is idle",
    r"\bone behind the other\b": "consecutive",
}

FORBIDDEN_NAMES = re.compile(
    r"(?:^|_)(?:laps?|give_up|given_up|told|tells?|harm(?:s|ed)?|owe[sd]?|strays?|life|lives|(?:un)?answer(?:s|ed)?|asks|asked"
    r"|asking|nobody|somebody|whoever|forget|forgot(?:ten)?|mend(?:s|ed)?|rests|late_ram|suspicion|heard|anew|room"
    r"|standing)(?:_|$)")
"""Parts of names of functions, classes, parameters and variables."""

_PATTERNS = {re.compile(pattern, re.IGNORECASE): term for pattern, term in FORBIDDEN.items()}

_OPENING = re.compile(r"^(?:What|Of|Who|Whether what)\b(?!.*\?)")
_THAT = re.compile(r"\bthat\b", re.IGNORECASE)

MOST_THAT = 3
"""Times that ``that`` may occur in a sentence."""


def _prose_of_markdown(text):
    """Line number and text of each paragraph, heading, list item or table cell."""
    text = re.sub(r"^```.*?^```$", lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE)
    paragraph, first = [], 1
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if line.startswith("|"):
            yield from ((number, cell.strip()) for cell in line.strip("|").split("|"))
        elif line.strip() and not re.match(r"\s*(?:[*-]|\d+\.) |#", line):
            if not paragraph:
                first = number
            paragraph.append(line.strip())
            continue
        if paragraph:
            yield first, " ".join(paragraph)
            paragraph = []
        if line.strip() and not line.startswith("|"):
            paragraph, first = [line.strip(" #*-")], number


def _prose_of_python(text):
    """Line number and text of each docstring, string with words, and block of comments."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value
    block, last = [], 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if block and token.start[0] != last + 1:
                yield last, " ".join(block)
                block = []
            block.append(token.string.lstrip("#: "))
            last = token.start[0]
    if block:
        yield last, " ".join(block)


def _names_of_python(text):
    """Line number and name of each function, class, parameter, variable and attribute that is defined."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def _prose_of_cpp(text):
    """Line number and text of each block of comments, and of each string with words."""
    for found in re.finditer(r"/\*.*?\*/|(?:[ \t]*//[^\n]*\n)+|//[^\n]*", text, re.DOTALL):
        yield text.count("\n", 0, found.start()) + 1, re.sub(r"^\s*(?://|/?\*+)|\*/", "", found[0], flags=re.MULTILINE)
    for found in re.finditer(r'"((?:[^"\\\n]|\\.)* (?:[^"\\\n]|\\.)*)"', text):
        yield text.count("\n", 0, found.start()) + 1, found[1]


def _faults(prose):
    """A sentence for each forbidden word or form in a piece of prose."""
    prose = re.sub(r"``[^`]*``|`[^`]*`|\]\([^)]*\)", "``", prose)
    prose = re.sub(r"(?:\w+, )*\w+ : (?=``)", "", prose)       # names of members
    prose = " ".join(prose.split())
    for pattern, term in _PATTERNS.items():
        for found in pattern.finditer(prose):
            yield f"{found[0]!r}: use {term}"
    if _OPENING.match(prose):
        yield f"{prose[:40]!r}: start with the subject, not with {prose.split()[0]!r}"
    for sentence in re.split(r"(?<=[.;:])\s", prose):
        if len(_THAT.findall(sentence)) > MOST_THAT:
            yield f"{sentence[:60]!r}: at most {MOST_THAT} times `that` in a sentence"


def faults_of(path, text):
    """``PATH:LINE: fault`` for each fault of a file; its name decides the language."""
    if path.name == "CONTRIBUTING.md":      # the glossary quotes the words
        text = text.partition("## Glossary")[0]
    prose = {".md": _prose_of_markdown, ".py": _prose_of_python}.get(path.suffix, _prose_of_cpp)(text)
    found = [f"{path}:{line}: {fault}" for line, piece in prose for fault in _faults(piece)]
    if path.suffix == ".py":
        found += [f"{path}:{line}: name {name!r}: use a term of the glossary" for line, name in _names_of_python(text)
                  if FORBIDDEN_NAMES.search(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())]
    return found


def _files():
    return sorted({path for pattern in FILES for path in ROOT.glob(pattern)} - {Path(__file__).resolve()})


@pytest.mark.parametrize("folder", sorted({path.relative_to(ROOT).parts[0] for path in _files()}))
def test_terms(folder):
    """All files of a folder, or one in the root, use the glossary's terms."""
    paths = [path.relative_to(ROOT) for path in _files() if path.relative_to(ROOT).parts[0] == folder]
    found = [fault for path in paths for fault in faults_of(path, (ROOT / path).read_text(encoding="utf-8"))]
    assert not found, "\n".join(["Words that CONTRIBUTING.md replaces:", *found])


@pytest.mark.parametrize("prose, term", [
    ("The longest way ends here.", "timing path or critical path"),
    ("A queue that is given up keeps it.", "time out (a limit), abandon (outstanding responses)"),
    ("It waits until the buffer has room.", "credits (at the sender), free entries (at the receiver)"),
    ("While one is under way.", "in flight (a transaction), in progress (a command)"),
    ("The scheduler is told so.", "report, indicate, notify"),
    ("Each place of its window.", "entry (of a table), position (of a piece in a slot)"),
    ("seed of all that is random", "random seed"),
    ("the time there and back", "round trip"),
])
def test_words_are_found(prose, term):
    assert any(fault.endswith(f"use {term}") for fault in _faults(prose))


@pytest.mark.parametrize("prose", [
    "It works in place, takes place once, and places cells.", "The only way to do it.", "Bytes outside the range.",
    "`late_ram` and ``give_up`` are identifiers.", "A store is a request if that is so.",
])
def test_plain_english_passes(prose):
    assert not list(_faults(prose))


def test_forms_are_found():
    assert any("start with the subject" in fault for fault in _faults("What a queue may take."))
    chain = "A word that a queue that holds takes, that is, that one, is dropped."
    assert any("times `that`" in fault for fault in _faults(chain))


def test_lines_of_prose_are_found():
    text = '"""A docstring under way."""\n\nX = 1  # a comment\n# that is given up\nSAY = f"no room for {X} more"\n'
    lines = [fault.partition(": ")[0] for fault in faults_of(Path("x.py"), text)]
    assert sorted(lines) == ["x.py:1", "x.py:4", "x.py:5"]
    assert faults_of(Path("x.h"), "int a;\n// First line,\n// told twice.\n")[0].startswith("x.h:2: ")
    assert faults_of(Path("x.h"), 'int a;\nsay("It went on.");\n')[0].startswith("x.h:2: ")
    assert faults_of(Path("x.md"), "# Title\n\n```\nunder way\n```\n\nWords\nunder way.\n")[0].startswith("x.md:7: ")


def test_names_are_found():
    text = "class LapCounter:\n    def told(self, room, overlap):\n        self.late_ram = olives = 1\n"
    assert [fault.partition(": use")[0] for fault in faults_of(Path("x.py"), text)] == [
        "x.py:1: name 'LapCounter'", "x.py:2: name 'told'", "x.py:2: name 'room'", "x.py:3: name 'late_ram'"]
