"""
What each rule of the English grammar earns: pairs in which it fired, right with it and without.

    python -m bench.facts_rules

Pairs are statements of the scripted year, one after the other of one fact or of two facts,
and the English pairs of `bench/facts` but the half that is held out. A rule that is as right
without it is a rule to delete. Takes about a minute.
"""

from __future__ import annotations

import random
from collections import defaultdict

import memdb.facts.arbiter as grammar
from bench.facts import FOLDER, read
from bench.year_statements import Year
from memdb.models.protocols import Claim

WANTED = {"different": ("add",), "equal": ("noop", "update"), "corrected": ("delete",)}


class Rule:
    """A pattern that notes in which pairs it fires, and can be left out."""

    def __init__(self, pattern, name, fired):
        self.pattern, self.name, self.fired, self.left_out = pattern, name, fired, False

    def sub(self, replacement, text):
        changed = text if self.left_out else self.pattern.sub(replacement, text)
        if changed != text:
            self.fired.add(self.name)
        return changed

    def search(self, text):
        found = None if self.left_out else self.pattern.search(text)
        if found:
            self.fired.add(self.name)
        return found


def pairs() -> list[tuple[str, str, str]]:
    """Return (kind, first, second)."""
    found = []
    draw = random.Random(7)
    for seed in (7, 1):
        last = {}
        for told in Year(seed, 5_000).statements():
            key = told.user, told.fact
            if key in last and last[key].text != told.text:
                kind = "equal" if last[key].value == told.value else "corrected"
                found.append((kind, last[key].text, told.text))
            other = draw.choice(list(last.values())) if last else told
            if (other.user, other.fact) != key and other.fact.split(":")[0] != "does":
                found.append(("different", other.text, told.text))
            last[key] = told
    for name in ("read", "different"):
        found += [
            (one.kind, one.first, one.second)
            for one in read(FOLDER / f"{name}.jsonl")
            if one.lang == "en"
        ]
    return list(dict.fromkeys(found))


class Rules:
    """Rules in the place of `regex.Replacements`: each is asked, so that it can be left out."""

    def __init__(self, pairs):
        self.pairs = pairs

    def apply(self, text: str) -> str:
        for rule, new in self.pairs:
            text = rule.sub(new, text)
        return text


def is_right(kind: str, first: str, second: str) -> bool:
    claim = Claim(second, "profile", None, 1)
    verdict = grammar.RuleArbiter().decide(claim, [Claim(first, "profile", None, 0)])
    return verdict.action in WANTED[kind]


def main() -> None:
    """Print each rule with the pairs in which it fired, those right with it and without it."""
    fired: set[str] = set()
    idioms = [(Rule(p, f"idiom {p.pattern}", fired), r) for p, r in grammar._IDIOMS.pairs()]
    longs = [(Rule(p, f"long idiom {p.pattern}", fired), r) for p, r in grammar._LONG_IDIOMS]
    slots = [
        one.replace(pattern=Rule(one.pattern, f"slot {one.name} {one.pattern.pattern}", fired))
        for one, _ in grammar._SLOTS
    ]
    grammar._IDIOMS, grammar._LONG_IDIOMS = Rules(idioms), longs
    grammar._SLOTS = tuple((one, ("",)) for one in slots)
    rules = [rule for rule, _ in (*idioms, *longs)] + [one.pattern for one in slots]
    where, right = defaultdict(list), {}
    every = pairs()
    for pair in every:
        fired.clear()
        right[pair] = is_right(*pair)
        for name in fired:
            where[name].append(pair)
    print(f"{len(every)} pairs, {sum(right.values())} right; fired, right with the rule, without")
    for rule in rules:
        rule.left_out = True
        without = sum(is_right(*pair) for pair in where[rule.name])
        rule.left_out = False
        with_it = sum(right[pair] for pair in where[rule.name])
        print(f"{len(where[rule.name]):6}{with_it:6}{without:6}  {rule.name[:150]}")


if __name__ == "__main__":
    main()
