"""
Twenty slips of a first hour, as a type checker sees them; checked by mypy and pyright, never run.

A slip that is seen has a mark, which is an error if the slip passes. Two are not seen.
"""

from __future__ import annotations

import memdb
from memdb import aio


def slips(db: memdb.MemDB) -> None:
    """Words, names and places that are nearly right."""
    ann = db.user("ann")
    trip = ann.session("trip")
    ann.recall("Oslo", by="wrods")  # type: ignore[arg-type]
    ann.recall("Oslo", kinds=["entri"])  # type: ignore[list-item]
    ann.recall("Oslo", categoreis=["events"])  # type: ignore[call-arg]
    ann.recall("Oslo", rerank="no")  # type: ignore[arg-type]
    trip.append("usr", "Hello")  # type: ignore[arg-type]
    trip.titel = "Oslo"  # type: ignore[attr-defined]
    db.settings.entry_quota = 3  # type: ignore[attr-defined]
    ann.entries.update(1, trust="truted")  # type: ignore[arg-type]
    ann.entries.update(1, pinnd=True)  # type: ignore[call-arg]
    ann.remember("Ann likes tea.", importence=3)  # type: ignore[call-arg]
    ann.forget("trip")  # type: ignore[arg-type, call-arg]
    trip.last("5")  # type: ignore[arg-type]
    hits = ann.recall("Oslo")
    seen: list[bool] = []
    seen.append(hits.certainty == "certain")  # type: ignore[comparison-overlap]
    seen.append(hits[0].kind == "messages")  # type: ignore[comparison-overlap]
    seen.append(trip.get(1).role == "human")  # type: ignore[comparison-overlap]
    seen.append(ann.remember("Ann likes tea.").action == "merged")  # type: ignore[comparison-overlap]
    ann.entries.get(1).text = "Ann likes cake."  # type: ignore[misc]
    ann.items.put("notes", "k", 1)  # a str is a sequence of str
    db.settings.update(entry_quoat=3)  # type: ignore[call-arg]
    trip.extend({"role": "user", "text": "Hello"})


async def forgotten(db: aio.MemDB) -> None:
    """The call is made, and nothing happens."""
    db.user("ann").remember("Ann likes tea.")  # type: ignore[unused-coroutine]
