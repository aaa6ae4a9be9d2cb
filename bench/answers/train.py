"""
Train the model of `memdb.search.relevance`: whether a row answers the question.

    python -m bench.answers.train [--judge] [--steps N]

It writes `memdb/search/answers.json`: the weights with words alone and with the built-in table,
how many questions of a language hold a word, and how much likelier a word is in a question about
what somebody told of himself than in one about the world. The same data and code give the same file.

Data: notebooks of `bench/facts/data` ({facts, asks}), each asked alone as messages and as entries,
and, each third, among 300 other statements and sentences of the language; and the conversations of
`bench/ranker` with the unrelated questions of `bench/unrelated.py`. A fifth of the notebooks is
kept apart by the hash of its facts and never trained on; what is printed of it is the result, and
of `untold.jsonl`: questions about oneself whose answer no notebook tells. LoCoMo and BEAM are not
read.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import memdb
from memdb.evaluation import dataset, measuring
from memdb.search import rank, relevance, words
from memdb.text.terms import query_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "facts" / "data"
OUT = HERE.parents[1] / "memdb" / "search" / "answers.json"
SIZES = (0, 300)
LEAST_ASKED, LEAST_SHARE, LEAST_LEAN = 4, 0.02, 0.3
FOLDS, APART, LEAST_TRAINED = 5, -1, 52
FIRST = 3
UNTOLD = 6
REFUSED = (0.02, 0.05, 0.1, 0.2)
STEPS = 6
PENALTY = 1.0
OPEN = {"secrets_in_entries": "allow", "secrets_in_messages": "allow"}
# The signs that a weight may have: what speaks for a row never speaks against it.
FOR = frozenset(("known", "lead", "typed", "keywords", "statement_topics", "own"))
AGAINST = frozenset(("missing", "unknown", "crowd"))
# No sentence model is trained on: beside the weights with the table, a cosine as far above the others
# as that of an answer (0.3) makes up for what its words lack, and one of an unrelated row does not.
# `foreign`: of blind questions in German and French .20 are refused without it.
SENTENCE = {"lead": 12.0, "bias": -1.5, "foreign": 0.6}
# Of a question that this says is answered with such a probability, an answer is sure.
LEVEL = 0.75
MOST_REFUSED = {"statement": 0.01}


class Asked(NamedTuple):
    """
    A question and what relevance sees of its rows.

    Attributes:
        rows: `FACTS` of each row (and sentence), shape (n, facts).
        texts: Of the rows, as often.
        topics: What part of the topics each row holds, see `memdb.search.relevance.limited`.
        right: Those that answer.
        first: The first three.
        group: Source and size.
    """

    rows: np.ndarray
    texts: list[str]
    topics: list[float]
    right: frozenset[str]
    first: frozenset[str]
    kind: str
    shape: str
    group: str
    apart: bool


def notebooks() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield language and notebook of every file."""
    for path in sorted(DATA.glob("*notebooks-*.jsonl")):
        language = path.stem.rpartition("-")[2]
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.strip():
                yield language, json.loads(line)


def fold_of(book: dict[str, Any]) -> int:
    """Return a number below `FOLDS`; `APART` if the notebook is never trained on."""
    digest = sha256("".join(book["facts"]).encode()).digest()
    return APART if digest[0] < LEAST_TRAINED else digest[1] % FOLDS


def fillers() -> dict[str, list[str]]:
    """Return by language the sentences and statements that stand beside a notebook's facts."""
    found: dict[str, list[str]] = {}
    for path in sorted(DATA.glob("*-*.jsonl")):
        kind, language = path.stem.split("-")[1:3]
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line) if line.strip() else {}
            texts = {"sentences": [row.get("text")], "pairs": [row.get("older")]}.get(kind, [])
            found.setdefault(language, []).extend(text for text in texts if text)
    return {key: list(dict.fromkeys(texts)) for key, texts in found.items()}


def questions(without: int) -> dict[str, dict[bool, list[set[str]]]]:
    """
    Return by language the terms of each question, by whether it is about the world.

    Args:
        without: No notebooks of this fold, nor of those kept apart.
    """
    found: dict[str, dict[bool, list[set[str]]]] = {}
    for language, book in notebooks():
        if fold_of(book) in (without, APART):
            continue
        for ask in book["asks"]:
            if ask["shape"] == "question":
                terms = {term for word in query_words(ask["text"]) for term in words.terms_of(word)}
                kinds = found.setdefault(language, {False: [], True: []})
                kinds[ask["kind"] == "unrelated"].append(terms)
    return found


