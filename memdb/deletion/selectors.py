"""
Selectors: what a removal names, and everything that goes with it.

`delete` and `forget` take the same selectors. Every function that reads joins
the caller's transaction.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from memdb.deletion.written import find_written
from memdb.engine.branches import descendants, rows_sharing, runs_of, split_seqs
from memdb.engine.full_text import postings_in
from memdb.engine.text_rows import ARTIFACT_KINDS, PLACES, rows_holding
from memdb.errors import InvalidInput, existing
from memdb.items.walk import list_ids, list_request
from memdb.models.ids import (
    BRANCH_MARK,
    MAX_INT,
    MAX_NUMBER,
    MAX_SEQ,
    BranchName,
    branch_of,
    is_branch,
    scope_of,
    scope_range,
    seq_of,
    session_no_of,
    session_of,
    session_range,
)
from memdb.models.record import Record
from memdb.records import artifacts as artifact_records
from memdb.records import items as item_records
from memdb.records.scopes import find_session
from memdb.tables import artifacts as artifact_rows
from memdb.tables import (
    entries,
    entry_history,
    items,
    messages,
    scopes,
    sessions,
    summaries,
)
from memdb.tables.artifacts import Place
from memdb.text.terms import (
    content_words,
    cut_numbers,
    phrase_terms,
    query_words,
    quoted_runs,
    word_terms,
)
from memdb.text.validate import flag_value, int_value, list_value, name_value, text_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from memdb.engine.base import Row, Tx
    from memdb.engine.text_rows import Ref
    from memdb.models.summaries import Summary
    from memdb.records.scopes import ScopeRef
    from memdb.summaries.summarizer import Made
    from memdb.text.terms import Term

    Found = tuple[ScopeRef, "Selection"]  # a scope, and what goes of it

NO_SPAN = (1, 0)  # of no scope

# Most words of a query: more would be a text, not what it is about.
MAX_WORDS = 64

# Items that are read at a time.
ITEMS_AT_ONCE = 500


class Selector(Record):
    """
    Selection of rows to remove from a scope; made by `select`, which checks it.

    Attributes:
        what: "entry", "messages", "session", "query", "person", "everything" or "writer".
        entry: Id of an entry.
        session: Name of a session; with a query, only this one is searched.
        seqs: Of messages of the session.
        last: How many of its newest messages.
        before_ms: Only messages of the session that were written before this time.
        terms: Of the query or the name: each word, and each run of words in quotes.
        query: The query, or the name of the person or writer, as it was given.
        since_ms: Only what the writer stored since this time.
        artifacts: Also artifacts and old versions that contain the words, or that the messages
            saved.
        force: Remove also branches that start from it.
    """

    what: str
    entry: int = 0
    session: str = ""
    seqs: tuple[int, ...] | None = None
    last: int | None = None
    before_ms: int | None = None
    terms: tuple[Term, ...] = ()
    query: str = ""
    artifacts: bool = False
    force: bool = False
    since_ms: int = 0

    def subject(self, owner: ScopeRef) -> str:
        """Return what the receipt contains the hash of."""
        if self.what == "everything":
            return f"{owner.app}\n{owner.user}"
        if isinstance(self.session, BranchName):
            name = f"{self.session}{BRANCH_MARK}{self.session.branch}"
            return self.replace(session=name).subject(owner)
        if self.seqs is not None:
            return f"{self.session}#{','.join(map(str, self.seqs))}"
        if self.what == "messages":
            return f"{self.session}#last={self.last},before={self.before_ms}"
        if self.what == "query" and self.session:
            return f"{self.session}#{self.query}"
        return {"entry": str(self.entry), "session": self.session}.get(self.what, self.query)


def select(
    *,
    entry: int | None = None,
    session: str | None = None,
    seqs: int | Iterable[int] | None = None,
    query: str | None = None,
    person: str | None = None,
    everything: bool = False,
    artifacts: bool = False,
) -> Selector:
    """
    Return the selector that these arguments name.

    Raises:
        InvalidInput: not exactly one of *entry*, *session*, *query*, *person* and
            *everything* is given; *seqs* without a session; or one is invalid.
    """
    flag_value(everything, "everything")
    flag_value(artifacts, "artifacts")
    named = {"entry": entry, "session": session, "query": query, "person": person}
    given = [name for name, value in named.items() if value is not None]
    given += ["everything"] if everything else []
    if len(given) != 1:
        chosen = f"{' and '.join(given)} contradict each other" if given else "none is given"
        names = f"{', '.join(named)} and everything"
        raise InvalidInput(f"{chosen}: to remove something, give one of {names}")
    if seqs is not None and session is None:
        raise InvalidInput("seqs is given without session: give the session too")
    if entry is not None:
        return Selector("entry", entry=int_value(entry, "entry", 0, MAX_NUMBER))
    if query is not None:
        return Selector("query", terms=_terms_of(query), query=query, artifacts=artifacts)
    if person is not None:
        return Selector("person", terms=_terms_of(person, "person"), query=person)
    if everything:
        return Selector("everything", artifacts=True)
    return select_in(name_value(session, "session"), seqs=seqs, artifacts=artifacts)


def select_in(
    session: str,
    *,
    seqs: int | Iterable[int] | None = None,
    last: int | None = None,
    before_ms: int | None = None,
    query: str | None = None,
    artifacts: bool = False,
    force: bool = False,
) -> Selector:
    """
    Return the selector of the session as a whole, or of what these arguments name in it.

    Raises:
        InvalidInput: more than one of *seqs*, *last*, *before_ms* and *query* is
            given, or one is invalid.
    """
    flag_value(artifacts, "artifacts")
    flag_value(force, "force")
    selectors = {"seqs": seqs, "last": last, "before": before_ms, "query": query}
    given = [name for name, value in selectors.items() if value is not None]
    if len(given) > 1:
        raise InvalidInput(f"{' and '.join(given)} contradict each other: give one of them")
    if not given:
        return Selector("session", session=session, artifacts=artifacts, force=force)
    if query is not None:
        terms = _terms_of(query)
        return Selector("query", session=session, terms=terms, query=query, artifacts=artifacts)
    chosen = None
    if seqs is not None:
        wanted = [seqs] if isinstance(seqs, int) else list_value(seqs, "seqs")
        chosen = tuple(sorted({int_value(seq, "seqs", 1, MAX_SEQ) for seq in wanted}))
    return Selector(
        "messages",
        session=session,
        seqs=chosen,
        last=None if last is None else int_value(last, "last", 1, MAX_SEQ),
        before_ms=before_ms,
        artifacts=artifacts,
    )


def select_written(writer: str, since_ms: int | None) -> Selector:
    """Return the selector of what a writer stored since a time; None means always."""
    since_ms = -MAX_INT if since_ms is None else since_ms
    return Selector("writer", query=name_value(writer, "writer"), since_ms=since_ms)


class Part(Record):
    """
    Messages of a session: its id and name, and their seqs.

    Attributes:
        over: Seqs of messages that stay, and whose summaries are rewritten.
    """

    session: int
    name: str
    seqs: tuple[int, ...]
    over: tuple[int, ...] = ()

    @property
    def ids(self) -> list[int]:
        """The ids of the messages."""
        return [self.session | seq for seq in self.seqs]


class Rewriting(Record):
    """
    The new texts of the summaries over some messages.

    Attributes:
        seqs: Seqs of the messages that are forgotten.
        summaries: As they are, each with its new text; None for one that is
            pruned, which stays so.
        left: The ids of the messages that the leaves among them keep.
    """

    seqs: tuple[int, ...]
    summaries: tuple[tuple[Summary, Made | None], ...]
    left: tuple[int, ...]


class Selection(Record):
    """
    Rows that a selector names in the file now.

    Attributes:
        parts: Sessions that lose some messages.
        whole: (id, name) of sessions that go as a whole.
        entries: Ids.
        versions: (entry, version, text, keywords, metadata) of entries that stay.
        artifacts: Names that go by themselves.
        items: Ids.
        state: Sessions whose state goes; None among them means all of the user's.
        keys: (session, key) of single values of state; session "" means the user's.
        copies: (place, version) of the versions to remove; their artifacts stay.
        titles: (id, name) of sessions that stay, without their title and metadata.
        stones: Uids of tombstones that lose their name.
        reverts: (entry, version) of entries that go back to a version of before.
        left: What of a writer stays, and why.
    """

    parts: tuple[Part, ...] = ()
    whole: tuple[tuple[int, str], ...] = ()
    entries: tuple[int, ...] = ()
    versions: tuple[Row, ...] = ()
    artifacts: tuple[Place, ...] = ()
    items: tuple[int, ...] = ()
    state: tuple[str | None, ...] = ()
    keys: tuple[tuple[str, str], ...] = ()
    copies: tuple[tuple[Place, int], ...] = ()
    titles: tuple[tuple[int, str], ...] = ()
    stones: tuple[str, ...] = ()
    reverts: tuple[tuple[int, int], ...] = ()
    left: tuple[str, ...] = ()

    @property
    def by_row(self) -> dict[int, tuple[int, ...]]:
        """The seqs of the messages that go, by the row of their session."""
        return {part.session: part.seqs for part in self.parts if part.seqs}


def list_remaining(tx: Tx, owner: ScopeRef, selector: Selector) -> Iterator[str]:
    """
    Yield where the memory of the user still contains the words, each with what removes them.

    After a query these are names of sessions, and artifacts that were not asked for. After a
    person they are the user's other apps, and the names of scopes, which no removal takes. Other
    users are not looked at. Cost: 10 µs per row of the other apps.
    """
    terms = [*selector.terms]
    if selector.what == "query":
        yield from dict.fromkeys(_names_remaining(tx, owner, selector))
        return
    family = {one.app for one in owner.family(tx)}
    for scope_no, app, user in scopes.list_all(tx):
        if user != owner.user:
            continue
        names = postings_in([(0, f"{app}\n{user}", "")], terms)
        if all(names.values()):
            whose = f"user {user!r} of app {app!r}"
            yield f"the name of {whose}: import an export of it into a new file"
        rows = () if app in family else rows_holding(tx, *scope_range(scope_no), terms)
        if any(kind != "scope" for _, (kind, *_), _ in rows):
            call = f"scope({user!r}, {app!r}).forget(person={selector.query!r})"
            yield f"app {app!r} of the user: {call}"


def _names_remaining(tx: Tx, owner: ScopeRef, selector: Selector) -> Iterator[str]:
    scope_no = owner.find(tx)
    span = NO_SPAN if scope_no is None or selector.session else scope_range(scope_no)
    rows = rows_holding(tx, *span, [*selector.terms], texts=False, blobs=False)
    for _, (kind, name, *_), _ in rows:
        if kind == "session":
            yield f"the name of session {name!r}: forget(session={name!r})"
        if kind in ARTIFACT_KINDS and not selector.artifacts:
            yield f"artifact {name!r}: add artifacts=True"


def find_all(tx: Tx, owner: ScopeRef, selector: Selector, *, with_entries: bool) -> list[Found]:
    """
    Return what *selector* names in the scope and in the parts of its app.

    An entry and the seqs of messages are named in the own scope alone. Only a forgetting
    (*with_entries*) removes a session, or rows with the words of a query or of a name, from the
    parts. Everything, and what a writer stored, goes from all of them. A host that deletes a
    session keeps what it took into a memory.
    """
    everywhere = selector.what in ("everything", "writer") or (
        with_entries and selector.what in ("session", "query", "person")
    )
    found = [(owner, find(tx, owner, selector, with_entries=with_entries))]
    for part in owner.family(tx)[1:] if everywhere else ():
        selection = find(tx, part, selector, with_entries=with_entries)
        if selector.session and not branch_of(selector.session):
            ids = _items_of_session(tx, part, selector)
            selection = selection.replace(items=ids)
        found.append((part, selection))
    return found


def _items_of_session(tx: Tx, part: ScopeRef, selector: Selector) -> tuple[int, ...]:
    """Return the items of a part whose namespace begins with the session, of a query's words."""
    scope_no = existing(part.find(tx), "scopes")
    ids = list_ids(tx, scope_no, list_request((str(selector.session),)))
    return _holding_items(tx, ids, [*selector.terms]) if selector.terms else tuple(ids)


