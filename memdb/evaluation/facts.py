"""
Measure learning: tell the statements of a data set, ask for them, read its chats.

Each case is stored twice: in memory as it is, and in the baseline "add all", which keeps every
statement and links none. A case has a scope of its own, or shares one with
so many others that it stands in a crowd. No answer is judged by a model: a hit is of a statement
if it comes from it, and holds for its words (`facts_set.Case`).
"""

from __future__ import annotations

import os
import platform
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import memdb
from memdb.entries.categories import BUILT_IN
from memdb.evaluation.facts_set import CHANGES, NONE, REPEATS
from memdb.evaluation.measuring import Clock
from memdb.models.messages import NewMessage
from memdb.models.record import Record
from memdb.models.settings import MAX_QUOTA
from memdb.records.links import SURE_LINK
from memdb.text.validate import DAY_MS, MINUTE_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from memdb.api.scope import Scope
    from memdb.evaluation.facts_set import Case, Chat, FactSet
    from memdb.models.entries import Entry, EntryVersion, Link
    from memdb.models.messages import Hit
    from memdb.models.protocols import Embedder

APP = "bench"
START_MS = 1_767_225_600_000  # 2026-01-01
FIRST = 3
SHOWN = 10

MEASURES = (
    "lost",
    "current first",
    "outdated marked",
    "repetition shown once",
    "wrong link above .8",
    "chat: lost",
    "chat: current first",
    "chat: outdated marked",
    "learnt of listed facts",
    "listed of learnt facts",
    "sure link of two facts",
    "learnt of what is none",
    "learnt of traps",
)
"""In the order of the report."""

JUDGES = ("lost", "chat: lost")
"""What must not be worse than with every statement kept."""


class Result(Record):
    """
    One judged case.

    Attributes:
        arm: Name of the embedder, or "words".
        alone: Whether every statement was kept and none linked.
        kind: Kind of the case, category of the fact, or why a text is a trap.
        holds: Whether what *measure* names is so.
    """

    arm: str
    alone: bool
    measure: str
    lang: str
    kind: str
    case: str
    holds: bool

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {name: getattr(self, name) for name in self._fields}


class Shown(Record):
    """A hit of a case: whether it is of what holds, and whether it is marked as outdated."""

    current: bool
    marked: bool


