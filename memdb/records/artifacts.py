"""
Artifact records: a version or a name with its indexed text, its bytes and its tombstones.

Rows of the tables `artifact_names`, `artifacts` and `blobs` are added and removed only through this
module, except by `memdb copy`. Every function joins the caller's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.errors import AlreadyExists, InvalidInput, existing
from memdb.models.ids import session_id
from memdb.models.record import Record
from memdb.records import dependents
from memdb.tables import artifacts, blobs, checks, scopes, sessions, tombstones
from memdb.text.derived import bigrams_of

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

    from memdb.engine.base import Tx
    from memdb.models.messages import Finding
    from memdb.models.protocols import Ids
    from memdb.tables.artifacts import Doomed, Place, Stored

    Copy = tuple[Place, int | None]

# How much of a text is searched: a long novel.
MAX_INDEXED_CHARS = 1_000_000

_TEXT_MIMES = (
    "application/javascript",
    "application/json",
    "application/sql",
    "application/toml",
    "application/x-sh",
    "application/xml",
    "application/yaml",
    "image/svg+xml",
)


class NewVersion(Record):
    """
    A version before it is stored.

    Attributes:
        blob_no: Number of its bytes, which are already stored.
        metadata: JSON text; None means none.
        message_id: The message that made it; None if it is unknown.
        uid: None for a new one.
        created_ms: None means now.
        writer: The program that saves it; None means unknown.
    """

    blob_no: int
    size_bytes: int
    mime: str
    metadata: str | None
    message_id: int | None
    uid: str | None = None
    created_ms: int | None = None
    writer: str | None = None


def insert(
    tx: Tx,
    place: Place,
    new: NewVersion,
    searched: dict[str, str | None],
    ids: Ids,
    version: int | None = None,
) -> int:
    """
    Add a version, which becomes the newest of its name, and return its number.

    Args:
        searched: The result of `indexed_text` for it, computed outside the transaction.
        version: The number it had, for imports; None means the next one.

    Raises:
        InvalidInput: *version* is not above the last number that was used.
    """
    known = artifacts.find_name(tx, place)
    last = 0 if known is None else known[1]
    number = last + 1 if version is None else version
    if number <= last:
        raise InvalidInput(f"version is {number}, but {place.name} is already at {last}")
    _set_name(tx, place, number, searched)
    artifacts.add(
        tx,
        place,
        number,
        {
            **new._asdict(),
            "uid": new.uid or ids(tx.now_ms),
            "created_ms": tx.now_ms if new.created_ms is None else new.created_ms,
        },
    )
    if new.uid is not None:
        dependents.clear(tx, place.scope_no, [new.uid])
    return number


def reserve(tx: Tx, place: Place, last_version: int) -> None:
    """Count the numbers up to *last_version* as used; for imports."""
    known = artifacts.find_name(tx, place)
    if known is None:
        _set_name(tx, place, last_version, indexed_text("", b""))
    else:
        artifacts.raise_version(tx, known[0], last_version)


def remove(tx: Tx, *copies: Copy, is_forgotten: bool = False) -> list[tuple[Place, Doomed]]:
    """
    Remove versions of names of a scope, and return those that were there.

    A version leaves a tombstone; its bytes are removed if no other version shares them. The names
    stay with their counters, so no number is used again.

    Args:
        copies: Each name with a number; None means all versions of it.
        is_forgotten: No import brings them back. Their tombstones contain digests in place of the
            names, and a name that loses all versions is removed with its counter.
    """
    if not copies:
        return []
    names = artifacts.find_names(tx, {place: None for place, _ in copies})
    gone, staying = _remove_versions(tx, names, {*copies})
    if is_forgotten:
        _keep_away(tx, copies, gone)
        whole = [names.pop(place) for place, version in copies if version is None if place in names]
        _delete_names(tx, whole)
    last: dict[Place, int] = {}
    for place, one in gone:
        last.setdefault(place, one.version)
    changed = {
        place: name_id
        for place, (name_id, _) in names.items()
        if last.get(place, 0) > staying.get(place, 0)  # else what is searched stays the same
    }
    newest = artifacts.newest(tx, [place for place in changed if place in staying])
    tx.words.drop_each("artifact", changed.values())
    for place, name_id in changed.items():
        said = _searched(tx, newest.get(place))
        artifacts.set_names(tx, {name_id: names[place][1]}, said)
    tx.words.add_each("artifact", changed.values())
    return gone


def _remove_versions(
    tx: Tx, names: Mapping[Place, tuple[int, int]], wanted: Container[Copy]
) -> tuple[list[tuple[Place, Doomed]], dict[Place, int]]:
    """Remove versions of *names*; return those that went, and by name the newest that stays."""
    place_of = {name_id: place for place, (name_id, _) in names.items()}
    scopes_of = {place.scope_no for place in names}  # one, or none
    gone: list[tuple[Place, Doomed]] = []
    staying: dict[Place, int] = {}
    for scope_no in scopes_of:
        for one in artifacts.versions_of(tx, scope_no, [*place_of]):
            place = place_of[one.name_id]
            if (place, None) in wanted or (place, one.version) in wanted:
                gone.append((place, one))
            else:
                staying.setdefault(place, one.version)
    artifacts.delete(tx, [(place, one.version, one.uid) for place, one in gone])
    blobs.delete_if_unused(tx, *{one.blob_no for _, one in gone})
    return gone, staying


def move(tx: Tx, place: Place, version: int, target: Place, moved_ms: int) -> None:
    """Rename one version, which becomes the newest of its new name."""
    known = existing(artifacts.find_name(tx, place), "artifact_names")
    taken = artifacts.find_name(tx, target)
    number = 1 if taken is None else taken[1] + 1
    _set_name(tx, target, number, indexed_text("", b""))
    artifacts.move_one(tx, place, version, target, number, moved_ms)
    if place != target:
        _set_name(tx, place, known[1], _searched(tx, artifacts.find(tx, place)))
    _set_name(tx, target, number, _searched(tx, artifacts.find(tx, target)))


def renumber(tx: Tx, place: Place, first: Mapping[str, int]) -> None:
    """Number the versions of a name by *first*, the first number of those that differ, and uid."""
    found = {one.info.uid: one.info.version for one in artifacts.versions(tx, place)}
    first = {uid: first.get(uid, version) for uid, version in found.items()}
    numbers: dict[str, int] = {}
    number = 0
    for uid in sorted(first, key=lambda one: (first[one], one)):
        number = numbers[uid] = max(number + 1, first[uid])
    if first == found:
        return
    last = max(existing(artifacts.find_name(tx, place), "artifact_names")[1], number)
    for shift in (last, 0):  # numbers above all of them are free
        for uid, number in numbers.items():
            kept = None if first[uid] == number else first[uid]
            artifacts.renumber(tx, place, uid, number + shift, kept)
    _set_name(tx, place, last, _searched(tx, artifacts.find(tx, place)))


def _searched(tx: Tx, newest: Stored | None) -> dict[str, str | None]:
    """Return what `indexed_text` does for a stored version."""
    if newest is None or not is_text_mime(newest.info.mime):
        return indexed_text("", b"")
    sha256 = bytes.fromhex(newest.info.sha256)
    head = blobs.read_head(tx, newest.blob_no, sha256, 4 * MAX_INDEXED_CHARS)
    return indexed_text(newest.info.mime, head)


def keep_newest(tx: Tx, place: Place, count: int) -> None:
    """Remove all but the *count* newest versions of a name."""
    remove(tx, *((place, one.info.version) for one in artifacts.versions(tx, place)[count:]))


def rename(tx: Tx, place: Place, target: Place) -> None:
    """
    Rename every version of a name; the new name has none.

    The old name stays with its counter, as after a removal. If the new name had versions before,
    the numbers continue after those, so none is used again.

    Raises:
        AlreadyExists: the new name has versions.
    """
    known = existing(artifacts.find_name(tx, place), "artifact_names")
    taken = artifacts.find_name(tx, target)
    newest = existing(artifacts.find(tx, place), "artifacts")
    if artifacts.find(tx, target) is not None:
        raise AlreadyExists("artifact", target.name)
    shift = 0 if taken is None else taken[1]
    _set_name(tx, target, known[1] + shift, _searched(tx, newest))
    artifacts.move(tx, place, target, shift)
    _set_name(tx, place, known[1], indexed_text("", b""))


def _delete_names(tx: Tx, names: Iterable[tuple[int, int]]) -> None:
    """Delete names without versions, given by id and counter, and their words."""
    ids = [name_id for name_id, _ in names]
    tx.words.drop_each("artifact", ids)
    artifacts.delete_names(tx, ids)


def _keep_away(tx: Tx, copies: Sequence[Copy], gone: Sequence[tuple[Place, Doomed]]) -> None:
    """Keep imports from restoring names and versions, and hide the names in tombstones."""
    whole = [place for place, version in copies if version is None]
    some = [(place, one) for place, one in gone if place not in whole]
    sources = _source_names(tx, *(place for place, _ in some))
    times = [(*each, str(one.created_ms)) for each, (_, one) in zip(sources, some, strict=True)]
    names = [*_source_names(tx, *whole), *times]
    dependents.keep_away(tx, copies[0][0].scope_no, "artifact", names)
    numbered = [(place, one.version) for place, one in gone]
    for place, version in dict.fromkeys([*numbered, *copies]):
        if version is not None:  # it may have been removed before
            _hide(tx, place, version)


def _hide(tx: Tx, place: Place, version: int) -> None:
    """Replace the name in the tombstone of a version, which was forgotten, by its digest."""
    ref, hidden = f"{place.name}@{version}", f"{dependents.digest_of(place.name)}@{version}"
    tombstones.hide_ref(tx, place.scope_no, "artifact", ref, hidden)


def is_kept_away(
    tx: Tx, scope_no: int, session: str | None, name: str, created_ms: int | None
) -> bool:
    """
    Return whether a name, or its version of this time, was forgotten.

    Session None means shared.
    """
    whole = session or "", name
    given = [whole, (*whole, str(created_ms))]
    return bool(dependents.are_kept_away(tx, scope_no, "artifact", given))


def _source_names(tx: Tx, *places: Place) -> list[tuple[str, str]]:
    own = [place for place in places if place.session_no != artifacts.SHARED]
    rows = {place: session_id(place.scope_no, place.session_no) for place in own}
    names = sessions.names(tx, {*rows.values()}) if rows else {}
    return [(names[rows[place]] if place in rows else "", place.name) for place in places]


def remove_sessions(tx: Tx, scope_no: int, session_nos: Collection[int]) -> None:
    """Remove all names of sessions with their counters; the names shared in their scope stay."""
    if session_nos:
        every = [one for one in list_places(tx, scope_no) if one.session_no in session_nos]
        names = artifacts.find_names(tx, every)
        _remove_versions(tx, names, {(place, None) for place in every})
        _delete_names(tx, names.values())


def list_places(tx: Tx, scope_no: int, session_no: int | None = None) -> list[Place]:
    """Return every artifact name of a scope, or of one session of it, also empty ones."""
    return [
        place
        for place, *_ in artifacts.places(tx, scope_no)
        if session_no is None or place.session_no == session_no
    ]


def _set_name(tx: Tx, place: Place, last_version: int, searched: dict[str, str | None]) -> None:
    """Set the counter and the indexed text of a name; a new name is created."""
    known = artifacts.find_name(tx, place)
    if known is None:
        name_id = scopes.next_id(tx, place.scope_no)
        artifacts.add_name(tx, name_id, place, last_version, searched)
    else:
        name_id = known[0]
        tx.words.drop("artifact", name_id)
        artifacts.set_names(tx, {name_id: last_version}, searched)
    tx.words.add("artifact", name_id)


def is_text_mime(mime: str) -> bool:
    """Return whether a media type is text, so that its bytes are searched."""
    kind = mime.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind in _TEXT_MIMES or kind.endswith(("+json", "+xml"))


def indexed_text(mime: str, head: bytes) -> dict[str, str | None]:
    """Return the `text` and `bigrams` to search; both None if *mime* or *head* is not text."""
    nothing: dict[str, str | None] = {"text": None, "bigrams": None}
    if not is_text_mime(mime):
        return nothing
    text = head[: 4 * MAX_INDEXED_CHARS].decode("utf-8", errors="replace")[:MAX_INDEXED_CHARS]
    if "\0" in text:
        return nothing
    return {"text": text, "bigrams": bigrams_of(text)}


def derive(tx: Tx) -> None:
    """Rebuild bigrams and counters of names, and remove bytes without a reference."""
    checks.derive(tx, "artifact")
    checks.raise_last_versions(tx)
    blobs.delete_stale(tx)


def check(tx: Tx) -> Iterator[Finding]:
    """Yield the bytes that do not match their hash."""
    yield from checks.by_hash("blob_hash", "blob", blobs.damaged(tx))