def find(tx: Tx, owner: ScopeRef, selector: Selector, *, with_entries: bool) -> Selection:
    """
    Return what *selector* names.

    Args:
        with_entries: Also the entries, and old versions of entries, that were told by
            the messages.
    """
    scope_no = owner.find(tx)
    if selector.what == "everything":
        return _everything(tx, scope_no)
    if selector.what in ("entry", "writer"):
        chosen = _entry if selector.what == "entry" else _written
        return Selection() if scope_no is None else chosen(tx, scope_no, selector)
    session = find_session(tx, owner, selector.session) if selector.session else None
    if scope_no is None or (selector.session and session is None):
        return Selection()
    if session is None or selector.what == "query":
        return _matching(tx, scope_no, session, selector, with_entries=with_entries)
    if selector.what == "session":
        return _whole(tx, session, selector, with_entries=with_entries)
    name = str(selector.session)
    seqs = _seqs(tx, session, selector)
    parts = [Part(row, name, tuple(some)) for row, some in split_seqs(tx, session, seqs)]
    return _parts(tx, parts, artifacts=selector.artifacts, with_entries=with_entries)


def _entry(tx: Tx, scope_no: int, selector: Selector) -> Selection:
    row_id = scope_range(scope_no)[0] + selector.entry
    return Selection(entries=(row_id,) if entries.find(tx, row_id) is not None else ())


