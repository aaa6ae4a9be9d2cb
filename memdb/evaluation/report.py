"""
From answers to a report: means with intervals, by arm, level and category, as values and as text.
"""

from __future__ import annotations

import platform

import memdb
from memdb.evaluation.measuring import (
    FUSED,
    LEXICAL,
    MEASURES,
    RESAMPLES,
    SEED,
    VECTOR,
    fitted,
    intervals,
    mean,
    quantile,
)
from memdb.search.weights import STATIC_MODEL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from memdb.evaluation.dataset import Dataset
    from memdb.evaluation.measuring import Answer, Arm
    from memdb.models.protocols import Embedder

ALL = "all"
LEVELS = ("turn", "session")
SHOWN = ("R@1", "R@5", "R@10", "R@20", "any@5", "all@5", "any@10", "all@10", "nDCG@10", "MRR")
SURE = ("R@10", "nDCG@10", "MRR", "any@5", "all@5")

# How much less than the best arm alone the fused ranking may find in a category.
TOLERATED = 0.005


def report(
    data: Dataset, arms: Sequence[Arm], answers: Iterable[Answer], embedder: Embedder | str | None
) -> dict[str, Any]:
    """
    Return configuration, results and the fused ranking beside the arms alone.

    Equal for equal answers, but for the milliseconds. Cost: 0.5 s per arm and
    1,000 questions.
    """
    groups: dict[tuple[str, str, str], list[Answer]] = {}
    order = {arm.name: place for place, arm in enumerate(arms)}
    for answer in answers:
        for category in (ALL, answer.category):
            groups.setdefault((answer.arm, answer.level, category), []).append(answer)
    for arm, _, _ in groups:
        order.setdefault(arm, len(order))  # others than memdb's, in the order they were asked
    keys = sorted(
        groups,
        key=lambda key: (order[key[0]], LEVELS.index(key[1]), key[2] != ALL, key),
    )
    results = [result(*key, groups[key]) for key in keys]
    return {
        "configuration": configuration(data, arms, embedder),
        "results": results,
        "fused_against_arms": _against(results),
    }


def configuration(
    data: Dataset, arms: Sequence[Arm], embedder: Embedder | str | None
) -> dict[str, Any]:
    """Return the configuration: versions, data set, weights and machine."""
    name = embedder if embedder is None or isinstance(embedder, str) else embedder.name
    model = STATIC_MODEL if name == "static" else name
    arms = [fitted(arm, model if arm.vectors else None) for arm in arms]
    return {
        "memdb": memdb.__version__,
        "embedder": name,
        "data": {"name": data.name, "sha256": data.digest, **data.counts},
        "weights": {
            arm.name: {
                "vectors": arm.vectors,
                "rerank": arm.rerank,
                "messages": arm.messages.to_dict(),
                "documents": arm.documents.to_dict(),
            }
            for arm in arms
        },
        "intervals": {"level": 0.95, "resamples": RESAMPLES, "seed": SEED},
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def result(arm: str, level: str, category: str, answers: Sequence[Answer]) -> dict[str, Any]:
    """Return the means of *answers*, with intervals and latency."""
    rows = [answer.scores for answer in answers]
    took_ms = [answer.took_ms for answer in answers]
    return {
        "arm": arm,
        "level": level,
        "category": category,
        "questions": len(rows),
        **{name: mean([row[name] for row in rows]) for name in MEASURES},
        "intervals": intervals(rows, SURE),
        "p50_ms": quantile(took_ms, 0.5),
        "p99_ms": quantile(took_ms, 0.99),
    }


def _against(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return R@10 of the fused ranking beside the better arm, by level and category."""
    found = {(row["arm"], row["level"], row["category"]): row["R@10"] for row in results}
    lines = []
    for (arm, level, category), fused in found.items():
        alone = {
            one: found[one, level, category]
            for one in (LEXICAL.name, VECTOR.name)
            if (one, level, category) in found
        }
        if arm != FUSED.name or not alone:
            continue
        best = max(alone, key=alone.__getitem__)
        gain = fused - alone[best]
        line = {"level": level, "category": category, "fused": fused}
        lines.append({**line, "best": best, **alone, "gain": gain, "good": gain >= -TOLERATED})
    return lines


def text(result: dict[str, Any]) -> list[str]:
    """Return the report as lines for a person."""
    made = result["configuration"]
    data = made["data"]
    counts = ", ".join(f"{data[key]:,} {key}" for key in data if key not in ("name", "sha256"))
    lines = [
        f"memdb {made['memdb']}, embedder {made['embedder']}, Python {made['python']}",
        f"{data['name']} (sha256 {data['sha256'][:12]}): {counts}",
        f"intervals: 95 % bootstrap, {RESAMPLES:,} resamples, seed {SEED}",
    ]
    for arm, weights in made["weights"].items():
        lines.append(f"{arm}: {_changes(weights)}")
    for level in LEVELS:
        rows = [row for row in result["results"] if row["level"] == level]
        if rows:
            lines += ["", *_table(rows, "turns and documents" if level == "turn" else "sessions")]
    against = result["fused_against_arms"]
    if against:
        lines += ["", "fused beside the arms alone, R@10"]
        lines += [
            f"  {row['level']:8}{row['category']:24}{row['fused']:.3f}  best: {row['best']} "
            f"{row[row['best']]:.3f}  {row['gain']:+.3f}{'' if row['good'] else '  WORSE'}"
            for row in against
        ]
    return lines


def _changes(weights: dict[str, Any]) -> str:
    from memdb.search.weights import MESSAGES

    default = MESSAGES.to_dict()
    changed = [
        f"{name} {value}" for name, value in weights["messages"].items() if value != default[name]
    ]
    changed += [] if weights["vectors"] else ["no vectors"]
    changed += [] if weights["rerank"] else ["no similar words"]
    return ", ".join(changed) or "the default"


def _table(rows: Sequence[dict[str, Any]], title: str) -> list[str]:
    lines = [f"{title:44}{'n':>6}" + "".join(f"{name:>8}" for name in SHOWN) + "     p50     p99"]
    for row in rows:
        name = row["arm"] if row["category"] == ALL else f"  {row['arm']}: {row['category']}"
        numbers = "".join(f"{row[measure]:8.3f}" for measure in SHOWN)
        lines.append(
            f"{name:44}{row['questions']:6}{numbers}{row['p50_ms']:8.1f}{row['p99_ms']:8.1f}"
        )
        if row["category"] == ALL:
            sure = ", ".join(
                f"{measure} {low:.3f} to {high:.3f}"
                for measure, (low, high) in row["intervals"].items()
            )
            lines.append(f"    {sure}")
    return lines
