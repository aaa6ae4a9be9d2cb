"""
Compile memdb's regular expressions for `memdb.text.regex`. Run by hand, never at run time.

    python memdb/text/data/pack_patterns.py [--python PYTHON ...]

Imports every module, makes every language's patterns, and reads the calls in the source, so
that it meets each pattern. Writes `patterns.<tag>.bin` beside this script for the Python that
runs it and for each PYTHON named (a path; it needs no package). Run it after a pattern changed:
`tests/text/test_regex.py` fails until then, and memdb compiles what is missing at run time.

Also writes `needs.json`, for every Python: by pattern, texts of which one stands in whatever it
matches, see `memdb.text.regex.needs`. A pattern that is not in it is tried on every text.

Format: one `marshal` of what made it (magic number and word size of the matching engine, byte
order) and of a dict from `memdb.text.regex.digest` to another `marshal` of the arguments of
`_sre.compile`: the code as bytes, by zlib if that is shorter, with its size before.
"""

from __future__ import annotations

import _sre
import argparse
import ast
import json
import marshal
import os
import re
import subprocess
import sys
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

from memdb.text import regex

HERE = Path(__file__).parent
PACKAGE = HERE.parent.parent
CALLS = {"compile", "match", "fullmatch", "search", "findall", "finditer", "split", "sub"}

# Code up to this size is not compressed.
RAW_BYTES = 512

Key = tuple[str | bytes, int]


def collect() -> list[Key]:
    """Return every pattern of memdb's own, in order."""
    seen: set[Key] = set()
    regex._packed.clear()
    regex._compiled.clear()

    def note(pattern: str | bytes, flags: int) -> Any:
        seen.add((pattern, flags))
        return re.compile(pattern, flags)

    regex._compile_anew = note
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text("utf-8")
        if "regex as re" not in source or path.parent == HERE:
            continue
        import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
        seen |= written(source)
    make_lazy()
    return sorted(seen, key=repr)


def written(source: str) -> set[Key]:
    """Return the patterns that stand as literals in calls like `re.sub("...", ...)`."""
    found: set[Key] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            first = node.args[0]
            if (
                isinstance(node.func.value, ast.Name)
                and node.func.value.id == "re"
                and node.func.attr in CALLS
                and isinstance(first, ast.Constant)
                and len(node.args) < (2 if node.func.attr == "compile" else 4)
            ):
                found.add((first.value, 0))
    return found


def make_lazy() -> None:
    """Make the patterns that memdb makes at their first use."""
    from memdb.english import dates
    from memdb.models.record import lazy
    from memdb.text import sanitize, secret_rules
    from memdb.text.languages import LANGUAGES, Language

    for language in LANGUAGES.values():
        for name, value in vars(Language).items():
            if isinstance(value, lazy):
                getattr(language, name)
    for mark in sanitize._MARKS:
        sanitize._compiled(mark)
    for rule in secret_rules.RULES:
        secret_rules.compiled(rule.kind)
    for name in vars(dates):
        if name.startswith("_") and name[1:].isupper():
            for pattern in texts_in(getattr(dates, name)):
                dates._pattern(pattern)


def texts_in(value: object) -> list[str]:
    """Return the patterns in a constant of a module, those in tuples too."""
    if isinstance(value, str):
        return [value] if "\\" in value else []
    return [text for one in value for text in texts_in(one)] if isinstance(value, tuple) else []


def compiled(pattern: str | bytes, flags: int) -> tuple[Any, ...]:
    """Return what `re` would call `_sre.compile` with, and the size of the code."""
    # What `re._compiler.compile` does, up to its last call.
    parsed = re._parser.parse(pattern, flags)
    words = re._compiler._code(parsed, flags)
    state = parsed.state
    names_by_group: list[str | None] = [None] * state.groups
    for name, number in state.groupdict.items():
        names_by_group[number] = name
    code = b"".join(word.to_bytes(_sre.CODESIZE, sys.byteorder) for word in words)
    final = int(flags | state.flags)
    smaller = zlib.compress(code, 9) if len(code) > RAW_BYTES else code
    names = dict(state.groupdict)
    return final, smaller, len(code), state.groups - 1, names, tuple(names_by_group)