def _written(tx: Tx, scope_no: int, selector: Selector) -> Selection:
    """Return what a writer stored, and the versions to go back to: ended ones first."""
    found = find_written(tx, scope_no, selector.query, selector.since_ms)
    names = sessions.names(tx, [*found.messages])
    reverts = sorted(found.reverts.items(), key=lambda one: entry_history.get(tx, *one).active)
    return Selection(
        parts=tuple(Part(row, names[row], tuple(seqs)) for row, seqs in found.messages.items()),
        entries=tuple(found.entries),
        versions=tuple(row for row in found.versions if row[0] not in found.entries),
        items=tuple(found.items),
        copies=tuple(found.copies),
        reverts=tuple(reverts),
        left=tuple(found.left),
    )


def _everything(tx: Tx, scope_no: int | None) -> Selection:
    if scope_no is None:
        return Selection(state=(None,))
    low, high = scope_range(scope_no)
    whole = _all_sessions(tx, scope_no)
    places = artifact_records.list_places(tx, scope_no)
    every = tuple(entries.ids_between(tx, low, high))
    stored = tuple(items.list_ids(tx, scope_no))
    return Selection((), tuple(whole), every, (), tuple(places), stored, (None,))


def _seqs(tx: Tx, session: int, selector: Selector) -> tuple[int, ...]:
    """Return the seqs of the messages that a selector names by seq, number or time."""
    if selector.seqs is not None:
        return selector.seqs
    before_ms = MAX_INT if selector.before_ms is None else selector.before_ms
    seqs = sorted(
        seq_of(one)
        for run in runs_of(tx, session)
        for one in messages.ids_between(tx, *run.span, -MAX_INT, before_ms)
    )
    return tuple(seqs[-selector.last :] if selector.last else seqs)