def asked_words() -> dict[str, dict[str, float]]:
    """Return by language the share of questions that hold a word, for the frequent ones."""
    found = {}
    for language, kinds in sorted(questions(APART).items()):
        every = kinds[False] + kinds[True]
        counted = Counter(term for terms in every for term in terms)
        if language != "en":
            found[language] = {
                word: round(count / len(every), 3)
                for word, count in sorted(counted.items(), key=lambda one: (-one[1], one[0]))
                if count >= LEAST_ASKED and count / len(every) >= LEAST_SHARE
            }
    return found


def leans(without: int) -> dict[str, dict[str, float]]:
    """Return by language how much a word of a question asks for what one tells of oneself."""
    found = {}
    for language, kinds in sorted(questions(without).items()):
        counts = {
            world: Counter(term for terms in kinds[world] for term in terms) for world in kinds
        }
        lean = {}
        for word in sorted(counts[False] | counts[True]):
            own, world = counts[False][word], counts[True][word]
            if own + world >= LEAST_ASKED:
                share = len(kinds[False]) / len(kinds[True])
                told = (own + share) / (len(kinds[False]) + 2 * share)
                value = math.log(told * (len(kinds[True]) + 2) / (world + 1))
                if abs(value) >= LEAST_LEAN:
                    lean[word] = round(value, 2)
        found[language] = dict(sorted(lean.items(), key=lambda one: (-one[1], one[0])))
    return found


