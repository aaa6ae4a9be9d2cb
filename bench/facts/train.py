"""
Train the two models of `memdb/facts` from `bench/facts/data`.

    python -m bench.facts.train [--data FOLDER] [--out FOLDER] [--steps N] [--common]

It writes `sentences.json` (what is worth keeping) and `pairs.json` (what a newer statement does to
an older one), and with `--common` first `common.json` (how many statements hold a word), with which
`bench/answers/train.py` trained too. The same data and code give the same files. A fifth of the
data is kept apart by the hash of its line, and judges the weights.

Data, one JSON object a line, by `WRITER-KIND-LANGUAGE`: `pairs` {older, newer, kind, days}, `short`
of the same form, for `pairs.json` alone, `sentences` {speaker, before, text, keep, why},
`openings` {text, why}: what else stands in a message,
`notebooks` {facts, asks}; `matrix` holds templates whose products are hard negatives.
"""

from __future__ import annotations

import argparse
import json
import random
from base64 import b64encode
from collections import Counter
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import compress

import numpy as np

from memdb.embeddings.static_model import StaticEmbedder
from memdb.facts import keeping, markers, pairs, wording
from memdb.facts.sentences import is_question
from memdb.records.links import LEAST, SURE_LINK
from memdb.text.resources import compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "memdb" / "facts"
STORIES = ("roleplay", "fiction", "material")  # what stands around a sentence tells them
FRAMED = ("reported", "joke", "hypothesis")
ASKED = ("question", "request")
OPENING, PLAIN = "opening", "plain"  # kinds of sentences that no writer judged
MOST_ROWS = {"says": 40_000, "sort": 12_000, "frame": 20_000}
SAID = 4
LEAST_READ = 0.3  # probability of a fact from which a sentence of a story reads as one
ITSELF = 0.2  # weight of a sentence as a frame of its message
OLDER = 0.6  # weight of an older statement of a pair as a plain fact
FRAMES = 0.08
"""Share of messages that tell a story, play a role or hold a paste. Of the data a sixth are made so;
of what people write to assistants, translations, rewriting and fiction are about a tenth."""
LEAST_KEPT = {"user": 0.4, "assistant": 0.9}  # an assistant's sentences are advice nearly always
LEAST_SEEN = 2
LEAST_TOLD = 2
NONE = 0.6
CROWD = 20
CROSSED = 3
WEIGHTS = {"mixed": 0.25, "crossed": 0.25, "notebook": 0.3, "turned": 0.5, "matrix": 0.7}
UNRELATED = (0.1, 0.4)  # cosines that unrelated statements of one writer have
MOST_COMMON, LEAST_COMMON = 120, 5
MOST_PRODUCTS = 240
STEPS, STEPS_PAIRS = 60, 50
PRECISION = 0.88
MOST_WRONG = 0.005  # wrong sure links between statements that somebody wrote as a pair
MOST_UNRELATED = 0.05  # links between statements that do not
ECHOES = ("w8-", "w9-")
EASY = ("mixed", "crossed", "notebook")
WRITTEN = ("written", "short")


class Pair(NamedTuple):
    """Two statements, what the newer is to the older, and whether they are kept apart."""

    older: str
    newer: str
    kind: str
    language: str
    source: str
    apart: bool


class Sentence(NamedTuple):
    """A sentence of a chat, and what it is."""

    text: str
    before: str
    role: str
    kind: str
    language: str
    apart: bool
    is_framed: bool = False
    weight: float = 1.0


def _is_apart(text: str, path: Path) -> bool:
    """Return whether a line judges; those of a writer whose lines echo each other never do."""
    return not path.name.startswith(ECHOES) and sha256(text.encode()).digest()[0] < 52


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            yield json.loads(line)