def _whole(tx: Tx, session: int, selector: Selector, *, with_entries: bool) -> Selection:
    """
    Return a whole session and what goes with it.

    Raises:
        InvalidInput: the session is a branch that others leave from, and *selector* has no force.
    """
    scope_no = scope_of(session)
    whole = [(session, selector.session)]
    children = descendants(tx, session)
    named = sessions.branch_names(tx, children) if children else {}
    whole += [(row, BranchName(selector.session, named[row])) for row in children]
    if children and is_branch(session) and not selector.force:
        raise InvalidInput(
            f"branches start from {branch_of(selector.session)!r}: "
            f"{', '.join(map(repr, sorted(named.values())))}. Delete these first, or give "
            "force=True"
        )
    rows = [row for row, _ in whole]
    told: dict[int, None] = dict.fromkeys(rows) if with_entries else {}
    entry_ids = entries.list_from(tx, told)
    versions = entry_history.texts_from(tx, told)
    of_session = not is_branch(session)
    places = artifact_records.list_places(tx, scope_no, session_no_of(session))
    if selector.artifacts:
        for row in rows:
            saved = artifact_rows.names_made_in(tx, scope_no, *session_range(row))
            places += [Place(scope_no, number, name) for number, name in saved]
    return Selection(
        (),
        tuple(whole),
        tuple(entry_ids),
        tuple(row for row in versions if row[0] not in entry_ids),
        tuple(dict.fromkeys(places)),
        (),
        (selector.session,) if of_session else (),
    )


