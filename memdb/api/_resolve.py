"""
What an opened file is given: ports are looked at, and embedders found by their names.
"""

from __future__ import annotations

from memdb.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.engine.sqlite.database import Database
    from memdb.models.protocols import Embedder

STATIC = "static"

# What a port must have; all else is found out when it is asked.
EMBEDDER = ("name", "dim", "embed")
NEEDED = {
    "arbiter": ("name", "decide"),
    "counter": ("name", "count", "count_many"),
    "embedder": EMBEDDER,
    "model": ("name", "complete"),
    "previous_embedder": EMBEDDER,
    "summarizer": ("name", "quality", "summarize"),
}


def require(port: object, field: str) -> None:
    """Refuse an object that cannot be the port, before anything is written."""
    for name in NEEDED[field]:
        if not hasattr(port, name):
            raise InvalidInput(
                f"{field} has no {name!r}: see memdb.models.protocols for what it needs"
            )


def require_all(**ports: object) -> None:
    """Refuse the first of *ports*, by field, that cannot be one; None is none."""
    for field, port in ports.items():
        if port is not None:
            require(port, field)


def named_pair(
    db: Database, embedder: Embedder | str | None, previous: Embedder | str | None
) -> tuple[Embedder | str | None, Embedder | str | None]:
    """Return the embedder, and the one before it; "static" stays a name until it is used."""
    if previous is not None and embedder is None:
        raise InvalidInput("previous_embedder without embedder: say what takes its place")
    return _named(db, embedder, "embedder"), _named(db, previous, "previous_embedder")


def _named(db: Database, choice: Embedder | str | None, field: str) -> Embedder | str | None:
    """Return the embedder that *choice* means."""
    if choice is None or (isinstance(choice, str) and choice == STATIC):
        return choice
    if not isinstance(choice, str):
        require(choice, field)
        return choice
    from memdb.providers import embedder_by_name
    from memdb.tables import vectors

    embedder = embedder_by_name(choice)
    with db.read() as tx:
        dims = [one.dim for one in vectors.list_spaces(tx) if one.model == embedder.name]
    if len(dims) == 1 and hasattr(embedder, "expect"):
        embedder.expect(dims[0])  # so that a server that is down keeps no file shut
    return embedder


def load_embedder(choice: Embedder | str | None) -> Embedder | None:
    """Return *choice*, the built-in table for its name."""
    if not isinstance(choice, str):
        return choice
    from memdb.embeddings.static_model import StaticEmbedder

    return StaticEmbedder()
