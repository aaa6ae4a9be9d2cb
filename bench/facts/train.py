"""
Train the two models of `memdb/facts` from `bench/facts/data`.

    python -m bench.facts.train [--data FOLDER] [--out FOLDER] [--steps N]

It writes `common.json` (how many statements hold a word), `sentences.json` (what is worth keeping)
and `pairs.json` (what a newer statement does to an older one). The same data and code give the
same files. A fifth of the data is kept apart by the hash of its line, and judges the weights.

Data, one JSON object a line, by `WRITER-KIND-LANGUAGE`: `pairs` {older, newer, kind, days},
`sentences` {speaker, before, text, keep, why}, `notebooks` {facts, asks}; `matrix` holds templates
whose products are hard negatives.
"""

from __future__ import annotations

import argparse
import json
import random
from base64 import b85encode
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import compress

import numpy as np

from memdb.embeddings.static_model import StaticEmbedder
from memdb.facts import keeping, markers, pairs, wording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "memdb" / "facts"
FRAMED = ("roleplay", "fiction", "material", "reported", "joke", "hypothesis")
ASKED = ("question", "request")
MOST_ROWS = 28_000
LEAST_SEEN = 2
LEAST_TOLD = 2
NONE = 0.6
CROWD = 20
CROSSED = 3
WEIGHTS = {"mixed": 0.25, "crossed": 0.25, "notebook": 0.3, "turned": 0.5, "matrix": 0.7}
UNRELATED = (0.1, 0.4)  # cosines that unrelated statements of one writer have
MOST_COMMON, LEAST_COMMON = 120, 5
MOST_PRODUCTS = 240
STEPS, STEPS_PAIRS = 80, 50
PRECISION = 0.87
LINKED, SURE = 0.5, 0.8  # probabilities from which a link is stored, and hides the older entry
MOST_WRONG = 0.01  # wrong sure links between statements that resemble each other
MOST_UNRELATED = 0.05  # links between statements that do not
ECHOES = ("w8-", "w9-")
EASY = ("mixed", "crossed", "notebook")


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


def _is_apart(text: str, path: Path) -> bool:
    """Return whether a line judges; those of a writer whose lines echo each other never do."""
    return not path.name.startswith(ECHOES) and sha256(text.encode()).digest()[0] < 52


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            yield json.loads(line)


def read_sentences(folder: Path) -> list[Sentence]:
    """Return the sentences of all writers."""
    found = {}
    for path in sorted(folder.glob("*sentences-*.jsonl")):
        for row in _rows(path):
            kind = row["keep"]
            if kind == "none":
                why = row.get("why", "")
                kind = "framed" if why in FRAMED else "asked" if why in ASKED else "other"
            text, before = row["text"].strip(), (row.get("before") or "").strip()
            if kind in keeping.KINDS and text:
                found[text, row["speaker"]] = Sentence(
                    text, before, row["speaker"], kind, path.stem[-2:], _is_apart(text, path)
                )
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

    for path in sorted(folder.glob("*pairs-*.jsonl")):
        language = path.stem[-2:]
        rows = [row for row in _rows(path) if row["kind"] in pairs.RELATIONS]
        for row in rows:
            older, newer, kind = row["older"], row["newer"], row["kind"]
            add(older, newer, kind, "written", older)
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
    """Sparse rows: of each the columns and values, one behind the other."""

    columns: Any
    values: Any
    starts: Any
    width: int

    @classmethod
    def of(cls, rows: list[list[tuple[int, float]]], width: int) -> Table:
        """Return the rows as arrays; each row has one entry at least."""
        columns = np.array([column for row in rows for column, _ in row], dtype=np.int64)
        values = np.array([value for row in rows for _, value in row], dtype=np.float64)
        lengths = np.array([len(row) for row in rows])
        return cls(columns, values, np.concatenate([[0], np.cumsum(lengths)[:-1]]), width)

    def times(self, weights: Any) -> Any:
        """Return the products of the rows with *weights*, (width, kinds)."""
        return np.stack(
            [
                np.add.reduceat(weights[self.columns, kind] * self.values, self.starts)
                for kind in range(weights.shape[1])
            ],
            axis=1,
        )

    def turned(self, errors: Any) -> Any:
        """Return the sums of *errors*, (rows, kinds), by column."""
        lengths = np.diff(np.concatenate([self.starts, [len(self.columns)]]))
        spread = np.repeat(np.arange(len(self.starts)), lengths)
        return np.stack(
            [
                np.bincount(self.columns, self.values * errors[spread, kind], minlength=self.width)
                for kind in range(errors.shape[1])
            ],
            axis=1,
        )


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


