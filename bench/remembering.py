"""
What remembering costs, and what a cosine can tell.

    python -m bench.remembering [--growth]

With --growth alone: the CPU time of a new statement beside 1,000, 10,000 and 100,000
entries whose words are all common, with and without the limit on common words.

First `remember` with 1,000 active entries of the user (without a model, no FULL
sync). Then the cosines of the static table between statements of the scripted
year that say the same in other words, that differ in one thing, and that
contradict each other: no threshold parts them, which is why no cosine decides.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import memdb
from bench.year_statements import Told, Year
from memdb.embeddings.static_model import StaticEmbedder
from memdb.records import link_maker

ENTRIES = 1_000
TRIALS = 300
THINGS = "tulip boat harbour cousin doctor violin garden winter train ticket recipe museum".split()


def percentiles(spent: list[float]) -> dict[str, float]:
    ordered = sorted(spent)
    return {
        "p50_ms": round(statistics.median(ordered) * 1000, 2),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)] * 1000, 2),
    }


def remember(path: str) -> dict[str, object]:
    """Time new statements, repeats and changes in a full memory."""
    told = [one for one in Year(3, 12_000).statements() if one.kind == "new"]
    texts = list(dict.fromkeys(one.text for one in told))
    results: dict[str, object] = {}
    with memdb.open(path, durability="process", settings={"entry_quota": 3 * ENTRIES}) as db:
        ann = db.scope("ann")
        for text in texts:
            ann.remember(text)
            if sum(1 for _ in ann.entries.list()) >= ENTRIES:
                break
        results["active"] = sum(1 for _ in ann.entries.list())
        places = iter(range(10**6))
        kinds = {
            "new": lambda: f"My cousin number {next(places)} sells tulips in {next(places)} towns.",
            "repeat": lambda: random.Random(next(places)).choice(texts[:500]),
            "change": lambda: f"I moved to Springfield {next(places)}.",
        }
        for kind, text in kinds.items():
            spent, worked = [], []
            for _ in range(TRIALS):
                said = text()
                begun, working = time.perf_counter(), time.process_time()
                ann.remember(said)
                spent.append(time.perf_counter() - begun)
                worked.append(time.process_time() - working)
            results[kind] = percentiles(spent) | {
                f"cpu_{name}": value for name, value in percentiles(worked).items()
            }
    return results


def growth(path: str, entries: int) -> dict[str, float]:
    """Time new statements beside so many entries; see ADR-0030."""
    rng = random.Random(entries)

    def statement() -> str:
        first, second, third = rng.choices(THINGS, k=3)
        return f"The {first} number {rng.randint(1, 10**6)} of {second} {third} costs {entries}."

    spent: dict[str, list[float]] = {"limited": [], "unlimited": []}
    with memdb.open(path, durability="process", settings={"entry_quota": 1_000_000}) as db:
        ann = db.scope("ann")
        with db._db.write():
            for _ in range(entries):
                ann._services.entries.add(ann._owner, memdb.NewEntry(text=statement()))
        db.jobs.run()
        for _ in range(30):
            for name in rng.sample(sorted(spent), 2):
                limit = link_maker.MAX_HOLDERS if name == "limited" else 1 << 40
                with mock.patch.object(link_maker, "MAX_HOLDERS", limit):
                    begun = time.thread_time()
                    ann.remember(statement())
                    spent[name].append((time.thread_time() - begun) * 1000)
    return {f"{name}_p50_ms": round(statistics.median(some), 2) for name, some in spent.items()}


def cosines() -> dict[str, object]:
    """Compare pairs of statements of one user."""
    told = Year(7, 5_000).statements()
    embedder = StaticEmbedder()
    pairs: dict[str, list[float]] = {"same": [], "change": [], "one thing differs": []}
    last: dict[tuple[str, str], Told] = {}
    family: dict[tuple[str, str], Told] = {}
    for one in told:
        known = last.get((one.user, one.fact))
        if known is not None and known.text != one.text:
            pairs["change" if one.kind == "change" else "same"].append(
                _cosine(embedder, known, one)
            )
        beside = family.get((one.user, one.fact.split(":")[0]))
        if beside is not None and ":" in one.fact and beside.fact != one.fact:
            pairs["one thing differs"].append(_cosine(embedder, beside, one))
        last[one.user, one.fact] = one
        family[one.user, one.fact.split(":")[0]] = one
    found: dict[str, object] = {}
    for name, values in pairs.items():
        values.sort()
        at = {
            f"p{share}": round(values[len(values) * share // 100], 3)
            for share in (5, 25, 50, 75, 95)
        }
        above = {
            f">={level}": round(sum(value >= level for value in values) / len(values), 3)
            for level in (0.62, 0.85, 0.9, 0.95, 0.98)
        }
        found[name] = {"pairs": len(values), **at, **above}
    return found


def _cosine(embedder: StaticEmbedder, one: Told, other: Told) -> float:
    from array import array

    left, right = (array("f", vector) for vector in embedder.embed([one.text, other.text]))
    product = sum(map(float.__mul__, left, right))
    return product / (sum(x * x for x in left) * sum(x * x for x in right)) ** 0.5


def main() -> None:
    if "--growth" in sys.argv:
        for entries in (1_000, 10_000, 100_000):
            with tempfile.TemporaryDirectory() as folder:
                print(entries, json.dumps(growth(str(Path(folder) / "bench.db"), entries)))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(remember(str(Path(folder) / "bench.db")), indent=1))
    print(json.dumps(cosines(), indent=1))


if __name__ == "__main__":
    main()