def run(
    data: FactSet,
    embedders: Mapping[str, Embedder | str | None],
    *,
    crowd: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> Iterator[Result]:
    """
    Yield every judged case.

    Args:
        embedders: As in `memdb.open`, by the name of their arm, one or more.
        crowd: About how many statements share a scope; 0: those of a case have one alone.
        progress: Called with how many steps are done, and of how many.

    Raises:
        PortError: an embedder failed.
    """
    groups = _grouped(data.cases, crowd)
    total = 2 * len(embedders) * len(groups) + len(data.chats) + len(data.traps)
    for done, step in enumerate(_steps(data, groups, embedders), start=1):
        yield from step
        if progress is not None:
            progress(done, total)


def _steps(
    data: FactSet, groups: list[list[Case]], embedders: Mapping[str, Embedder | str | None]
) -> Iterator[list[Result]]:
    for name, embedder in embedders.items():
        for alone in (False, True):
            with _opened(embedder, alone=alone) as place:
                for group in groups:
                    judged = [*_remembered(place, group), *_chatted(place, group)]
                    yield [
                        Result(name, alone, measure, case.lang, case.kind, case.id, holds)
                        for case, measure, holds in judged
                    ]
    arm = next(iter(embedders))
    with _opened(None, alone=False) as place:
        for chat in data.chats:
            yield [
                Result(arm, False, measure, chat.lang, kind, chat.id, holds)
                for measure, kind, holds in _learnt(place, chat)
            ]
        for trap in data.traps:
            message = NewMessage("user", trap.text, created_ms=START_MS)
            learnt = bool(_extracted(place, trap.id, [message]))
            yield [Result(arm, False, "learnt of traps", trap.lang, trap.kind, trap.id, learnt)]


class _Place(Record):
    """An open file; *alone* means that it keeps every statement and links none."""

    db: memdb.MemDB
    clock: Clock
    alone: bool


@contextmanager
def _opened(embedder: Embedder | str | None, *, alone: bool) -> Iterator[_Place]:
    with tempfile.TemporaryDirectory(prefix="memdb-bench-") as folder:
        path, clock = os.path.join(folder, "bench.db"), Clock()
        clock.now_ms = START_MS
        with memdb.open(path, durability="process", embedder=embedder, clock=clock) as db:
            db.settings.update(entry_quota=MAX_QUOTA)  # what is evicted is not lost by a guess
            if alone:
                db.settings.update(categories=[one.replace(merge="never") for one in BUILT_IN])
            yield _Place(db, clock, alone)


def _grouped(cases: Sequence[Case], crowd: int) -> list[list[Case]]:
    """Return the cases that share a scope, those of a language side by side."""
    ordered = sorted(cases, key=lambda case: case.lang) if crowd else cases
    count = max(1, 2 * len(ordered) // crowd) if crowd else len(ordered)
    size = -(-len(ordered) // count) if count else 1
    return [list(ordered[start : start + size]) for start in range(0, len(ordered), size)]


def _remembered(place: _Place, group: list[Case]) -> Iterator[tuple[Case, str, bool]]:
    """Store the cases of a scope by `remember`, then ask for each."""
    scope = place.db.scope(f"told {group[0].id}", APP)
    told: dict[int, dict[str, int]] = {}
    stored: set[str] = set()
    for case, which in _in_order(place, group):
        done = scope.remember(case.statements[which])
        told.setdefault(done.entry.id, {}).setdefault(case.id, which)
        if told[done.entry.id][case.id] == which == 1:
            stored.add(case.id)

    def which_of(hit: Hit, case: Case) -> int | None:
        return told.get(hit.source.entry_id or 0, {}).get(case.id)

    if not place.alone:
        yield from _linked(scope, group, told)
    for case, measure, holds in _asked(place, scope, group, which_of):
        is_swallowed = case.effect == NONE and case.id not in stored
        yield case, measure, holds or (measure == "lost" and is_swallowed)


def _linked(
    scope: Scope, group: list[Case], stated: Mapping[int, Mapping[str, int]]
) -> Iterator[tuple[Case, str, bool]]:
    """Yield for each case whether a sure link between its statements is wrong."""
    wrong: set[str] = set()
    for link in _links(scope):
        same = stated.get(link.newer_id, {}).keys() & stated.get(link.older_id, {}).keys()
        if link.probability >= SURE_LINK:
            wrong |= {case.id for case in group if case.id in same and _is_wrong(case, link.kind)}
    for case in group:
        yield case, "wrong link above .8", case.id in wrong


def _is_wrong(case: Case, kind: str) -> bool:
    """Return whether a link of *kind* is none that the case has; kinds of change are one."""
    return case.effect != ("changes" if kind in CHANGES else kind)


def _links(scope: Scope) -> list[Link]:
    """Return the guessed links of a scope, each once."""
    links = [link for entry in scope.entries.list(inactive=True) for link in _older(scope, entry)]
    return [link for link in links if link.decided == "guessed"]


def _older(scope: Scope, entry: Entry) -> list[Link]:
    return [link for link in scope.entries.links(entry.id) if link.newer_id == entry.id]


def _chatted(place: _Place, group: list[Case]) -> Iterator[tuple[Case, str, bool]]:
    """Store the cases of a scope in conversations, learn from them unless alone, then ask."""
    group = [case for case in group if case.said]
    if not group:
        return
    scope = place.db.scope(f"said {group[0].id}", APP)
    told: dict[str, tuple[str, int]] = {}
    for case, which in _in_order(place, group):
        session = scope.session(f"{case.id} {which}")
        told[session.name] = case.id, which
        session.append("user", case.said[which])
        if not place.alone:
            session.extract()

    def which_of(hit: Hit, case: Case) -> int | None:
        name, which = told.get(hit.source.session or "", ("", None))
        return which if name == case.id else None

    for case, measure, holds in _asked(place, scope, group, which_of):
        if case.effect != REPEATS:
            yield case, f"chat: {measure}", holds


def _in_order(place: _Place, group: list[Case]) -> Iterator[tuple[Case, int]]:
    """Yield each case with the number of its statement, and set the clock to its time."""
    for minute, case in enumerate(group):
        place.clock.now_ms = START_MS + minute * MINUTE_MS
        yield case, 0
    later_ms = START_MS + len(group) * MINUTE_MS
    for minute, case in enumerate(sorted(group, key=lambda case: case.days)):
        place.clock.now_ms = later_ms + minute * MINUTE_MS + case.days * DAY_MS
        yield case, 1


def _asked(
    place: _Place, scope: Scope, group: list[Case], which_of: Callable[[Hit, Case], int | None]
) -> Iterator[tuple[Case, str, bool]]:
    """Ask the question of each case a day after the last statement, and judge the answers."""
    place.clock.now_ms += DAY_MS
    place.db.jobs.run(kinds=("embed",))
    if place.alone:
        for link in _links(scope):
            scope.entries.unlink(link.newer_id, link.older_id)
    for case in group:
        hits = scope.recall(case.question, SHOWN)
        if hits.failure is not None:
            raise hits.failure
        shown: list[Shown | None] = []
        for hit in hits:
            which = which_of(hit, case)
            current = None if which is None else _is_current(case, which, hit.text)
            marked = hit.outdated_by is not None
            shown.append(None if current is None else Shown(current, marked))
        for measure, holds in judged(case, shown):
            yield case, measure, holds


def _is_current(case: Case, which: int, text: str) -> bool | None:
    """Return whether a text of a case says what holds; None if it says neither."""
    if case.current:
        folded = text.casefold()
        return True if case.current in folded else False if case.stale in folded else None
    return which == (0 if case.effect == NONE else 1) or case.effect == REPEATS


def judged(case: Case, shown: Sequence[Shown | None]) -> Iterator[tuple[str, bool]]:
    """
    Yield what is measured of an answer, and whether it is so.

    Args:
        shown: What the hits are, best first; None for one that is of no statement of the case.
    """
    top = [one for one in shown[:FIRST] if one is not None]
    changes = case.effect == "changes"
    yield "lost", not any(one.current or changes for one in top)
    if case.effect == REPEATS:
        yield "repetition shown once", sum(one is not None for one in shown) == 1
    if changes or case.current:
        taken_back = case.kind == "retracts" and bool(top) and top[0].marked
        yield "current first", taken_back or (bool(top) and top[0].current)
    stale = [one for one in top if not one.current]
    if changes and stale:
        yield "outdated marked", all(one.marked for one in stale)


def _learnt(place: _Place, chat: Chat) -> Iterator[tuple[str, str, bool]]:
    """Learn from a chat; yield (measure, kind, whether it is so)."""
    said = [
        NewMessage(one.role, one.text, author=one.author, created_ms=one.created_ms)
        for one in chat.messages
    ]
    learnt = _extracted(place, chat.id, said)
    found = [*learnt.values()]
    listed = frozenset().union(*(fact.seqs for fact in chat.facts))
    for fact in chat.facts:
        yield "learnt of listed facts", fact.kind, any(seqs & fact.seqs for seqs in found)
    for seqs in found:
        yield "listed of learnt facts", "", bool(seqs & listed)
    facts_of = {
        entry_id: {number for number, fact in enumerate(chat.facts) if seqs & fact.seqs}
        for entry_id, seqs in learnt.items()
    }
    for link in _links(place.db.scope(chat.id, APP)):
        newer, older = facts_of[link.newer_id], facts_of[link.older_id]
        if link.probability >= SURE_LINK and newer and older:
            yield "sure link of two facts", link.kind, not newer & older
    for one in chat.never:
        if one.seqs - listed:  # else the message holds a fact too
            is_learnt = any(seqs & (one.seqs - listed) for seqs in found)
            yield "learnt of what is none", one.kind, is_learnt


def _extracted(place: _Place, name: str, said: list[NewMessage]) -> dict[int, frozenset[int]]:
    """Return the entries learnt from a conversation, with the numbers of their messages."""
    place.clock.now_ms = max(one.created_ms or 0 for one in said) + MINUTE_MS
    scope = place.db.scope(name, APP)
    session = scope.session("chat")
    session.extend(said)
    session.extract()
    found = {}
    for entry in scope.entries.list(inactive=True):
        versions: list[Entry | EntryVersion] = [entry, *scope.entries.history(entry.id)]
        spans = ((one.first_seq or 0, one.last_seq or -1) for one in versions)
        found[entry.id] = frozenset(seq for low, high in spans for seq in range(low, high + 1))
    return found


def report(data: FactSet, results: Iterable[Result], crowd: int) -> dict[str, Any]:
    """
    Return configuration and shares: of all cases, by language and by kind.

    Equal for equal results. A row has the share for memdb and for "add all", None where
    that has none.
    """
    cells: dict[tuple[str, str, str, str], dict[bool, list[bool]]] = {}
    for one in results:
        for by, group in (("all", "all"), ("lang", one.lang), ("kind", one.kind)):
            if not group:
                continue
            key = (one.measure, by, group, one.arm)
            cells.setdefault(key, {}).setdefault(one.alone, []).append(one.holds)
    order = {name: place for place, name in enumerate(MEASURES)}
    places = {name: place for place, name in enumerate(("all", "lang", "kind"))}
    rows: list[dict[str, Any]] = [
        {
            "measure": measure,
            "by": by,
            "group": group,
            "arm": arm,
            "cases": len(found.get(False, found.get(True, []))),
            "memdb": _share(found.get(False)),
            "add_all": _share(found.get(True)),
        }
        for (measure, by, group, arm), found in cells.items()
    ]
    rows.sort(key=lambda row: (order[row["measure"]], places[row["by"]], row["group"]))
    return {
        "configuration": {
            "memdb": memdb.__version__,
            "data": {"name": data.name, "sha256": data.digest, **data.counts},
            "crowd": crowd,
            "python": platform.python_version(),
            "machine": platform.machine(),
        },
        "results": rows,
        "worse": [
            row
            for row in rows
            if row["by"] == "all"
            and row["measure"] in JUDGES
            and (row["memdb"] or 0) > (row["add_all"] or 0)
        ],
    }


def _share(holds: list[bool] | None) -> float | None:
    return sum(holds) / len(holds) if holds else None


LABEL, COUNT, CELL = 26, 5, 8


def text(found: dict[str, Any]) -> list[str]:
    """Return the report as lines of at most 80 columns for a person, with three arms at most."""
    made, rows = found["configuration"], found["results"]
    data = made["data"]
    counts = ", ".join(f"{data[key]:,} {key}" for key in data if key not in ("name", "sha256"))
    crowd = f"crowd of {made['crowd']:,}" if made["crowd"] else "each case alone"
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    lines = [
        f"memdb {made['memdb']}, Python {made['python']}, {crowd}",
        f"{data['name']} (sha256 {data['sha256'][:12]})",
        counts,
        "",
        " " * (LABEL + COUNT) + "".join(f"{arm[: 2 * CELL - 2]:>{2 * CELL}}" for arm in arms),
        " " * LABEL + f"{'n':>{COUNT}}" + f"{'memdb':>{CELL}}{'add all':>{CELL}}" * len(arms),
    ]
    cells: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault((row["measure"], row["by"], row["group"]), {})[row["arm"]] = row
    for (measure, by, group), line in cells.items():
        label = measure if by == "all" else f"  {group}"
        count = max(row["cases"] for row in line.values())
        shares = [
            _percent(line[arm][name] if arm in line else None)
            for arm in arms
            for name in ("memdb", "add_all")
        ]
        lines.append(f"{label[:LABEL]:{LABEL}}{count:>{COUNT}}{''.join(shares)}".rstrip())
    return lines


def _percent(share: float | None) -> str:
    return " " * CELL if share is None else f"{100 * share:>{CELL - 2}.1f} %"
