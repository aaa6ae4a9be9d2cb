"""
Looking for secrets in what a scope holds already: messages, entries, artifacts.

Reads page by page; nothing is changed, and no secret is repeated in full.
"""

from __future__ import annotations

from memdb.models.record import Record
from memdb.text.secrets import find, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.api.scope import Scope
    from memdb.models.messages import ArtifactVersion
    from memdb.text.secret_policy import SecretPolicy

# Bytes of an artifact that are looked at together, and how many of them again
# with the next: a key that lies over the end is found in one of the two.
STEP_BYTES = 1 << 20
OVERLAP_BYTES = 8 << 10


class SecretPlace(Record):
    """
    Where a secret stands.

    Attributes:
        kind: What it is; see `memdb.text.secrets`.
        where: "message trip#3", "entry 12", "artifact menu.md@2", with what part
            of it where that is not its text.
        start: Its first character there; of an artifact its first byte, about.
        shown: How it begins and how long it is.
    """

    kind: str
    where: str
    start: int
    shown: str


def places(scope: Scope, policy: SecretPolicy, *, entropy: bool) -> Iterator[SecretPlace]:
    """Yield every secret of a scope: its messages first, then entries, then artifacts."""
    for session in scope.sessions():
        for message in scope.session(session.name).messages():
            where = f"message {session.name}#{message.seq}"
            parts: dict[str, Any] = {
                "": message.text,
                "parts": message.body,
                "metadata": message.metadata,
            }
            yield from _in_parts(where, parts, policy, entropy=entropy)
    for entry in scope.entries.list(inactive=True):
        parts = {"": entry.text, "keywords": entry.keywords, "metadata": entry.metadata}
        yield from _in_parts(f"entry {entry.id}", parts, policy, entropy=entropy)
        for old in scope.entries.history(entry.id):
            before = {"": old.text, "keywords": old.keywords, "metadata": old.metadata}
            where = f"entry {entry.id} version {old.version}"
            yield from _in_parts(where, before, policy, entropy=entropy)
    for newest in scope.artifacts.list():
        for version in scope.artifacts.versions(newest.name, session=newest.session):
            yield from _in_artifact(scope, version, policy, entropy=entropy)


def _in_parts(
    where: str, parts: dict[str, Any], policy: SecretPolicy, *, entropy: bool
) -> Iterator[SecretPlace]:
    for name, value in parts.items():
        for text in _texts(value):
            yield from in_text(text, f"{where} {name}".strip(), policy, entropy=entropy)


def in_text(text: str, where: str, policy: SecretPolicy, *, entropy: bool) -> Iterator[SecretPlace]:
    """Yield the secrets of one text."""
    wanted = entropy or policy.entropy
    for one in find(text, entropy=wanted, detector=policy.detector):
        yield SecretPlace(one.kind, where, one.start, shown(text, one))


def _texts(value: Any, name: str = "") -> Iterator[str]:
    """Yield the texts of a JSON value, each behind the name it has."""
    if isinstance(value, str):
        yield f'{name}: "{value}"' if name else value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, str(key))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item, name)


def _in_artifact(
    scope: Scope, version: ArtifactVersion, policy: SecretPolicy, *, entropy: bool
) -> Iterator[SecretPlace]:
    where = f"artifact {version.name}@{version.version}"
    yield from _in_parts(where, {"metadata": version.metadata}, policy, entropy=entropy)
    seen: set[tuple[str, int]] = set()
    with scope.artifacts.open(version.name, version.version, session=version.session) as stream:
        start, data = 0, stream.read(STEP_BYTES)
        while data and b"\0" not in data[:4096]:
            text = data.decode("utf-8", errors="replace")
            for one in in_text(text, where, policy, entropy=entropy):
                place = one.kind, start + len(text[: one.start].encode())
                if place not in seen:
                    seen.add(place)
                    yield one.replace(start=place[1])
            more = stream.read(STEP_BYTES)
            if not more:
                return
            start += max(0, len(data) - OVERLAP_BYTES)
            data = data[-OVERLAP_BYTES:] + more