def read_sentences(folder: Path) -> list[Sentence]:
    """Return the sentences of all writers, openings, and the plain facts of notebooks and pairs."""
    found: dict[tuple[str, str], Sentence] = {}
    for path in sorted(folder.glob("*sentences-*.jsonl")):
        for row in _rows(path):
            kind, why = row["keep"], row.get("why", "")
            is_framed = kind == "none" and why in STORIES
            if kind == "none":
                is_asked = why in ASKED
                kind = "framed" if is_framed or why in FRAMED else "asked" if is_asked else "other"
            text, before = row["text"].strip(), (row.get("before") or "").strip()
            if row["keep"] != "none" and is_question(text):
                text = compiled(keeping.LAST_CLAUSE).sub(
                    "", text
                )  # the question behind a fact is none
            if kind in keeping.KINDS and text:
                found[text, row["speaker"]] = Sentence(
                    text,
                    before,
                    row["speaker"],
                    kind,
                    path.stem[-2:],
                    _is_apart(text, path),
                    is_framed,
                )
    for path in sorted(folder.glob("*openings-*.jsonl")):
        for row in _rows(path):
            found[row["text"], OPENING] = Sentence(
                row["text"], "", "user", OPENING, path.stem[-2:], False, bool(row["why"])
            )
    for path in sorted((*folder.glob("*notebooks-*.jsonl"), *folder.glob("*pairs-*.jsonl"))):
        for row in _rows(path):
            texts, weight = (row["facts"], 1.0) if "facts" in row else ([row["older"]], OLDER)
            for text in filter(None, map(str.strip, texts)):
                plain = Sentence(text, "", "user", PLAIN, path.stem[-2:], _is_apart(texts[0], path))
                found.setdefault((text, "user"), plain._replace(weight=weight))
    return list(found.values())


def read_pairs(folder: Path) -> list[Pair]:
    """Return the pairs of all writers, and those made of notebooks and matrices."""
    found: dict[tuple[str, str], Pair] = {}

    told: dict[str, list[tuple[str, str]]] = {}  # by language, what ends something, and its older
    said: dict[str, list[str]] = {}
    numbered: dict[str, list[str]] = {}

    def add(older: str, newer: str, kind: str, source: str, key: str) -> None:
        if (older, newer) not in found:
            apart = _is_apart(key, path)
            found[older, newer] = Pair(older, newer, kind, language, source, apart)

    for path in sorted((*folder.glob("*pairs-*.jsonl"), *folder.glob("*short-*.jsonl"))):
        language, source = path.stem[-2:], "short" if "-short-" in path.name else "written"
        rows = [row for row in _rows(path) if row["kind"] in pairs.RELATIONS]
        for row in rows:
            older, newer, kind = row["older"], row["newer"], row["kind"]
            add(older, newer, kind, source, older)
            if kind in ("repeats", "none"):
                add(newer, older, kind, "turned", older)
            if kind in pairs.ENDS:
                told.setdefault(language, []).append((newer, older))
            said.setdefault(language, []).append(older)
        for older, newer in mixed(path.name, rows):
            add(older, newer, "none", "mixed", older)
    for path in sorted(folder.glob("*notebooks-*.jsonl")):
        language = path.stem[-2:]
        for one, other, key in beside(path):
            add(one, other, "none", "notebook", key)
    for path in sorted(folder.glob("*matrix-*.json")):
        language = path.stem[-2:]
        for older, newer, kind, key in products(json.loads(path.read_text(encoding="utf-8"))):
            add(older, newer, kind, "matrix", key)
            if kind == "none":
                numbered.setdefault(language, []).append(older)
    for language, changes in told.items():
        for older, newer, own in crossed(language, changes, said[language], numbered.get(language)):
            add(older, newer, "none", "crossed", own)
    return list(found.values())