def _parts(tx: Tx, parts: Iterable[Part], *, artifacts: bool, with_entries: bool) -> Selection:
    """Return messages that are there, and what goes with them."""
    present = []
    told: dict[int, set[int]] = {}
    places: dict[Place, None] = {}
    parts = list(parts)
    there = messages.uids(tx, [one for part in parts for one in part.ids])
    if with_entries:
        own = {part.session: part.seqs for part in parts}
        for row, seqs in (*own.items(), *rows_sharing(tx, own)):
            told.setdefault(row, set()).update(seqs)
    entry_ids = dict.fromkeys(entries.list_from(tx, told))
    versions = entry_history.texts_from(tx, told)
    for part in parts:
        here = sorted(one for one in part.ids if one in there)
        if here:
            present.append(part.replace(seqs=tuple(one - part.session for one in here)))
    if artifacts and parts:
        scope_no = scope_of(parts[0].session)
        ids = [one for part in parts for one in part.ids]
        saved = artifact_rows.names_made_by(tx, scope_no, ids)
        places |= dict.fromkeys(Place(scope_no, number, name) for number, name in saved)
    kept = tuple(row for row in versions if row[0] not in entry_ids)
    return Selection(tuple(present), (), tuple(entry_ids), kept, tuple(places))


def _matching(
    tx: Tx, scope_no: int, session: int | None, selector: Selector, *, with_entries: bool
) -> Selection:
    """
    Return what contains all words, by the stems of the index; old versions by the same.

    Author and metadata of a message do not count. The name of an artifact does, and so do
    namespace, key and metadata of an item, titles of sessions, and state. An entry goes only if it
    contains the words itself; in a session, also only with the messages that told it.
    """
    if selector.what == "person":
        return _saying(tx, scope_no, selector)
    span = scope_range(scope_no)
    spans = [span] if session is None else [run.span for run in runs_of(tx, session)]
    terms = [*selector.terms]
    texts = [term.replace(fields=("text",)) for term in terms]
    by_session: dict[int, list[int]] = {}
    for ids in spans:
        for row_id in sorted(_holding_all(tx, "message", texts, ids)):
            by_session.setdefault(session_of(row_id), []).append(seq_of(row_id))
    names = sessions.names(tx, list(by_session))
    parts = [Part(one, names[one], tuple(seqs)) for one, seqs in by_session.items()]
    told = with_entries and session is not None
    selection = _parts(tx, parts, artifacts=selector.artifacts, with_entries=told)
    entry_ids, versions = selection.entries, selection.versions
    if told or session is None:
        holding = sorted(_holding_all(tx, "entry", terms, span))
        old = _holding_versions(tx, terms, span)
        own = {row[:2] for row in versions}
        entry_ids = tuple(one for one in holding if session is None or one in entry_ids)
        versions = tuple(row for row in old if session is None or row[:2] in own)
    small = [
        (row_id, ref)
        for row_id, ref, _ in rows_holding(tx, *span, terms, texts=False, blobs=selector.artifacts)
        if session is None or _is_of(session, selector.session, row_id, ref)
    ]
    of_artifacts = (ref for _, ref in small if selector.artifacts and ref[0] in ARTIFACT_KINDS)
    named, copies = _artifacts_saying(tx, scope_no, of_artifacts)
    places = dict.fromkeys([*selection.artifacts, *named])
    titled = [row_id for row_id, ref in small if ref[0] == "title"]
    titles = sessions.names(tx, titled) if titled else {}
    return selection.replace(
        keys=tuple((ref[2], ref[1]) for _, ref in small if ref[0] == "state"),
        titles=tuple((row_id, titles[row_id]) for row_id in titled),
        items=_holding_items(tx, items.list_ids(tx, scope_no), terms) if session is None else (),
        entries=entry_ids,
        versions=tuple(row for row in versions if row[0] not in entry_ids),
        artifacts=tuple(places),
        copies=tuple(one for one in copies if one[0] not in places),
    )


