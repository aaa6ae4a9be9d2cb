"""Compare two runs of `memdb bench recall`, question by question."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from memdb.errors import FileError, InvalidInput
from memdb.evaluation.measuring import LEVELS, RESAMPLES, SEED, WITH_INTERVALS, mean

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

FIELDS = ("arm", "level", "question", "scope", "scores", "took_ms")


def read_records(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """
    Return the answers that `--records` wrote.

    Raises:
        FileError: the file cannot be read.
        InvalidInput: a line is not an answer.
    """
    found = []
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                try:
                    answer = json.loads(line)
                    found.append({name: answer[name] for name in FIELDS})
                except (ValueError, KeyError, TypeError, RecursionError) as error:
                    raise InvalidInput(
                        f"{path}, line {number} is not an answer of `memdb bench recall --records`"
                    ) from error
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}", str(path)) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8: give a file that --records wrote") from error
    return found


def compare(
    before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """
    Return how the means of each arm and level changed over the questions of both.

    The interval is a 95 % paired bootstrap over questions (Efron 1979), so a change whose interval
    leaves out 0 is not an accident of the questions.

    Raises:
        InvalidInput: the two have no question of one arm in common.
    """
    old = {_key(one): one["scores"] for one in before}
    pairs: dict[tuple[str, str], list[tuple[dict[str, float], dict[str, float]]]] = {}
    for one in after:
        if (scores := old.get(_key(one))) is not None:
            pairs.setdefault((one["arm"], one["level"]), []).append((scores, one["scores"]))
    if not pairs:
        raise InvalidInput(
            "the two runs have no question and arm in common, so nothing can be compared"
        )
    lines = []
    for (arm, level), scores in pairs.items():
        for name in scores[0][0] if level == LEVELS[-1] else WITH_INTERVALS:
            changes = [now[name] - then[name] for then, now in scores]
            low, high = _interval(changes)
            lines.append(
                {
                    "arm": arm,
                    "level": level,
                    "measure": name,
                    "questions": len(changes),
                    "before": mean([then[name] for then, _ in scores]),
                    "after": mean([now[name] for _, now in scores]),
                    "change": mean(changes),
                    "interval": (low, high),
                    "better": sum(change > 0 for change in changes),
                    "worse": sum(change < 0 for change in changes),
                }
            )
    return lines


def _key(one: dict[str, Any]) -> tuple[str, str, str, str]:
    return one["arm"], one["level"], one["scope"], one["question"]


def _interval(changes: Sequence[float]) -> tuple[float, float]:
    source = random.Random(SEED)
    means = sorted(
        mean(source.choices(changes, k=len(changes))) if any(changes) else 0.0
        for _ in range(RESAMPLES)
    )
    return means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1]