def train_sentences(found: list[Sentence], steps: int) -> dict[str, Any]:
    """Return the weights of `keeping`, with what they do to those kept apart."""
    rows = []
    for one in found:
        row: dict[int, float] = {}
        for value, buckets in keeping.features(one.text, one.role, one.before):
            for bucket in buckets:
                row[bucket] = row.get(bucket, 0.0) + value
        rows.append(sorted(row.items()))
    labels = np.array([keeping.KINDS.index(one.kind) for one in found])
    near = np.array([not one.apart for one in found])
    weigh = balance([one.language for one in found])
    kinds = len(keeping.KINDS)

    def part(mask: Any) -> Table:
        return Table.of(
            [row for row, is_in in zip(rows, mask, strict=True) if is_in], keeping.BUCKETS
        )

    seen = np.bincount(
        np.array(
            [
                column
                for row, is_near in zip(rows, near, strict=True)
                if is_near
                for column, _ in row
            ]
        ),
        minlength=keeping.BUCKETS,
    )
    weights, bias = fit(part(near), labels[near], kinds, weigh[near], RIDGE_SENTENCES, steps)
    strength = np.abs(weights - weights.mean(axis=1, keepdims=True)).sum(axis=1)
    strength *= np.sqrt(seen) * (seen >= LEAST_SEEN)
    kept = np.sort(np.argsort(-strength, kind="stable")[:MOST_ROWS])
    kept = kept[strength[kept] > 0]
    # What is left is fitted again: it takes over what the dropped buckets told.
    chosen = set(kept.tolist())
    rows = [[one for one in row if one[0] in chosen] or [(int(kept[0]), 0.0)] for row in rows]
    weights, bias = fit(part(near), labels[near], kinds, weigh[near], RIDGE_SENTENCES, steps)
    small, unit = quantised(weights[kept], 0.995)

    def scores_of(table: Table) -> Any:
        whole = np.zeros((keeping.BUCKETS, kinds))
        whole[kept] = small
        return table.times(whole) + bias / unit

    far = scores_of(part(~near))
    warm = temperature(far * unit, labels[~near])
    shares = shares_of(far * unit * warm)
    apart = [one for one in found if one.apart]
    least = {role: threshold(shares, apart, role) for role in ("user", "assistant")}
    return {
        "kinds": list(keeping.KINDS),
        "scale": unit * warm,
        "bias": [round(float(one), 3) for one in bias / unit],
        "least": least,
        **packed(kept, small),
        "judged": judged_sentences(shares, apart, least),
    }


def packed(kept: Any, small: Any) -> dict[str, str]:
    """Return the numbers of buckets, and the rows of their weights, as text."""
    parts = {"gaps": np.diff(kept, prepend=0), "weights": (small + keeping.ZERO).T.ravel()}
    return {
        name: b85encode(compress(bytes(int(one) for one in part), 9)).decode()
        for name, part in parts.items()
    }


def quantised(weights: Any, share: float) -> tuple[Any, float]:
    """Return weights as whole numbers up to `keeping.ZERO`, and what one of them stands for."""
    small = weights - weights.mean(axis=1, keepdims=True)
    unit = float(np.quantile(np.abs(small), share)) / keeping.ZERO or 1.0
    return np.clip(np.round(small / unit), -keeping.ZERO, keeping.ZERO), unit


def threshold(shares: Any, found: list[Sentence], role: str) -> float:
    """Return the least probability at which `PRECISION` of what is kept was to be kept."""
    rows = sorted(
        (
            (float(row[: keeping.KEPT].sum()), one.kind in keeping.KINDS[: keeping.KEPT])
            for row, one in zip(shares, found, strict=True)
            if one.role == role and row[keeping.FRAMED] < keeping.MOST_FRAMED
        ),
        reverse=True,
    )
    right, best = 0, 0.9
    for number, (share, is_right) in enumerate(rows, 1):
        right += is_right
        if right / number >= PRECISION and number >= 20:
            best = share
    return round(min(max(best, 0.4), 0.95), 3)


def judged_sentences(shares: Any, found: list[Sentence], least: dict[str, float]) -> dict[str, Any]:
    """Return precision, recall and right kinds of the sentences kept apart, by language."""
    told: dict[str, Counter[str]] = {}
    for row, one in zip(shares, found, strict=True):
        is_fact = one.kind in keeping.KINDS[: keeping.KEPT]
        is_kept = float(row[: keeping.KEPT].sum()) >= least[one.role]
        is_kept = is_kept and row[keeping.FRAMED] < keeping.MOST_FRAMED
        for name in (one.language, "all", *([f"{one.role}"])):
            count = told.setdefault(name, Counter())
            count["facts"] += is_fact
            count["kept"] += is_kept
            count["right"] += is_kept and is_fact
            if is_fact:
                best = keeping.KINDS[int(row[: keeping.KEPT].argmax())]
                count["kind"] += best == one.kind
    return {
        name: {
            "precision": round(count["right"] / max(count["kept"], 1), 3),
            "recall": round(count["right"] / max(count["facts"], 1), 3),
            "kind": round(count["kind"] / max(count["facts"], 1), 3),
            "of": count["facts"],
        }
        for name, count in sorted(told.items())
    }