def _is_of(session: int, name: str, row_id: int, ref: Ref) -> bool:
    """Return whether a title, a value of state or an artifact is of a session or branch."""
    if ref[0] == "state":
        return not is_branch(session) and ref[2] == name
    return row_id == session if ref[0] == "title" else ref[3] == session_no_of(session)


def _artifacts_saying(
    tx: Tx, scope_no: int, refs: Iterable[Ref]
) -> tuple[list[Place], tuple[tuple[Place, int], ...]]:
    """
    Return the artifacts whose names were found, and (artifact, version) of the others.

    One rule for every query: an artifact is removed as a whole if its name contains the words, or
    each of its versions does. Otherwise only the versions with these words are removed.
    """
    named: dict[Place, None] = {}
    copies: dict[Place, dict[int, None]] = {}
    for kind, name, rev_version, session_no in refs:
        place = Place(scope_no, int(session_no), str(name))
        if kind == "artifact":
            named[place] = None
        elif rev_version:
            copies.setdefault(place, {})[MAX_INT - int(rev_version)] = None
    if copies:
        ids = {one: name_id for one, name_id, _ in artifact_rows.places(tx, scope_no)}
        doomed = [ids[place] for place in copies]
        stored = Counter(one.name_id for one in artifact_rows.versions_of(tx, scope_no, doomed))
        named |= {place: None for place, gone in copies.items() if len(gone) == stored[ids[place]]}
    kept = [place for place in copies if place not in named]
    return [*named], tuple((place, version) for place in kept for version in copies[place])


def _saying(tx: Tx, scope_no: int, selector: Selector) -> Selection:
    """
    Return all that contains every word, in any field: what a proof would name as still saying it.

    A session, branch or artifact goes as a whole if its name contains them. If an entry or
    artifact stays, its versions that contain them go.
    """
    low, high = scope_range(scope_no)
    found: dict[str, dict[Row, None]] = {kind: {} for kind in PLACES}
    for row_id, (kind, *place), _ in rows_holding(tx, low, high, [*selector.terms]):
        found[kind][row_id, *place] = None
    names = dict(_all_sessions(tx, scope_no))
    sessions_said = [row_id for row_id, *_ in found["session"]]
    going = {row for one in sessions_said for row in (one, *descendants(tx, one))}
    sessions_going = {names[row] for row in going if not is_branch(row)}
    entry_ids = tuple(row_id for row_id, *_ in found["entry"])
    old = {(entry, version) for entry, version in found["history"] if entry not in entry_ids}
    of_artifacts = ((kind, *row[1:]) for kind in ARTIFACT_KINDS for row in found[kind])
    named, copies = _artifacts_saying(tx, scope_no, of_artifacts)
    numbers = {session_no_of(row) for row in going if not is_branch(row)}
    of_sessions = (
        one for one in artifact_records.list_places(tx, scope_no) if one.session_no in numbers
    )
    places = dict.fromkeys([*named, *of_sessions])
    return Selection(
        parts=tuple(one for one in _parts_saying(tx, found, names) if one.session not in going),
        whole=tuple((row, names[row]) for row in sorted(going)),
        entries=entry_ids,
        versions=tuple(row for row in entry_history.texts_between(tx, low, high) if row[:2] in old),
        artifacts=tuple(places),
        items=tuple(row_id for row_id, *_ in found["item"]),
        state=tuple(sorted(sessions_going)),
        keys=tuple(
            (session, key) for _, key, session, _ in found["state"] if session not in sessions_going
        ),
        copies=tuple(one for one in copies if one[0] not in places),
        titles=tuple((row, names[row]) for row, *_ in found["title"] if row not in going),
        stones=tuple(uid for _, uid, *_ in found["tombstone"]),
    )


