"""
What a context is worth, and what it costs.

    python bench/context.py [--useful] [--cost] [--unsummarised] [--gap] [--folder DIR]

Useful: each LoCoMo conversation becomes one session; for each question the share
of its evidence turns that stand word for word in `context(budget, query)`, beside
the same for the newest messages alone. No model takes part. The data set is not
part of memdb: evaluation only (CC BY-NC 4.0).

Cost: a session of 10,000 and one of 100,000 messages, appended one at a time
where it says so; summaries made, time per append at the start and at the end,
time per context with and without a question.

Unsummarised: the CPU time of the first contexts after messages were added at once.

Gap: what contexts show of 2,760 messages before and after the jobs summarised them.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path
from statistics import mean, median
from unittest import mock

import corpus
import locomo_data
import units

import memdb
from memdb.adapters.host import Host
from memdb.summaries.builder import Summaries

BUDGETS = (2_000, 4_000, 8_000)


def useful(folder: Path) -> None:
    """Print the mean share of evidence turns that each budget shows."""
    shown: dict[tuple[str, int], list[float]] = {}
    over = 0
    took_ms = []
    with tempfile.TemporaryDirectory() as place:
        for path in locomo_data.files(folder):
            with memdb.open(f"{place}/{path.stem}.db", durability="process") as db:
                scope = db.scope("them")
                locomo_data.load(scope, path, session="all")
                db.jobs.run()
                chat = scope.session("all")
                known = {one.external_id for one in chat.messages()}
                asked = locomo_data.questions(path, known)
                for budget in BUDGETS:
                    recent = seen(Host(chat).window(budget_tokens=budget), chat)
                    for question, _, evidence in asked:
                        start = time.perf_counter()
                        window = chat.context(budget, question)
                        took_ms.append((time.perf_counter() - start) * 1000)
                        over += window.tokens > budget
                        for name, got in (("context", seen(window, chat)), ("recent", recent)):
                            share = len(evidence & got) / len(evidence)
                            shown.setdefault((name, budget), []).append(share)
    for (name, budget), shares in sorted(shown.items()):
        print(f"{name:8} {budget:6} tokens: {sum(shares) / len(shares):.3f}  n={len(shares)}")
    print(f"over budget: {over}; context p50 {median(took_ms):.1f} ms")


def seen(window: memdb.ContextWindow, chat: memdb.Session) -> set[str | None]:
    """Return the external ids of the messages that stand in *window* word for word."""
    whole = {one.external_id for one in window.messages if one.seq}
    text = "\n".join(one.text for one in window.messages if not one.seq)
    for piece in window.pieces:
        if piece.kind == "recalled":
            assert piece.first_seq is not None
            message = chat.get(piece.first_seq)
            assert message.text in text
            whole.add(message.external_id)
    return whole


def cost(sizes: tuple[int, ...]) -> None:
    """Print what appending and asking for contexts costs."""
    with tempfile.TemporaryDirectory() as place:
        for size in sizes:
            with memdb.open(f"{place}/{size}.db", durability="process") as db:
                one_by_one = size <= 10_000
                chat = db.scope("ann").session("long")
                texts = corpus.texts(size, seed=7)
                append_ms = fill(chat, texts, one_by_one=one_by_one)
                start = time.perf_counter()
                db.jobs.run()
                pending_s = time.perf_counter() - start
                tree = chat.summaries.tree()
                expected = sum(size / share for share in (10, 30, 90, 270))
                print(
                    f"{size} messages: {len(tree.summaries)} nodes, {expected:.0f} by the formula"
                )
                print(f"  embedding and summarising: {pending_s:.1f} s")
                if one_by_one:
                    tenth = size // 10
                    first, last = median(append_ms[:tenth]), median(append_ms[-tenth:])
                    print(f"  append p50: {first:.3f} -> {last:.3f} ms, {last / first:.2f} x")
                rng = random.Random(3)
                asked = [" ".join(rng.choice(texts).split()[:6]) for _ in range(40)]
                for budget in BUDGETS:
                    print(f"  context({budget}): {timed(chat, budget, [None] * 40)}")
                    print(f"  context({budget}, query): {timed(chat, budget, asked)}")


def unsummarised(sizes: tuple[int, ...]) -> None:
    """Print what the first contexts after an import cost, a message added before each."""
    for size in sizes:
        with (
            tempfile.TemporaryDirectory() as place,
            memdb.open(f"{place}/{size}.db", durability="process") as db,
        ):
            chat = db.scope("ann").session("long")
            for first in range(0, size, 1_000):
                fill(chat, corpus.texts(1_000, seed=first), one_by_one=False)
            took_ms = []
            for number in range(16):
                start = time.thread_time()
                chat.context(4_000)
                took_ms.append((time.thread_time() - start) * 1000)
                units.turn()
                chat.append("user", f"Again, about {number}.")
            print(
                f"{size} messages without a summary: context(4000) first {took_ms[0]:.1f} ms, "
                f"then p50 {median(took_ms[1:]):.1f} ms, max {max(took_ms[1:]):.1f} ms of CPU"
            )


def gap(folder: Path) -> None:
    """Print what contexts of five conversations in one session show, summarised and not."""
    said: dict[str, str] = {}
    asked: list[tuple[str, str, set[str]]] = []
    with tempfile.TemporaryDirectory() as place:
        with memdb.open(f"{place}/b.db", durability="process") as db:
            chat = db.scope("them").session("all")
            for path in locomo_data.files(folder):
                alone = db.scope(path.stem).session("all")
                locomo_data.load(db.scope(path.stem), path, session="all")
                turns = [
                    memdb.NewMessage(
                        one.role,
                        one.text,
                        author=one.author,
                        external_id=f"{path.stem} {one.external_id}",
                        created_ms=one.created_ms,
                    )
                    for one in alone.messages()
                ]
                chat.extend(turns)
                said |= {str(one.external_id): one.text for one in turns}
                known = {key.removeprefix(f"{path.stem} ") for key in said}
                asked += [
                    (text, group, {f"{path.stem} {one}" for one in evidence})
                    for text, group, evidence in locomo_data.questions(path, known)
                ]
        for name, drain in (("no summaries", lambda *_: 0), ("summarised", Summaries.drain)):
            with memdb.open(f"{place}/b.db", durability="process") as db:
                chat = db.scope("them").session("all")
                with mock.patch.object(Summaries, "drain", drain):
                    if name == "summarised":
                        db.jobs.run()
                    else:
                        with mock.patch.object(Summaries, "run_pending", return_value=(0, None)):
                            db.jobs.run()
                    print(name, len(said), "messages,", _shares(chat, asked[::3], said))


def _shares(
    chat: memdb.Session, asked: list[tuple[str, str, set[str]]], said: dict[str, str]
) -> str:
    """Return the shares of evidence turns and of their words that contexts of 4,000 show."""
    plain = chat.context(4_000)
    parts = []
    for name in ("with the question", "without"):
        turns, shown = [], []
        for question, _, evidence in asked:
            window = plain if name == "without" else chat.context(4_000, question)
            words = set("\n".join(one.text for one in window.messages).lower().split())
            told = {word for one in evidence for word in said[one].lower().split()}
            turns.append(len(evidence & seen(window, chat)) / len(evidence))
            shown.append(len(told & words) / len(told))
        parts.append(f"{name}: turns {sum(turns) / len(turns):.3f} words {mean(shown):.3f}")
    return "; ".join(parts)


def fill(chat: memdb.Session, texts: list[str], *, one_by_one: bool) -> list[float]:
    """Add *texts* to a session in turns of two speakers; return the time of each append, in ms."""
    roles = ("user", "assistant")
    if not one_by_one:
        chat.extend([memdb.NewMessage(roles[n % 2], text) for n, text in enumerate(texts)])
        return []
    took = []
    for number, text in enumerate(texts):
        start = time.perf_counter()
        chat.append(roles[number % 2], text)
        took.append((time.perf_counter() - start) * 1000)
    return took


def timed(chat: memdb.Session, budget: int, queries: list[str | None]) -> str:
    """Return p50 and p99 of a context for each of *queries*."""
    took = []
    for query in queries:
        start = time.thread_time()
        chat.context(budget, query)
        took.append((time.thread_time() - start) * 1000)
        units.turn()
    took.sort()
    return f"p50 {median(took):.1f} ms, p99 {took[-1]:.1f} ms"


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--useful", action="store_true")
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--unsummarised", action="store_true")
    parser.add_argument("--gap", action="store_true")
    parser.add_argument("--folder", type=Path, default=locomo_data.FOLDER)
    given = parser.parse_args()
    both = not (given.useful or given.cost or given.unsummarised or given.gap)
    if (given.useful or both) and not locomo_data.files(given.folder):
        print(f"no conversations in {given.folder.name}: give --folder")
    elif given.useful or both:
        useful(given.folder)
    if given.gap and locomo_data.files(given.folder):
        gap(given.folder)
    if given.cost or both:
        cost((10_000, 100_000))
    if given.unsummarised or both:
        unsummarised((1_000, 10_000, 100_000))
    print(units.line())


if __name__ == "__main__":
    main()