RIDGE_SENTENCES = 5e-6
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
        if is_near and one.source == "written":
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
    small, unit = quantised(weights[len(columns) :], 0.998)
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
    where `MOST_WRONG` of those that resemble each other have a wrong one.
    """
    wrong: list[float] = []
    unrelated: list[float] = []
    for row, one in zip(shares, found, strict=True):
        ends = float(row[1:-1].sum())
        kind, share = max(("repeats", float(row[0])), ("ends", ends), key=lambda pair: pair[1])
        if one.source in EASY:
            unrelated.append(share)
        else:
            meant = one.kind if one.kind in ("repeats", pairs.NONE) else "ends"
            wrong.append(share if kind != meant else 0.0)
    linked = pairs.log_odds(float(np.quantile(unrelated, 1 - MOST_UNRELATED)))
    sure = pairs.log_odds(float(np.quantile(wrong, 1 - MOST_WRONG)))
    slope = pairs.log_odds(SURE) / max(sure - linked, 0.1)
    return round(slope, 3), round(-slope * linked, 3)


def judged_pairs(shares: Any, found: list[Pair], slope: float, shift: float) -> dict[str, Any]:
    """Return how many are right, and how many links above .8 are wrong, of those kept apart."""
    told: dict[str, Counter[str]] = {}
    for row, one in zip(shares, found, strict=True):
        best, share = pairs.decided([float(part) for part in row], slope, shift)
        sure = best != "none" and share >= SURE
        wrong = sure and (one.kind == "none" or (best == "repeats") != (one.kind == "repeats"))
        for name in (one.language, f"{one.source}: {one.kind}", one.source, "all"):
            count = told.setdefault(name, Counter())
            count["pairs"] += 1
            count["right"] += best == one.kind
            count["linked"] += best != "none" and share >= LINKED
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
    sample = [
        ("I live in Lisbon, in a flat.", "We moved to Porto in May."),
        ("Server 3 runs Debian.", "Server 4 now runs Debian, not Arch."),
        ("Die Miete ist 900 Euro.", "Korrektur: Die Miete ist 950, nicht 900 Euro."),
        ("我住在北京。", "我搬到上海了。"),
        ("猫を二匹飼っています。", "もう猫は飼っていません。"),
        ("Я играю на пианино.", "Если я играю на пианино, соседи злятся."),
    ]
    for older, newer in sample:
        marked = sorted(markers.marks(newer))
        words = [tuple(word.to_dict().items())[:2] for word in wording.words_of(newer)]
        grams = [(value, list(found)) for value, found in keeping.features(newer, "user", older)]
        whole.update(repr((marked, words, grams)).encode())
    whole.update(repr((keeping.KINDS, pairs.RELATIONS)).encode())
    whole.update(Path(__file__).read_bytes())
    return whole.hexdigest()[:16]


def write(path: Path, data: Any) -> None:
    """Write *data* as JSON, a member a line."""
    path.write_text(json.dumps(data, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    for cached in (
        wording.common_words, wording.words_of, wording.recognise, markers.marks,
        keeping.kinds_of, keeping._model,
    ):  # fmt: skip
        cached.cache_clear()


def train(data: Path, out: Path, steps: int) -> None:
    """Train both models from the folder *data* into *out*."""
    sentences, found = read_sentences(data), read_pairs(data)
    texts = [(one.language, one.text) for one in sentences]
    texts += [
        (one.language, text)
        for one in found
        if one.source == "written"
        for text in (one.older, one.newer)
    ]
    write(out / "common.json", {})
    write(out / "common.json", count_common(texts))
    mark = fingerprint(data)
    write(out / "sentences.json", train_sentences(sentences, steps) | {"hash": mark})
    write(out / "pairs.json", train_pairs(found, min(steps, STEPS_PAIRS)) | {"hash": mark})


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--out", type=Path, default=PACKAGE)
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    train(given.data, given.out, given.steps)
    for name in ("sentences", "pairs"):
        print(name)
        for part, told in json.loads((given.out / f"{name}.json").read_text())["judged"].items():
            print(f"  {part:24}", *(f"{key} {value}" for key, value in told.items()))


if __name__ == "__main__":
    main()
