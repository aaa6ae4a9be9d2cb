"""
Secret scan: finds keys and passwords that a scope holds in messages, entries and artifacts.

It reads page by page, changes nothing, and returns no secret in full.
"""

from __future__ import annotations

from memdb.models.receipts import SecretPlace
from memdb.models.record import Record
from memdb.text.secrets import find, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.artifacts.service import ArtifactService
    from memdb.conversations.reader import Conversations
    from memdb.entries.service import EntryService
    from memdb.models.messages import ArtifactVersion
    from memdb.records.scopes import Owner
    from memdb.text.secret_policy import SecretPolicy

# Bytes of an artifact that are looked at together, and how many of them again
# with the next: a key that lies over the end is found in one of the two.
STEP_BYTES = 1 << 20
OVERLAP_BYTES = 8 << 10


class Sources(Record):
    """The services that a scan for secrets reads."""

    reader: Conversations
    entries: EntryService
    artifacts: ArtifactService


def places(
    sources: Sources, owner: Owner, policy: SecretPolicy, *, entropy: bool
) -> Iterator[SecretPlace]:
    """Yield every secret of a scope: in messages first, then in entries, then in artifacts."""
    for session in sources.reader.sessions(owner):
        for message in sources.reader.messages(owner, session.name):
            where = f"message {session.name}#{message.seq}"
            parts: dict[str, Any] = {
                "": message.text,
                "parts": message.body,
                "metadata": message.metadata,
            }
            yield from _in_parts(where, parts, policy, entropy=entropy)
    for entry in sources.entries.list(owner, inactive=True):
        parts = {"": entry.text, "keywords": entry.keywords, "metadata": entry.metadata}
        yield from _in_parts(f"entry {entry.id}", parts, policy, entropy=entropy)
        for old in sources.entries.history(owner, entry.id):
            before = {"": old.text, "keywords": old.keywords, "metadata": old.metadata}
            where = f"entry {entry.id} version {old.version}"
            yield from _in_parts(where, before, policy, entropy=entropy)
    for newest in sources.artifacts.list(owner, None):
        for version in sources.artifacts.versions(owner, newest.session, newest.name):
            yield from _in_artifact(sources, owner, version, policy, entropy=entropy)


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
    sources: Sources,
    owner: Owner,
    version: ArtifactVersion,
    policy: SecretPolicy,
    *,
    entropy: bool,
) -> Iterator[SecretPlace]:
    where = f"artifact {version.name}@{version.version}"
    yield from _in_parts(where, {"metadata": version.metadata}, policy, entropy=entropy)
    seen: set[tuple[str, int]] = set()
    with sources.artifacts.open(owner, version.session, version.name, version.version) as stream:
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
