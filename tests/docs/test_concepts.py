"""The first pages use few words of memdb's own: a newcomer learns 25 of them, and no more."""

from __future__ import annotations

import re

from source_tree import ROOT

PAGES = ("README.md", "docs/start.md", "docs/tutorial.md")
MOST_CONCEPTS = 25

# Words that name a thing of memdb: classes, collections, what they hold, arguments of every day.
# "window", "work", "page", "source" and the like are left out: these pages use them as anybody does.
CONCEPTS = """
    user scope app session message part seq summary span depth leaf hint quality
    fact entry category key pinned importance expiry link active superseded trust retention
    artifact version revision digest item namespace state
    recall hit score certainty floor min_score arm stamp explain rerank partition session_only
    embedder embedding vector space counter arbiter verdict claim candidate extract
    context budget piece frame profile brief tool adapter port
    job worker upkeep lease mark settings
    branch fork head archive segment
    forget receipt proof tombstone preview dry_run
    import export backup check rebuild recover sync transaction durability external_id expected
""".split()


def test_the_first_pages_have_few_concepts() -> None:
    """In prose and code alike; a word of the output of a command counts too."""
    text = "\n".join((ROOT.parent / page).read_text(encoding="utf-8") for page in PAGES)
    text = re.sub(r"\]\([^)\s]*\)", "]", text)  # where a link leads
    named = [word for word in CONCEPTS if re.search(_forms(word), text, re.IGNORECASE)]

    assert len(named) <= MOST_CONCEPTS, named


def _forms(word: str) -> str:
    stem = f"{word[:-1]}(?:y|ies)" if word.endswith("y") else f"{word}(?:e?s|ed)?"
    return rf"(?<![\w.-]){stem}(?![\w-])"