def untold() -> dict[str, list[str]]:
    """Return by language the questions about oneself that no notebook answers."""
    found: dict[str, list[str]] = {}
    for line in (HERE / "untold.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found.setdefault(row["lang"], []).append(row["text"])
    return found


class Recorder:
    """Keeps the facts about the rows of the last answer."""

    def __init__(self) -> None:
        rank.relevance = self
        self.leans = {fold: leans(fold) for fold in range(APART, FOLDS)}
        self.learned: dict[str, Any] = {"asked": asked_words(), "own": self.leans[APART]}
        words.learned = lambda: self.learned  # questions are read with what is learned now
        self.facts: list[tuple[str, dict[str, float]]] = []
        self.rows: list[str] = []

    def __call__(self, query: Any, evidence: Any) -> relevance.Relevance:
        """Note the facts, and return a relevance that keeps every row."""
        if not evidence.rows:
            return relevance.NOTHING
        self.rows = [evidence.texts[key] for key in evidence.rows[: relevance.RELEVANT_ROWS]]
        facts = relevance.facts_of(query, evidence)
        self.facts = [(evidence.texts[key], of_row) for key, of_row in facts]
        return relevance.Relevance(1.0, {})

    def ask(self, scope: memdb.Scope, text: str, kind: str) -> None:
        """Ask without a least score."""
        self.facts, self.rows = [], []
        scope.recall(text, 10, kinds=(kind,), min_score=0.0, count_use=False)

    def asked(
        self, right: Iterable[str], kind: str, shape: str, group: str, *, apart: bool
    ) -> Asked:
        """Return what was noted."""
        table = [[facts[name] for name in relevance.FACTS] for _, facts in self.facts]
        texts = [text for text, _ in self.facts]
        rows = np.array(table) if table else np.zeros((0, len(relevance.FACTS)))
        topics = [facts["topics"] for _, facts in self.facts]
        first = frozenset(texts[:FIRST])
        return Asked(rows, texts, topics, frozenset(right), first, kind, shape, group, apart)


def ask_book(
    record: Recorder, scope: memdb.Scope, book: dict, kind: str, group: str
) -> Iterator[Asked]:
    """Yield the asks of a notebook."""
    fold = fold_of(book)
    record.learned["own"] = record.leans[fold]  # not learned from its own words
    apart = fold == APART
    for ask in book["asks"]:
        record.ask(scope, ask["text"], kind)
        right = (
            [book["facts"][place] for place in ask["facts"]] if ask["kind"] == "answerable" else []
        )
        yield record.asked(right, ask["kind"], ask["shape"], group, apart=apart)
    never = untold().get(group.partition(" ")[0], [])
    for text in random.Random("".join(book["facts"])).sample(never, min(UNTOLD, len(never))):
        record.ask(scope, text, kind)
        yield record.asked([], "untold", "question", group, apart=True)


def read_notebooks(record: Recorder, embedder: str | None) -> Iterator[Asked]:
    """Yield every ask of every notebook, alone and among others."""
    others = fillers()
    every = [text for texts in others.values() for text in texts]
    for place, (language, book) in enumerate(notebooks()):
        draw = random.Random(place)
        for size in SIZES:
            if size and place % 3:
                continue
            beside = list(others.get(language, [])) if size < SIZES[-1] else list(every)
            if size > len(beside):
                beside = list(every)
            texts = draw.sample(beside, min(size, len(beside))) + book["facts"]
            draw.shuffle(texts)
            with memdb.open(
                ":memory:", embedder=embedder, durability="process", settings=OPEN
            ) as db:
                chat = db.scope("user").session("s")
                chat.extend([{"role": "user", "text": text} for text in texts])
                db.jobs.run()
                group = f"{language} {size}"
                yield from ask_book(record, db.scope("user"), book, "message", group)
                if not size:
                    scope = db.scope("other")
                    for text in book["facts"]:
                        scope.remember(text)
                    db.jobs.run()
                    yield from ask_book(record, scope, book, "entry", f"{language} entry")
        print(".", end="", file=sys.stderr, flush=True)


def read_conversations(record: Recorder, embedder: str | None) -> Iterator[Asked]:
    """Yield the questions of our own conversations, and unrelated ones in each."""
    sys.path.insert(0, str(HERE.parent))
    import unrelated

    data = dataset.read(HERE.parent / "ranker" / "conversations.jsonl")
    more = (HERE.parent / "unrelated_more.txt").read_text(encoding="utf-8").splitlines()
    clock = measuring.Clock()
    record.learned["own"] = record.leans[APART]
    with memdb.open(":memory:", embedder=embedder, clock=clock, durability="process") as db:
        ready = measuring.filled(data, db, clock)
        for question in data.questions:
            scope = db.scope(question.scope, measuring.APP)
            clock.now_ms = question.asked_ms or ready.ends[question.scope]
            record.ask(scope, question.text, "message")
            hits = scope.recall(question.text, 10, kinds=("message",), min_score=0)
            pairs = zip(record.rows, hits, strict=False)
            wanted = set(question.evidence)
            right = [row for row, hit in pairs if hit.source.external_id in wanted]
            yield record.asked(right or [""], "answerable", "question", "chat", apart=False)
        for name, talks in data.sessions.items():
            clock.now_ms = ready.ends[name]
            person = unrelated.name_of(talks)
            for text in (*unrelated.CHOOSE, *more):
                record.ask(db.scope(name, measuring.APP), text.format(name=person), "message")
                yield record.asked([], "unrelated", "question", "chat", apart=False)


def fit(asks: list[Asked], steps: int) -> np.ndarray:
    """
    Return the weights that tell answered questions from unrelated ones.

    Of an answered question the right row counts, of another the one that scores best. Near
    misses are not learnt from: they hold more of a fact than a paraphrase does.
    """
    learned = np.zeros(len(relevance.FACTS))
    learned[relevance.FACTS.index("known")] = 0.5
    learned[relevance.FACTS.index("statement_topics")] = 1.0
    chosen = [
        (ask, bool(ask.right & ask.first))
        for ask in asks
        if len(ask.rows) and (ask.right & ask.first or ask.kind == "unrelated")
    ]
    sizes = Counter((ask.group, is_right) for ask, is_right in chosen)
    wanted = np.array([float(is_right) for _, is_right in chosen])
    cost = np.array([min(1.0, 60 / sizes[ask.group, is_right]) for ask, is_right in chosen])
    cost[wanted == 1] *= cost[wanted == 0].sum() / cost[wanted == 1].sum()
    for _ in range(steps):
        rows = []
        for ask, is_right in chosen:
            among = [at for at, key in enumerate(ask.texts) if key in ask.right or not is_right]
            rows.append(ask.rows[among[int(np.argmax(ask.rows[among] @ learned))]])
        learned = signed(np.array(rows), wanted, cost)
    learned[0] -= np.log(LEVEL / (1 - LEVEL))
    return calibrated(asks, learned)


def calibrated(asks: list[Asked], learned: np.ndarray) -> np.ndarray:
    """
    Return the weights so that of no sort of query more than `MOST_REFUSED` are refused.

    Of the answerable ones whose answer is among the first: a sort that is refused more often gets
    another weight of what is 1 for it.
    """
    least = math.log(relevance.POSSIBLE / (1 - relevance.POSSIBLE))
    own = {name: relevance.FACTS.index(name) for name in ("foreign", "statement", "keywords")}
    sorts: dict[str, list[float]] = {name: [] for name in ("bias", *own)}
    for ask in asks:
        if ask.right & ask.first:
            name = next((n for n in reversed(own) if ask.rows[0][own[n]]), "bias")
            sorts[name].append(float((ask.rows @ learned).max()))
    shifts = {
        name: max(0.0, least - float(np.quantile(values, MOST_REFUSED.get(name, 0.05))))
        for name, values in sorts.items()
    }
    for name, shift in shifts.items():
        base = {"bias": 0.0, "keywords": shifts["statement"]}.get(name, shifts["bias"])
        learned[relevance.FACTS.index(name)] += shift - base
    return learned


def signed(rows: np.ndarray, wanted: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Return the weights of a logistic regression; one of the wrong sign is left out."""
    names = [*relevance.FACTS]
    learned = np.zeros(len(names))
    kept = [*range(len(names))]
    while True:
        learned[:] = 0
        learned[kept] = newton(rows[:, kept], wanted, cost)
        wrong = [
            at
            for at in kept
            if (names[at] in FOR and learned[at] < 0) or (names[at] in AGAINST and learned[at] > 0)
        ]
        if not wrong:
            return learned
        kept = [at for at in kept if at not in wrong]


def newton(rows: np.ndarray, wanted: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Return the weights of a logistic regression with an L2 penalty on all but the bias."""
    penalty = np.full(rows.shape[1], PENALTY)
    penalty[0] = 1e-6
    learned = np.zeros(rows.shape[1])
    for _ in range(40):
        sure = 1 / (1 + np.exp(-np.clip(rows @ learned, -30, 30)))
        slope = rows.T @ (cost * (wanted - sure)) - penalty * learned
        bend = (rows * (cost * sure * (1 - sure))[:, None]).T @ rows + np.diag(penalty)
        step = np.linalg.solve(bend, slope)
        learned = learned + step
        if np.abs(step).max() < 1e-6:
            break
    return learned


def score_of(ask: Asked, learned: np.ndarray) -> float:
    """Return the relevance of an answer, as `memdb.search.relevance` has it."""
    if not len(ask.rows):
        return 0.0
    place = int(np.argmax(ask.rows @ learned))
    best = ask.rows[place]
    facts = dict(zip(relevance.FACTS, best, strict=True)) | {"topics": ask.topics[place]}
    return relevance.limited(1 / (1 + float(np.exp(-(best @ learned)))), facts)


def report(asks: list[Asked], learned: np.ndarray, title: str) -> None:
    """Print what is sure, unsure and none by kind and size."""
    print(title)
    groups: dict[tuple[str, str, str], list[tuple[float, bool]]] = {}
    for ask in asks:
        score = score_of(ask, learned)
        size = ask.group.rpartition(" ")[2]
        language = "en" if ask.group.startswith("en ") else "other"
        key = (language if size != "chat" else "", size, ask.kind)
        groups.setdefault(key, []).append((score, bool(ask.right & ask.first)))
    for (language, size, kind), found in sorted(groups.items()):
        n = len(found)
        sure = sum(score >= relevance.SURE for score, _ in found) / n
        right = sum(score >= relevance.SURE and is_right for score, is_right in found) / n
        none = sum(score < relevance.POSSIBLE for score, _ in found) / n
        ranked = sum(is_right for _, is_right in found) / n
        print(
            f"  {language:5} {size:6} {kind:10} n={n:5} sure {sure:.2f} (right {right:.2f})"
            f" none {none:.2f} ranked {ranked:.2f}"
        )


def report_curve(asks: list[Asked], learned: np.ndarray) -> None:
    """Print what share of unanswerable questions is none if so many answered ones are refused."""
    scores: dict[str, list[float]] = {}
    for ask in asks:
        if ask.shape == "question" and (ask.kind != "answerable" or ask.right & ask.first):
            scores.setdefault(ask.kind, []).append(score_of(ask, learned))
    bars = np.quantile(scores.pop("answerable"), REFUSED)
    for kind, found in sorted(scores.items()):
        shares = " ".join(f"{np.mean(np.array(found) < bar):.2f}" for bar in bars)
        print(f"  {kind:10} none where {REFUSED} are refused: {shares}")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--judge", action="store_true", help="train and report, write nothing")
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    learned: dict[str, Any] = {"made_by": "python -m bench.answers.train", "tables": {}}
    record = Recorder()
    for table, embedder in (("static", "static"), ("words", None)):
        asks = [*read_notebooks(record, embedder), *read_conversations(record, embedder)]
        found = fit([ask for ask in asks if not ask.apart], given.steps)
        learned["tables"][table] = {
            name: round(float(weight), 4)
            for name, weight in zip(relevance.FACTS, found, strict=True)
            if weight
        }
        print(learned["tables"][table])
        apart = [ask for ask in asks if ask.apart or ask.group == "chat"]
        report(apart, found, f"{table}: apart")
        report_curve([ask for ask in apart if ask.group != "chat"], found)
    learned |= record.learned
    static = learned["tables"]["static"]
    learned["tables"]["sentence"] = static | {
        name: round(static.get(name, 0.0) + more, 4) for name, more in SENTENCE.items()
    }
    if not given.judge:
        OUT.write_text(json.dumps(learned, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