def pack(keys: list[Key]) -> bytes:
    """Return the content of the file for this Python."""
    made_by = (_sre.MAGIC, _sre.CODESIZE, sys.byteorder)
    # Each by itself: a process needs a few.
    packed = {regex.digest(*key): marshal.dumps(compiled(*key)) for key in keys}
    return marshal.dumps((made_by, packed))


# About the share of texts that hold a given text of so many letters; a longer one is rarer still.
SHARES = (1.0, 0.5, 0.1, 0.03)
RAREST = 0.01

# A pattern whose needs are found in more texts than this gets none.
MOST_OF_TEXTS = 0.6


def share(texts: frozenset[str]) -> float:
    """Return about which part of all texts holds one of *texts*; more than 1 for very many."""
    return sum(
        1.0 if not text.strip() else SHARES[len(text)] if len(text) < len(SHARES) else RAREST
        for text in texts
    )


def needs_of(parsed: Any) -> frozenset[str] | None:
    """Return texts of which one stands in whatever a parsed pattern matches; None: not known."""
    found: list[frozenset[str] | None] = []
    run = ""
    for code, value in [*parsed, (None, None)]:
        name = str(code)
        if name == "LITERAL":
            run += chr(value)
            continue
        found.append(frozenset({run}) if run else None)
        run = ""
        if name == "SUBPATTERN" and not value[1] & re.IGNORECASE:
            found.append(needs_of(value[3]))
        elif name == "BRANCH":
            branches = [needs_of(each) or frozenset() for each in value[1]]
            found.append(frozenset().union(*branches) if all(branches) else None)
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and value[0] > 0:
            found.append(needs_of(value[2]))
        elif name == "ASSERT":
            found.append(needs_of(value[1]))
        elif name == "ATOMIC_GROUP":
            found.append(needs_of(value))
    known = [each for each in found if each]
    return min(known, key=lambda each: (share(each), sorted(each)), default=None)


def pack_needs(keys: list[Key]) -> str:
    """Return the content of the file of needs."""
    packed = {}
    for pattern, flags in keys:
        if isinstance(pattern, str):
            parsed = re._parser.parse(pattern, flags)
            if not parsed.state.flags & re.IGNORECASE:
                found = needs_of(parsed)
                if found is not None and share(found) <= MOST_OF_TEXTS:
                    packed[regex.digest(pattern, flags).hex()] = sorted(found)
    return json.dumps(packed, ensure_ascii=True, indent=0, sort_keys=True) + "\n"


def read(path: Path) -> dict[bytes, bytes]:
    """Return what is packed in a file, for any Python."""
    packed: dict[bytes, bytes] = marshal.loads(path.read_bytes())[1]
    return packed


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Compile memdb's regular expressions.")
    parser.add_argument("--python", nargs="*", default=[], help="other interpreters to pack for")
    parser.add_argument("--check", action="store_true", help="write nothing; 1: it must be done")
    parser.add_argument("--listed", type=argparse.FileType(), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.listed is not None:
        keys = [
            (pattern.encode() if is_bytes else pattern, flags)
            for pattern, is_bytes, flags in json.load(given.listed)
        ]
    else:
        keys = collect()
    content = pack(keys)
    target = Path(regex.packed_path())
    if given.check:
        sys.exit(None if marshal.loads(content) == marshal.loads(target.read_bytes()) else 1)
    target.write_bytes(content)
    if given.listed is None:
        (HERE / "needs.json").write_text(pack_needs(keys))
    print(f"{target.name}: {len(keys)} patterns, {len(content):,} bytes")
    listed = json.dumps(
        [
            (key.decode() if isinstance(key, bytes) else key, isinstance(key, bytes), flags)
            for key, flags in keys
        ]
    )
    for python in given.python:
        command = [python, __file__, "--listed", "-"]
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
        subprocess.run(command, input=listed, text=True, check=True, env=environment)


if __name__ == "__main__":
    main()