def _parts_saying(
    tx: Tx, found: dict[str, dict[Row, None]], names: dict[int, str]
) -> Iterator[Part]:
    """Yield the messages that were found, and where summaries were found, by session."""
    seqs: dict[int, list[int]] = {}
    over: dict[int, list[int]] = {}
    for row_id, *_ in found["message"]:
        seqs.setdefault(session_of(row_id), []).append(seq_of(row_id))
    for row, first_seq in summaries.places(tx, [row_id for row_id, *_ in found["summary"]]):
        over.setdefault(row, []).append(first_seq)
    for row in sorted({*seqs, *over}):
        yield Part(row, names[row], tuple(sorted(seqs.get(row, ()))), tuple(over.get(row, ())))


def _all_sessions(tx: Tx, scope_no: int) -> list[tuple[int, str]]:
    """Return (id, name) of every session of a scope, then of every branch."""
    low, high = scope_range(scope_no)
    found = [(one, info.name) for one, info in sessions.list_by_id(tx, low, high, limit=MAX_INT)]
    for row, name, branch in sessions.list_all_branches(tx, low, high, MAX_INT):
        found.append((row, BranchName(name, branch)))
    return found


def _holding_items(tx: Tx, every: Sequence[int], terms: list[Term]) -> tuple[int, ...]:
    """Return those of *every* item that contain all words, in what is not indexed too."""
    found: list[int] = []
    for start in range(0, len(every), ITEMS_AT_ONCE):
        some = items.get_many(tx, every[start : start + ITEMS_AT_ONCE])
        texts = [
            (row_id, item_records.all_text(stored.item), "") for row_id, stored in some.items()
        ]
        postings = postings_in(texts, terms)
        found += sorted(set.intersection(*map(set, postings.values())))
    return tuple(found)


def _terms_of(query: str, field: str = "query") -> tuple[Term, ...]:
    """Return the terms of *query*, without words that have no meaning; quotes as in `recall`."""
    words, numbers = cut_numbers(text_value(query, field))
    every = query_words(words)
    chosen = content_words(every) or every
    if not (chosen or numbers):
        raise InvalidInput(f"{field} contains no word: give the words to forget")
    if (count := len(chosen) + len(numbers)) > MAX_WORDS:
        raise InvalidInput(f"{field} has {count} words: give at most {MAX_WORDS}")
    return (*word_terms(chosen), *numbers, *phrase_terms(quoted_runs(words)))


def _holding_all(tx: Tx, kind: str, terms: list[Term], span: tuple[int, int]) -> set[int]:
    postings = [set(ids) for ids in tx.words.postings(kind, terms, *span).values()]
    return set.intersection(*postings)


def _holding_versions(tx: Tx, terms: list[Term], span: tuple[int, int]) -> list[Row]:
    """Return the old versions of entries, with the columns of `texts_between`, that contain all."""
    rows = entry_history.texts_between(tx, *span)
    texts = [(place, row[2], f"{row[3]}\n{row[4] or ''}") for place, row in enumerate(rows)]
    postings = postings_in(texts, terms)
    return [rows[place] for place in sorted(set.intersection(*map(set, postings.values())))]