def mixed(seed: str, rows: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the older statements of pairs, each with the newer one of another pair."""
    chance = random.Random(seed)
    for row in rows:
        other = chance.choice(rows)
        if other is not row:
            yield row["older"], other["newer"]


def beside(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield pairs of facts that hold at the same time, and the first fact of their notebook."""
    for number, row in enumerate(_rows(path)):
        chance = random.Random(f"{path.name} {number}")
        for _ in range(16):
            one, other = chance.sample(row["facts"], 2)
            yield one, other, row["facts"][0]


def crossed(
    seed: str, changes: list[tuple[str, str]], said: list[str], numbered: list[str] | None
) -> Iterator[tuple[str, str, str]]:
    """Yield older, newer and what it ends, of changes and of statements that they leave alone."""
    chance = random.Random(seed)
    for newer, own in changes:
        others = chance.sample(said, CROSSED) + chance.sample(numbered or said, CROSSED)
        yield from ((older, newer, own) for older in others if older != own)


def products(matrix: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield older, newer, kind and template of what the templates of a matrix make."""
    for template in matrix.get("numbered", []):
        chance = random.Random(template)
        for _ in range(4):
            one = chance.randrange(1, 30)
            other = chance.choice([n for n in range(1, 30) if n != one])
            yield _filled(template, one), _filled(template, other), "none", template
            head = template[: template.index("{n}") + 3]  # "Bus 3" beside "Bus 5"
            if not head.startswith("{"):
                yield _filled(head, one), _filled(head, other), "none", template
                old, new = (f"{chance.choice(('', 'w'))}{chance.randrange(9_999)}" for _ in "ab")
                yield (
                    f"{_filled(head, one)}: {old}",
                    f"{_filled(head, other)}: {new}",
                    "none",
                    template,
                )
                yield (
                    f"{_filled(head, one)}: {old}",
                    f"{_filled(head, one)}: {new}",
                    "updates",
                    template,
                )
        letters = [chance.sample("ABCDEFGH", 2) for _ in range(2)]
        yield from (
            (_filled(template, a), _filled(template, b), "none", template) for a, b in letters
        )
    for template in matrix.get("amounts", []):
        chance = random.Random(template)
        for _ in range(4):
            one = chance.choice((chance.randrange(2, 20), chance.randrange(20, 2_000)))
            other = max(1, round(one * chance.choice((0.6, 0.8, 0.95, 1.05, 1.1, 1.3, 1.6, 2))))
            if one != other:
                yield _filled(template, one), _filled(template, other), "updates", template
    for template in matrix.get("events", []):
        chance = random.Random(template)
        for _ in range(4):
            one, other = sorted(chance.sample(range(1995, 2027), 2))
            yield _filled(template, one), _filled(template, other), "none", template
    for twin in matrix.get("twins", []):
        yield twin["a"], twin["b"], "none", twin["a"]
        yield twin["b"], twin["a"], "none", twin["a"]
    for state in matrix.get("states", []):
        beside = (text for kind, text in state.items() if kind != "fact" and text)
        yield from ((state["fact"], text, "none", state["fact"]) for text in beside)
    for change in matrix.get("changes", []):
        yield change["old"], change["new"], "updates", change["old"]


def _filled(template: str, value: object) -> str:
    return template.replace("{n}", str(value)).replace("{y}", str(value))


def count_common(texts: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Return by language the words that stand in most texts, and their share in thousandths."""
    counts: dict[str, Counter[str]] = {}
    totals: Counter[str] = Counter()
    for language, text in texts:
        totals[language] += 1
        words = {word.text for word in wording.words_of(text) if word.kind != "number"}
        counts.setdefault(language, Counter()).update(words)
    return {
        language: {
            word: round(1_000 * count / totals[language])
            for word, count in sorted(counts[language].items(), key=lambda one: (-one[1], one[0]))[
                :MOST_COMMON
            ]
            if count >= LEAST_COMMON and count * 250 >= totals[language]
        }
        for language in sorted(counts)
    }


# --- Training ------------------------------------------------------------------------------------

Loss = "Callable[[np.ndarray], tuple[float, np.ndarray]]"


def minimise(loss: Callable[[Any], tuple[float, Any]], start: Any, steps: int) -> Any:
    """Return where *loss* is least, by L-BFGS with 8 pairs of memory."""
    place, (value, slope) = start, loss(start)
    memory: list[tuple[Any, Any, float]] = []
    for _ in range(steps):
        way = slope.copy()
        shares = []
        for move, change, scale in reversed(memory):
            share = scale * float(move @ way)
            way -= share * change
            shares.append(share)
        if memory:
            move, change, _ = memory[-1]
            way *= float(move @ change) / float(change @ change)
        for (move, change, scale), share in zip(memory, reversed(shares), strict=True):
            way += move * (share - scale * float(change @ way))
        step = 1.0 if memory else 1.0 / (float(np.abs(slope).sum()) + 1e-9)
        slant = float(slope @ way)
        for _ in range(20):
            next_place = place - step * way
            next_value, next_slope = loss(next_place)
            if next_value <= value - 1e-4 * step * slant:
                break
            step /= 2
        else:
            break
        move, change = next_place - place, next_slope - slope
        if float(move @ change) > 1e-10:
            memory = [*memory, (move, change, 1 / float(move @ change))][-8:]
        done = abs(value - next_value) < 1e-7 * max(1.0, abs(value))
        place, value, slope = next_place, next_value, next_slope
        if done:
            break
    return place


class Table(NamedTuple):
    """Sparse rows: columns and values, one row behind the other; and the same by column."""

    columns: Any
    values: Any
    starts: Any
    rows_by_column: Any
    values_by_column: Any
    used: Any
    column_starts: Any
    width: int

    @classmethod
    def of(cls, rows: list[list[tuple[int, float]]], width: int) -> Table:
        """Return the rows as arrays; each row has one entry at least."""
        columns = np.array([column for row in rows for column, _ in row], dtype=np.int32)
        values = np.array([value for row in rows for _, value in row], dtype=np.float32)
        lengths = np.array([len(row) for row in rows])
        order = np.argsort(columns, kind="stable")
        spread = np.repeat(np.arange(len(rows), dtype=np.int32), lengths)
        used, column_starts = np.unique(columns[order], return_index=True)
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        return cls(
            columns, values, starts, spread[order], values[order], used, column_starts, width
        )

    def times(self, weights: Any) -> Any:
        """Return the products of the rows with *weights*, (width, kinds)."""
        return np.stack(
            [
                np.add.reduceat(np.take(one, self.columns) * self.values, self.starts)
                for one in np.ascontiguousarray(weights.T, dtype=np.float32)
            ],
            axis=1,
        ).astype(np.float64)

    def turned(self, errors: Any) -> Any:
        """Return the sums of *errors*, (rows, kinds), by column."""
        sums = np.zeros((self.width, errors.shape[1]))
        for kind, one in enumerate(np.ascontiguousarray(errors.T, dtype=np.float32)):
            given = np.take(one, self.rows_by_column) * self.values_by_column
            sums[self.used, kind] = np.add.reduceat(given, self.column_starts)
        return sums


def shares_of(scores: Any) -> Any:
    """Return the softmax of each row."""
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def fit(
    table: Table, labels: Any, kinds: int, weigh: Any, ridge: float, steps: int
) -> tuple[Any, Any]:
    """Return weights (width, kinds) and bias (kinds,) of a multinomial logistic regression."""
    truth = np.eye(kinds)[labels]
    total = float(weigh.sum())
    size = table.width * kinds

    def loss(place: Any) -> tuple[float, Any]:
        weights, bias = place[:size].reshape(table.width, kinds), place[size:]
        shares = shares_of(table.times(weights) + bias)
        picked = np.maximum(shares[np.arange(len(labels)), labels], 1e-12)
        errors = (shares - truth) * weigh[:, None] / total
        value = -float((np.log(picked) * weigh).sum()) / total + ridge * float((weights**2).sum())
        slope = np.concatenate(
            [(table.turned(errors) + 2 * ridge * weights).ravel(), errors.sum(axis=0)]
        )
        return value, slope

    found = minimise(loss, np.zeros(size + kinds), steps)
    return found[:size].reshape(table.width, kinds), found[size:]


def temperature(scores: Any, labels: Any) -> float:
    """Return the factor of scores at which probabilities of *labels* are likeliest (Platt)."""
    best, least = 1.0, float("inf")
    for factor in np.arange(0.3, 2.01, 0.05):
        shares = shares_of(scores * factor)
        value = -float(np.log(np.maximum(shares[np.arange(len(labels)), labels], 1e-12)).mean())
        if value < least:
            best, least = float(factor), value
    return round(best, 2)


def balance(languages: list[str]) -> Any:
    """Return a weight per row, so that each language weighs alike."""
    counts = Counter(languages)
    mean = sum(counts.values()) / len(counts)
    return np.array([min(3.0, (mean / counts[language]) ** 0.5) for language in languages])


# --- The two models ------------------------------------------------------------------------------


class Head:
    """One regression of `keeping`: fitted, cut to the buckets that tell most, and quantised."""

    def __init__(
        self, found: Sequence[Sentence], labels: Any, kinds: int, steps: int, rows: int = 0
    ) -> None:
        """Fit it to *found*; with the *rows* that tell most, all if 0."""
        labels, weigh = np.array(labels, dtype=np.int64), balance([one.language for one in found])
        weigh *= np.array([one.weight for one in found])
        given = [row_of(one.text, one.role) for one in found]
        table = Table.of(given, keeping.BUCKETS)
        weights, self.bias = fit(table, labels, kinds, weigh, RIDGE_SENTENCES, steps)
        seen = np.bincount(table.columns, minlength=keeping.BUCKETS)
        strength = np.abs(weights - weights.mean(axis=1, keepdims=True)).sum(axis=1)
        strength *= np.sqrt(seen) * (seen >= LEAST_SEEN)
        kept = np.argsort(-strength, kind="stable")[: rows or keeping.BUCKETS]
        kept = kept[strength[kept] > 0]
        if rows:  # what is left is fitted again: it takes over what the dropped buckets told
            chosen = set(kept.tolist())
            given = [[one for one in row if one[0] in chosen] or [(0, 0.0)] for row in given]
            table = Table.of(given, keeping.BUCKETS)
            weights, self.bias = fit(table, labels, kinds, weigh, RIDGE_SENTENCES, steps)
        # A gap between two rows is one byte.
        self.kept = np.union1d(kept, np.arange(0, keeping.BUCKETS, 255))
        self.small, self.unit = quantised(weights[self.kept])
        self.scale = 1.0

    def scores(self, found: Iterable[Sentence]) -> Any:
        """Return the scores of *found*, (sentences, kinds)."""
        whole = np.zeros((keeping.BUCKETS, self.small.shape[1]))
        whole[self.kept] = self.small * self.unit
        table = Table.of([row_of(one.text, one.role) for one in found], keeping.BUCKETS)
        return (table.times(whole) + self.bias) * self.scale

    def warm(self, found: list[Sentence], labels: Any) -> None:
        """Make its probabilities those of *labels*."""
        self.scale *= temperature(self.scores(found), np.array(labels, dtype=np.int64))

    def to_dict(self) -> dict[str, Any]:
        """Return what `keeping.Head` reads."""
        bias = [round(float(one), 3) for one in self.bias / self.unit]
        scale = self.unit * self.scale
        return {"scale": scale, "bias": bias, **packed(self.kept, self.small)}


@cache
def row_of(text: str, role: str) -> list[tuple[int, float]]:
    """Return the features of a sentence by bucket."""
    row: dict[int, float] = {}
    for value, buckets in keeping.features(text, role):
        for bucket in buckets:
            row[bucket] = row.get(bucket, 0.0) + value
    return sorted(row.items())


def train_sentences(found: list[Sentence], steps: int) -> dict[str, Any]:
    """
    Return the weights of `keeping`, with what they do to sentences kept apart.

    What is said in a story, a role or a paste is learnt by the first head only if it does not read
    as a fact, for its frame is told by others: the sentences before it, and openings.
    """
    near = [one for one in found if not one.apart]
    notes = [one for one in near if one.role == keeping.NOTE]
    near = [one for one in near if one.role != keeping.NOTE]
    first = [one for one in near if one.kind != OPENING and not one.is_framed]
    says = Head(first, [says_of(one) for one in first], SAID, steps)
    shares = shares_of(says.scores(near))[:, 0]
    told = [
        one
        for one, share in zip(near, shares, strict=True)
        if one.kind != OPENING and (not one.is_framed or share < LEAST_READ)
    ]
    says = Head(told, [says_of(one) for one in told], SAID, steps, MOST_ROWS["says"])
    facts = [one for one in near if one.kind in keeping.KINDS[: keeping.KEPT]] + notes
    sorts = [keeping.KINDS.index(one.kind) for one in facts]
    sort = Head(facts, sorts, keeping.KEPT, steps, MOST_ROWS["sort"])
    around = [(one, one.is_framed) for one in near if one.kind == OPENING]
    around += [(one._replace(text=one.before), one.is_framed) for one in near if one.before]
    around += [
        (one._replace(weight=ITSELF * one.weight), one.kind == "framed")
        for one in near
        if one.kind != OPENING
    ]
    framing = [one for one, _ in around]
    frame = Head(framing, [told for _, told in around], 2, steps, MOST_ROWS["frame"])
    share = sum(one.weight for one, is_told in around if is_told) / sum(
        one.weight for one in framing
    )

    apart = [one for one in found if one.apart and one.kind not in (OPENING, PLAIN)]
    notes = [one for one in apart if one.role == keeping.NOTE]
    apart = [one for one in apart if one.role != keeping.NOTE]
    own = [one for one in apart if not one.is_framed]
    says.warm(own, [says_of(one) for one in own])
    facts = [one for one in own if one.kind in keeping.KINDS[: keeping.KEPT]] + notes
    sort.warm(facts, [keeping.KINDS.index(one.kind) for one in facts])
    behind = [one._replace(text=one.before) for one in apart if one.before]
    frame.warm(behind, [one.is_framed for one in behind])
    frame.bias[1] += (pairs.log_odds(FRAMES) - pairs.log_odds(share)) / frame.scale
    frames = [
        shares_of(frame.scores(said))[:, 1]
        for said in (apart, [one._replace(text=one.before or one.text) for one in apart])
    ]
    facts_of = shares_of(says.scores(apart))[:, 0]
    kept = [keeping.worth(*one) for one in zip(facts_of, np.maximum(*frames), strict=True)]
    best = shares_of(sort.scores(apart)).argmax(axis=1)
    least = {role: threshold(kept, apart, role) for role in ("user", "assistant")}
    heads = {"says": says, "sort": sort, "frame": frame}
    return {
        **{name: head.to_dict() for name, head in heads.items()},
        "least": least,
        "judged": judged_sentences(kept, best, apart, least),
    }


def says_of(one: Sentence) -> int:
    """Return what a sentence says: a fact, or which of the other kinds it is."""
    others = keeping.KINDS[keeping.KEPT :]
    return 1 + others.index(one.kind) if one.kind in others else 0


def packed(kept: Any, small: Any) -> dict[str, str]:
    """Return the numbers of buckets, and the rows of their weights, as text."""
    steps = np.sign(small) * np.sqrt(np.abs(small)) + keeping.ZERO
    parts = {"gaps": np.diff(kept, prepend=0), "weights": steps.T.ravel()}
    return {
        name: b64encode(compress(bytes(round(float(one)) for one in part), 9)).decode()
        for name, part in parts.items()
    }


def quantised(weights: Any) -> tuple[Any, float]:
    """Return the signed squares up to `keeping.ZERO` that weights are, and what 1 stands for."""
    small = weights - weights.mean(axis=1, keepdims=True)
    unit = float(np.abs(small).max()) / keeping.ZERO**2 or 1.0
    steps = np.sign(small) * np.round(np.sqrt(np.abs(small) / unit))
    return steps * np.abs(steps), unit


def threshold(kept: Any, found: list[Sentence], role: str) -> float:
    """Return the least probability at which `PRECISION` of what is kept was to be kept."""
    rows = sorted(
        (
            (float(share), one.kind in keeping.KINDS[: keeping.KEPT])
            for share, one in zip(kept, found, strict=True)
            if one.role == role and not one.is_framed
        ),
        reverse=True,
    )
    right, best = 0, LEAST_KEPT["assistant"]
    for number, (share, is_right) in enumerate(rows, 1):
        right += is_right
        if right / number >= PRECISION and number >= 20:
            best = share
    return round(min(max(best, LEAST_KEPT[role]), 0.95), 3)


def judged_sentences(
    kept: Any, best: Any, found: list[Sentence], least: dict[str, float]
) -> dict[str, Any]:
    """Return precision, recall and right kinds by language; stories and pastes stand apart."""
    told: dict[str, Counter[str]] = {}
    for share, kind, one in zip(kept, best, found, strict=True):
        is_fact = one.kind in keeping.KINDS[: keeping.KEPT]
        names = (one.language, "all", one.role)
        if one.is_framed:
            names = ("framed, with a sentence before" if one.before else "framed, alone",)
        for name in names:
            count = told.setdefault(name, Counter())
            count["of"] += 1
            count["facts"] += is_fact
            count["kept"] += bool(share >= least[one.role])
            count["right"] += bool(is_fact and share >= least[one.role])
            count["kind"] += is_fact and keeping.KINDS[kind] == one.kind
    return {
        name: {
            "precision": round(count["right"] / max(count["kept"], 1), 3),
            "recall": round(count["right"] / max(count["facts"], 1), 3),
            "kind": round(count["kind"] / max(count["facts"], 1), 3),
            "kept": count["kept"],
            "of": count["of"],
        }
        for name, count in sorted(told.items())
    }


RIDGE_SENTENCES = 2e-5
RIDGE_PAIRS = 6e-5


def pair_features(found: list[Pair]) -> list[dict[str, float]]:
    """Return the features of the pairs; every other one without vectors."""
    embedder = StaticEmbedder()
    texts: dict[str, list[str]] = {}
    for one in found:
        if one.source == "written":
            texts.setdefault(one.language, []).append(one.older)
    rarities = {
        language: (
            lambda _: 1.0,  # a store of one entry
            rarity_among(random.Random(language).sample(said, min(len(said), CROWD))),
            rarity_among(said),
        )
        for language, said in texts.items()
    }
    made = []
    for number, one in enumerate(found):
        cosine = None
        if number % 2 and one.source == "crossed":
            cosine = random.Random(number).uniform(*UNRELATED)
        elif number % 2:
            cosine = _cosine(*embedder.embed([one.older, one.newer]))
        made.append(
            pairs.features(
                pairs.Statement(one.newer, 0),
                pairs.Statement(one.older, 0),
                cosine=cosine,
                rarity=rarities[one.language][number % 3],
            )
        )
    return made


def rarity_among(texts: list[str]) -> Callable[[str], float]:
    """Return how rare a word is among *texts*, as a scope with these entries tells it."""
    counts = Counter(
        word for text in texts for word in {one.text for one in wording.words_of(text)}
    )
    return lambda word: pairs.rarity_of(counts[word], len(texts))


def _cosine(one: bytes | None, other: bytes | None) -> float | None:
    if one is None or other is None:
        return None
    first, second = np.frombuffer(one, np.float32), np.frombuffer(other, np.float32)
    return float(first @ second / (np.linalg.norm(first) * np.linalg.norm(second) or 1.0))


def train_pairs(found: list[Pair], steps: int) -> dict[str, Any]:
    """Return the weights of `pairs`, with what they do to those kept apart."""
    given = pair_features(found)
    labels = np.array([pairs.RELATIONS.index(one.kind) for one in found])
    near = np.array([not one.apart for one in found])
    weigh = balance([one.language for one in found])
    weigh = weigh * np.array(
        [WEIGHTS.get(one.source, 1.0) * (NONE if one.kind == "none" else 1.0) for one in found]
    )
    names = sorted({name for row in given for name in row})
    kinds = len(pairs.RELATIONS)
    said = [
        [
            (pairs.bucket(gram), value)
            for gram, value in pairs.grams_of(one.newer, one.older).items()
        ]
        for one in found
    ]
    seen: Counter[int] = Counter()
    for one, row, is_near in zip(found, said, near, strict=True):
        if is_near and one.source in WRITTEN:
            seen.update({at for at, _ in row})
    kept = np.array(sorted(at for at, count in seen.items() if count >= LEAST_TOLD))
    column_of = {int(at): number for number, at in enumerate(kept)}

    def table(columns: list[str], mask: Any, *, plain: bool = False) -> Table:
        place = {name: number for number, name in enumerate(columns)}
        split = [(name, *name.split(" & ")) for name in columns if " & " in name]
        rows = []
        for row, told, is_in in zip(given, said, mask, strict=True):
            if is_in:
                line = [(place[name], value) for name, value in row.items() if name in place]
                for name, one, other in split:
                    if one in row and other in row:
                        line.append((place[name], row[one] * row[other]))
                if not plain:
                    line += [
                        (len(columns) + column_of[at], value)
                        for at, value in told
                        if at in column_of
                    ]
                rows.append(line or [(0, 0.0)])
        return Table.of(rows, len(columns) + (0 if plain else len(kept)))

    first = table(names, near, plain=True)
    weights, bias = fit(first, labels[near], kinds, weigh[near], RIDGE_PAIRS, steps)
    errors = np.eye(kinds)[labels[near]] - shares_of(first.times(weights) + bias)
    dense = np.zeros((int(near.sum()), len(names)))
    for number, row in enumerate(row for row, is_in in zip(given, near, strict=True) if is_in):
        for name, value in row.items():
            dense[number, names.index(name)] = value
    gains = []
    for at, one in enumerate(names):
        product = dense[:, at : at + 1] * dense[:, at + 1 :]
        norm = np.sqrt((product**2).sum(axis=0)) + 3.0
        gain = np.abs(product.T @ (errors * weigh[near][:, None])).max(axis=1) / norm
        gains += [(float(value), f"{one} & {names[at + 1 + n]}") for n, value in enumerate(gain)]
    best = [name for _, name in sorted(gains, key=lambda one: (-one[0], one[1]))[:MOST_PRODUCTS]]
    columns = names + sorted(best)
    weights, bias = fit(table(columns, near), labels[near], kinds, weigh[near], RIDGE_PAIRS, steps)
    small, unit = quantised(weights[len(columns) :])
    weights = np.concatenate([np.round(weights[: len(columns)], 3), small * unit])
    bias = np.round(bias, 3)
    scores = table(columns, ~near).times(weights) + bias
    apart = [one for one in found if one.apart]
    warm = temperature(scores, labels[~near])
    shares = shares_of(scores * warm)
    slope, shift = calibrated(shares, apart)
    return {
        "kinds": list(pairs.RELATIONS),
        "scale": warm,
        "slope": slope,
        "shift": shift,
        "bias": [float(one) for one in bias],
        "features": {
            name: [float(one) for one in row]
            for name, row in zip(columns, weights[: len(columns)], strict=True)
            if np.abs(row).max() > 0
        },
        "unit": unit,
        **packed(kept, small),
        "judged": judged_pairs(shares, apart, slope, shift),
    }


def calibrated(shares: Any, found: list[Pair]) -> tuple[float, float]:
    """
    Return slope and shift of the logarithm of the odds of a link (Platt).

    A link is likelier than not where `MOST_UNRELATED` of the unrelated pairs have one, and sure
    where `MOST_WRONG` of those that somebody wrote have a wrong one.
    """
    wrong: list[float] = []
    unrelated: list[float] = []
    for row, one in zip(shares, found, strict=True):
        ends = float(row[1:-1].sum())
        kind, share = max(("repeats", float(row[0])), ("ends", ends), key=lambda pair: pair[1])
        if one.source in EASY:
            unrelated.append(share)
        elif one.source in WRITTEN:
            meant = one.kind if one.kind in ("repeats", pairs.NONE) else "ends"
            wrong.append(share if kind != meant else 0.0)
    linked = pairs.log_odds(float(np.quantile(unrelated, 1 - MOST_UNRELATED)))
    sure = pairs.log_odds(float(np.quantile(wrong, 1 - MOST_WRONG)))
    slope = pairs.log_odds(SURE_LINK) / max(sure - linked, 0.1)
    return round(slope, 3), round(-slope * linked, 3)


def judged_pairs(shares: Any, found: list[Pair], slope: float, shift: float) -> dict[str, Any]:
    """Return how many are right, and how many links above .8 are wrong, of those kept apart."""
    told: dict[str, Counter[str]] = {}
    for row, one in zip(shares, found, strict=True):
        best, share = pairs.decided([float(part) for part in row], slope, shift)
        sure = best != "none" and share >= SURE_LINK
        wrong = sure and (one.kind == "none" or (best == "repeats") != (one.kind == "repeats"))
        for name in (one.language, f"{one.source}: {one.kind}", one.source, "all"):
            count = told.setdefault(name, Counter())
            count["pairs"] += 1
            count["right"] += best == one.kind
            count["linked"] += best != "none" and share >= LEAST
            count["sure"] += sure
            count["wrong"] += wrong
    return {
        name: {
            "pairs": count["pairs"],
            "right": round(count["right"] / count["pairs"], 3),
            "linked": round(count["linked"] / count["pairs"], 3),
            "sure": count["sure"],
            "wrong": count["wrong"],
        }
        for name, count in sorted(told.items())
    }


def fingerprint(folder: Path) -> str:
    """Return the hash of the data and of what the code makes of a few texts."""
    whole = sha256()
    for path in sorted(folder.glob("*.json*")):
        whole.update(path.name.encode())
        whole.update(path.read_bytes())
    for text in (
        "We moved to Porto in May.",
        "Server 4 now runs Debian, not Arch.",
        "Korrektur: Die Miete ist 950, nicht 900 Euro.",
        "我搬到上海了。",
        "もう猫は飼っていません。",
        "Если я играю на пианино, соседи злятся.",
    ):
        marked = sorted(markers.marks(text))
        words = [tuple(word.to_dict().items())[:2] for word in wording.words_of(text)]
        grams = [(value, list(found)) for value, found in keeping.features(text, "user")]
        whole.update(repr((marked, words, grams)).encode())
    whole.update(repr((keeping.KINDS, pairs.RELATIONS)).encode())
    return whole.hexdigest()[:16]


def write(path: Path, data: Any) -> None:
    """Write *data* as JSON, a member a line."""
    path.write_text(json.dumps(data, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    for cached in (
        wording.common_words, wording._tells_language, wording.words_of, wording.recognise,
        markers.marks, keeping.head_shares, keeping._model, keeping._head,
    ):  # fmt: skip
        cached.cache_clear()


def count_words(sentences: list[Sentence], found: list[Pair], out: Path) -> None:
    """Write how many of the statements hold a word."""
    texts = [(one.language, one.text) for one in sentences if one.kind not in (OPENING, PLAIN)]
    texts += [
        (one.language, text)
        for one in found
        if one.source == "written"
        for text in (one.older, one.newer)
    ]
    write(out / "common.json", {})
    write(out / "common.json", count_common(texts))


def train(data: Path, out: Path, steps: int, *, common: bool = False) -> None:
    """Train both models from the folder *data* into *out*; with *common* count words before."""
    sentences, found = read_sentences(data), read_pairs(data)
    if common:
        count_words(sentences, found, out)
    mark = fingerprint(data)
    write(out / "sentences.json", train_sentences(sentences, steps) | {"hash": mark})
    write(out / "pairs.json", train_pairs(found, min(steps, STEPS_PAIRS)) | {"hash": mark})


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--out", type=Path, default=PACKAGE)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--common", action="store_true")
    given = parser.parse_args()
    train(given.data, given.out, given.steps, common=given.common)
    for name in ("sentences", "pairs"):
        print(name)
        for part, told in json.loads((given.out / f"{name}.json").read_text())["judged"].items():
            print(f"  {part:24}", *(f"{key} {value}" for key, value in told.items()))


if __name__ == "__main__":
    main()
