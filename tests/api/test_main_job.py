"""The main job on real conversations: import, ask, and get the right lines back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb.adapters.host import Host

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCOMO = sorted((Path(__file__).parents[2].parent / "shared" / "data" / "locomo").glob("*.json"))
EVIDENCE = re.compile(r"D:?\s*(\d+):0*(\d+)")


def asked(path: Path) -> Iterator[tuple[str, set[str]]]:
    """Yield the questions with the ids of the turns that hold their evidence."""
    for item in json.loads(path.read_text())["qa"]:
        turns = EVIDENCE.findall(" ".join(item.get("evidence") or []))
        if turns:
            yield item["question"], {f"D{session}:{turn}" for session, turn in turns}


def share_found(scope: memdb.Scope, question: str, evidence: set[str]) -> float:
    """Return the share of the evidence among the first ten hits."""
    hits = scope.recall(question, 10, kinds=["message"])
    return len(evidence & {hit.source.external_id for hit in hits}) / len(evidence)


@pytest.mark.skipif(not LOCOMO, reason="the LoCoMo conversations are not beside this checkout")
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (n > 1))
        for n, path in enumerate(LOCOMO)
    ],
)
def test_a_real_conversation_gives_the_right_lines_back(path: Path, tmp_path: Path) -> None:
    """Three quarters of all questions' evidence stand among the first ten hits."""
    with memdb.open(tmp_path / "talk.db", durability="process") as db:
        report = db.import_file(path, user="reader")
        db.jobs.run()
        reader = db.scope("reader")
        shares = [share_found(reader, *one) for one in asked(path)]
        session = reader.session("session_1")
        session.artifacts.save("summary.md", "first")
        session.artifacts.save("summary.md", "second")
        window = Host(session).window(budget_tokens=300)
        info: Any = db.file.info()
        findings = db.file.check(deep=True)

    assert sum(shares) / len(shares) >= 0.74
    assert report.messages_added == info.counts["messages"] > 300
    assert 0 < window.tokens <= 300
    assert info.counts["artifact versions"] == 2
    assert findings == []
