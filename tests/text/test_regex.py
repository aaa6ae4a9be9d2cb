"""Compiled patterns in the package: the same as `re` makes, complete, and not needed."""

from __future__ import annotations

import marshal
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from memdb.english import arbiter
from memdb.models.record import lazy
from memdb.text import regex
from memdb.text.data import pack_patterns
from memdb.text.languages import LANGUAGES, Language

GRAMMAR = Path(arbiter.__file__).with_name("data") / "grammar.txt"

IS_PACKED = Path(regex.packed_path()).exists()


@pytest.mark.skipif(not IS_PACKED, reason="nothing is packed for this Python")
def test_the_packed_patterns_are_those_of_memdb_and_what_re_compiles_them_to() -> None:
    """Nothing is missing, nothing is old: run memdb/text/data/pack_patterns.py if this fails."""
    command = [sys.executable, pack_patterns.__file__, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "name", [one.name for one in Path(regex.packed_path()).parent.glob("*.bin")]
)
def test_every_python_has_the_same_patterns(name: str) -> None:
    """All files were packed after the last change of a pattern."""
    packed = pack_patterns.read(Path(regex.packed_path()).with_name(name))

    assert packed.keys() == regex._load().keys()


@pytest.mark.parametrize(
    "content", [None, b"", b"\x00", b"nothing", b"(\x00\x00\x00\x00"], ids=repr
)
def test_without_a_usable_file_patterns_are_compiled(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python that is not packed for, and a damaged file, cost time only."""
    path = tmp_path / "patterns.bin"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setattr(regex, "packed_path", lambda: str(path))
    monkeypatch.setattr(regex, "_packed", regex._load())
    monkeypatch.setattr(regex, "_compiled", {})

    found = regex.sub(r"\W+", "_", "green tea, twice", 0)

    assert found == "green_tea_twice"


@pytest.mark.parametrize(
    ("pattern", "flags"),
    [
        (r"(?P<year>\d+)-(?:a|b)", 0),
        (r"^x$", re.MULTILINE),
        (r"ſ|ß|İ", re.IGNORECASE),
        (r"a  b # c", re.VERBOSE),
        (r"\w", re.ASCII),
        ("[\ud800-\udfff]", 0),
        ("(a)(b)|" * 50 + "c", 0),
    ],
)
def test_a_packed_pattern_is_that_of_re(
    pattern: str, flags: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flags, groups and their names come back."""
    expected = re.compile(pattern, flags)
    monkeypatch.setitem(
        regex._packed,
        regex.digest(pattern, flags),
        marshal.dumps(pack_patterns.compiled(pattern, flags)),
    )

    found = regex.compile(pattern, flags)

    assert found == expected
    assert (found.flags, found.groups, found.groupindex, found.pattern) == (
        expected.flags,
        expected.groups,
        expected.groupindex,
        expected.pattern,
    )


def test_the_flags_are_those_of_re() -> None:
    """They are plain numbers here, because `re` makes an enum of them."""
    for name in ("ASCII", "IGNORECASE", "MULTILINE", "VERBOSE"):
        assert getattr(regex, name) == getattr(re, name)


def test_escaping_is_that_of_re() -> None:
    """Every character below 256, and some above."""
    text = "".join(map(chr, range(256))) + "ß中\ud800\U0001f600"

    assert regex.escape(text) == re.escape(text)


def test_texts_and_bytes_and_flags_have_keys_of_their_own() -> None:
    """No two patterns of random texts share a key."""
    dice = random.Random(7)
    texts = {"".join(dice.choices("ab\\(", k=dice.randrange(6))) for _ in range(500)}
    keys = {regex.digest(one, flags) for one in texts for flags in (0, 2, 258)}
    keys |= {regex.digest(one.encode(), 0) for one in texts}

    assert len(keys) == 4 * len(texts)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("tea", {"tea"}),
        (r"\bgreen (?:tea|coffee)s?\b", {"green "}),
        ("(?:tea|coffee) pot", {" pot"}),
        ("(?P<x>tea|coffee)[0-9]*", {"coffee", "tea"}),
        ("(?:tea|[a-z])", None),
        ("(?:tea)?", None),
        ("(?:tea){0,3}x", {"x"}),
        ("(?:tea)+", {"tea"}),
        ("(?=.*tea)", {"tea"}),
        ("(?<=tea )x", {"tea "}),
        ("(?!tea)[a-z]", None),
        ("(?i:tea)", None),
        ("[^t]ea", {"ea"}),
    ],
)
def test_what_a_pattern_needs_stands_in_every_match(
    pattern: str, expected: set[str] | None
) -> None:
    """Only what no match can do without is needed: nothing optional, denied or of either case."""
    assert pack_patterns.needs_of(pack_patterns.re._parser.parse(pattern)) == expected


def test_no_pattern_matches_a_text_without_what_it_needs() -> None:
    """Of the patterns of all languages and the lines of their files, which hold their words."""
    for language in LANGUAGES.values():
        for name, value in vars(Language).items():
            if isinstance(value, lazy):
                getattr(language, name)
    assert arbiter.RELATED  # makes the English ones
    lines = [
        line
        for path in (Path(regex.__file__).with_name("data") / "languages.txt", GRAMMAR)
        for line in re.sub(r"[^\w\n' ,.]", " ", path.read_text("utf-8")).split("\n")
    ]
    patterns = [one for one in regex._compiled.values() if isinstance(one.pattern, str)]
    gated = [(one, regex.needs(one)) for one in patterns if regex.needs(one) != ("",)]
    matches = 0
    for pattern, needs in gated:
        for line in lines:
            if pattern.search(line):
                matches += 1
                assert any(need in line for need in needs), (pattern.pattern, line)
    assert len(gated) > 100
    assert matches > 1000


def test_replacements_are_made_one_after_the_other() -> None:
    """A later pattern sees what an earlier one wrote, whether or not its needs are known."""
    made = regex.Replacements([(re.compile("tea"), "coffee"), (re.compile("coffee"), "water")])

    assert made.apply("green tea") == "green water"
    assert made.apply("milk") == "milk"
    assert [new for _, new in made.pairs()] == ["coffee", "water"]
