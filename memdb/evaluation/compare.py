"""Compare two runs of `memdb bench recall`, question by question, and draw quality by latency."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from memdb.errors import AlreadyExists, FileError, InvalidInput
from memdb.evaluation.measuring import RESAMPLES, SEED, SURE, mean
from memdb.text.validate import refuse_output

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

FIELDS = ("arm", "level", "question", "scope", "scores", "took_ms")


def read_records(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """
    Return the answers that `--records` wrote.

    Raises:
        FileError: it cannot be read.
        InvalidInput: a line is no answer.
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
                        f"{path}, line {number} is no answer of `memdb bench recall --records`"
                    ) from error
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}", str(path)) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is no UTF-8: give a file that --records wrote") from error
    return found


def compare(
    before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """
    Return how the means of each arm and level changed over the questions of both.

    The interval is a 95 % paired bootstrap over questions (Efron 1979), so a change whose
    interval leaves out 0 is no accident of the questions.

    Raises:
        InvalidInput: the two have no question of one arm in common.
    """
    old = {_key(one): one["scores"] for one in before}
    pairs: dict[tuple[str, str], list[tuple[dict[str, float], dict[str, float]]]] = {}
    for one in after:
        if (scores := old.get(_key(one))) is not None:
            pairs.setdefault((one["arm"], one["level"]), []).append((scores, one["scores"]))
    if not pairs:
        raise InvalidInput("the two runs have no question of one arm in common: nothing compares")
    lines = []
    for (arm, level), scores in pairs.items():
        for name in SURE:
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


WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 440, 70, 60, 40, 170
# Okabe and Ito 2008: eight colours that people with any colour vision tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def plot(points: Sequence[tuple[str, str, float, float]], title: str) -> str:
    """
    Return an SVG of quality by latency.

    Args:
        points: (data set, arm, R@10 from 0 to 1, median milliseconds), one or more.
        title: Stands above it.
    """
    slowest = max(ms for *_, ms in points) * 1.1 or 1.0
    low = min(quality for _, _, quality, _ in points)
    high = max(quality for _, _, quality, _ in points)
    low, high = max(0.0, low - 0.05), min(1.0, high + 0.05)
    sets = list(dict.fromkeys(name for name, *_ in points))
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
            f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="15">{_escaped(title)}</text>',
    ]
    for step in range(6):
        share = step / 5
        x = LEFT + share * (WIDTH - LEFT - RIGHT)
        y = HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)
        parts += [
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>',
            (
                f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">'
                f"{low + share * (high - low):.2f}</text>"
            ),
            (
                f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">'
                f"{share * slowest:.1f}</text>"
            ),
        ]
    parts += [
        (
            f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 16}" text-anchor="middle">'
            "median latency, ms</text>"
        ),
        (
            f'<text x="18" y="{HEIGHT / 2}" transform="rotate(-90 18 {HEIGHT / 2})" '
            'text-anchor="middle">R@10, turns</text>'
        ),
    ]
    for name, arm, quality, ms in points:
        colour = COLOURS[sets.index(name) % len(COLOURS)]
        x = LEFT + ms / slowest * (WIDTH - LEFT - RIGHT)
        y = HEIGHT - BOTTOM - (quality - low) / ((high - low) or 1) * (HEIGHT - BOTTOM - TOP)
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>',
            f'<text x="{x + 8:.1f}" y="{y + 4:.1f}">{_escaped(arm)}</text>',
        ]
    for place, name in enumerate(sets):
        y = TOP + 18 * place
        parts += [
            (
                f'<circle cx="{WIDTH - RIGHT + 20}" cy="{y}" r="5" '
                f'fill="{COLOURS[place % len(COLOURS)]}"/>'
            ),
            f'<text x="{WIDTH - RIGHT + 32}" y="{y + 4}">{_escaped(name)}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def points_of(results: Sequence[dict[str, Any]]) -> list[tuple[str, str, float, float]]:
    """Return the points of `plot` from the reports of some data sets."""
    return [
        (one["configuration"]["data"]["name"], row["arm"], row["R@10"], row["p50_ms"])
        for one in results
        for row in one["results"]
        if row["level"] == "turn" and row["category"] == "all"
    ]


def write_new(path: str, text: str) -> None:
    """Write *text* to a new file; AlreadyExists or FileError."""
    refuse_output(path)
    try:
        with open(path, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError as error:
        raise AlreadyExists("file", path) from error
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}", path) from error


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
