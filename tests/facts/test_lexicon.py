"""The tables of `data/grammar.txt`: each line can be used, and each rule is well-formed."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest
from cases import each

import memdb.facts
from memdb.entries.categories import BUILT_IN
from memdb.facts import arbiter, lexicon
from memdb.facts import rules as facts

TEXT = (Path(memdb.facts.__file__).parent / "data" / "grammar.txt").read_text(encoding="utf-8")
BLOCKS = list(lexicon._read_blocks(TEXT))
KINDS = {"fragment", "pattern", "words", "groups", "replace", "slot", "rule"}
RULES = list(lexicon.read_rules())
SLOTS = list(lexicon.read_slots())


def names(kind: str) -> list[str]:
    """Return the names of the blocks of a kind."""
    return [header for other, header, _ in BLOCKS if other == kind]


def test_each_block_is_of_a_kind_that_is_read_and_has_lines() -> None:
    """A misspelt kind or an empty block would be passed over in silence."""
    assert {kind for kind, _, _ in BLOCKS} == KINDS
    assert [header for _, header, lines in BLOCKS if not lines] == []


@pytest.mark.parametrize("kind", sorted(KINDS - {"slot", "rule"}))
def test_no_two_blocks_have_one_name(kind: str) -> None:
    """The second would replace the first."""
    assert len(set(names(kind))) == len(names(kind))


@each("name", names("pattern"))
def test_each_pattern_compiles_and_is_used(name: str) -> None:
    """By the parser of statements or by the extractor."""
    pattern = lexicon.read_pattern(name)
    values = [value for module in (arbiter, facts) for value in vars(module).values()]

    assert pattern in values
    assert "<" not in re.sub(r"\(\?(?:P?<\w+>|<[=!])|<!--", "", pattern.pattern)


def test_each_fragment_is_used() -> None:
    """What no pattern names is dead."""
    used = set(re.findall(r"<([A-Z]+)>", "\n".join("\n".join(lines) for _, _, lines in BLOCKS)))

    assert used == {*names("fragment"), "MONTH", "WEEKDAY"}


@each("rule", RULES)
def test_each_rule_is_well_formed(rule: lexicon.Rule) -> None:
    """Its category and flags exist, and its sentence uses only what its pattern gives."""
    templates = [rule.sentence, rule.key or "", rule.words]
    fields = {field for text in templates for _, field, _, _ in string.Formatter().parse(text)}

    assert rule.category in {category.name for category in BUILT_IN}
    assert rule.flags <= {"ahead", "anywhere", "lower", "once", "verbatim"}
    assert 1 <= rule.importance <= 10
    assert fields - {None, "who", "whose", "m"} <= set(rule.pattern.groupindex)
    assert "v" in rule.pattern.groupindex


@each("slot", SLOTS)
def test_each_slot_has_a_subject_and_a_value(slot: lexicon.Slot) -> None:
    """A family of slots has an attribute too, or a name of its own."""
    assert {"s", "v"} <= set(slot.pattern.groupindex)


@pytest.mark.parametrize("name", names("replace"))
def test_each_replacement_compiles(name: str) -> None:
    """And refers only to groups that its pattern has."""
    for pattern, replacement in lexicon.read_replacements(name):
        groups = re.compile(pattern).groups
        assert all(int(group) <= groups for group in re.findall(r"\\(\d)", replacement)), pattern


STATEMENTS = [
    ("I have no problem eating fish.", "She has no problem eating fish.", "do:eat"),
    ("My car used to be a Skoda, but now it's a Fiat.", "My car is a Fiat.", "attr:car"),
    ("Globex hired me.", "I work at Globex.", "employer"),
    ("My marital status changed to single.", "I'm single.", "marital"),
]


@pytest.mark.parametrize(("text", "plain", "slot"), STATEMENTS, ids=[a for a, _, _ in STATEMENTS])
def test_an_idiom_is_read_as_the_plain_statement(text: str, plain: str, slot: str) -> None:
    """Both are about one slot and have one value."""
    (one, *_), (other, *_) = arbiter.read_facts(text), arbiter.read_facts(plain)

    assert (one.slot, other.slot) == (slot, slot)
    assert one.value == other.value
