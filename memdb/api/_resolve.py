"""
Resolve the arguments of `open`: check ports, and find embedders by their names.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from memdb.errors import InvalidInput, ReadOnly
from memdb.models.keys import key_value
from memdb.models.settings import read_settings
from memdb.text.validate import is_address

if TYPE_CHECKING:
    from memdb.engine.base import Engine, Tx
    from memdb.models.keys import AnyKey
    from memdb.models.observation import Meter
    from memdb.models.protocols import Embedder, Model
    from memdb.models.settings import Settings

STATIC = "static"
UNIVERSAL = "use"
MODEL_FORMS = "llm:NAME, openai:NAME or openai:NAME@http://HOST:PORT/v1"
EMBEDDER_FORMS = f"static, use, fastembed:DIR, {MODEL_FORMS}"

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


def describe_damage(tx: Tx) -> str:
    """Return findings that `rebuild` cannot repair, in rows that were just migrated."""
    from memdb.records import integrity  # only for old files

    return integrity.describe_damage(tx)


def open_engine(path: str, **options: Any) -> Engine:
    """Return the engine of a file, or of a server if *path* begins as its address."""
    options.setdefault("verify", describe_damage)
    if is_address(path):
        from memdb.postgres.engine import PostgresEngine  # only for servers

        if options.pop("key", None) is not None:
            raise InvalidInput(
                "key encrypts a file, not a server: leave it out, and encrypt the server's disks"
            )

        return PostgresEngine(path, **options)
    from memdb.engine.sqlite.engine import SqliteEngine

    return SqliteEngine(path, **options)


def begin_file(path: str, key: AnyKey | None) -> None:
    """Create an empty file with small pages at *path*, unless a key is given."""
    from memdb.engine.sqlite.connection import begin_small_file

    if key_value(key) is None:
        begin_small_file(path)


def open_target(path: str, *, dry_run: bool, **given: Any) -> Engine:
    """Open the target of a copy. A dry run does not create it."""
    if not dry_run:
        return open_engine(path, **given)
    try:
        if is_address(path) or os.path.exists(path):
            return open_engine(path, mode="read", **given)
    except ReadOnly:
        if not is_address(path):
            raise  # a server without tables is empty
    return open_engine(":memory:", **{**given, "key": None})


def require(port: object, field: str) -> None:
    """Refuse an object that cannot be this port, before anything is written."""
    for name in NEEDED[field]:
        if not hasattr(port, name):
            raise InvalidInput(
                f"{field} has no {name!r}: see memdb.models.protocols for what it needs"
            )


def require_all(**ports: object) -> None:
    """Refuse the first of *ports*, by field, that cannot be a port; None means no port."""
    for field, port in ports.items():
        if port is not None:
            require(port, field)


def named_pair(
    db: Engine, embedder: Embedder | str | None, previous: Embedder | str | None
) -> tuple[Embedder | str | None, Embedder | str | None]:
    """Return the embedder and the previous one; "static" stays a name until it is used."""
    if previous is not None and embedder is None:
        raise InvalidInput(
            "previous_embedder is given without embedder: also give the embedder that replaces it"
        )
    return _named(db, embedder, "embedder"), _named(db, previous, "previous_embedder")


def _named(db: Engine, choice: Embedder | str | None, field: str) -> Embedder | str | None:
    """Return the embedder that *choice* names, or *choice* itself if it is one."""
    if choice is None or (isinstance(choice, str) and choice == STATIC):
        return choice
    if not isinstance(choice, str):
        require(choice, field)
        return choice

    from memdb.tables import spaces

    embedder = embedder_by_name(choice)
    with db.read() as tx:
        dims = [one.dim for one in spaces.list_spaces(tx) if one.model == embedder.name]
    if len(dims) == 1 and hasattr(embedder, "expect"):
        embedder.expect(dims[0])  # so that a server that is down keeps no file shut
    return embedder


def settings_changes(given: object) -> Settings | dict[str, Any]:
    """Return settings, a dict of fields or the path of a TOML file, checked."""
    if isinstance(given, (str, os.PathLike)):
        from memdb.models.settings_file import read_toml

        return read_toml(os.fspath(given))
    return read_settings(given)


def load_embedder(choice: Embedder | str | None, meter: Meter | None = None) -> Embedder | None:
    """Return *choice* under a time limit, noted by *meter*; the built-in table for its name."""
    if choice is None:
        return None
    if not isinstance(choice, str):
        from memdb.models.model_client import limited_embedder

        return limited_embedder(choice, meter)
    from memdb.embeddings.static_model import StaticEmbedder

    return StaticEmbedder()


def model_by_name(spec: str) -> Model:
    """
    Return the language model that *spec* names.

    Args:
        spec: `llm:NAME` for a model or alias of the llm package and its
            plugins; `openai:NAME` for OpenAI, with the key in OPENAI_API_KEY;
            `openai:NAME@URL` for another server of the same protocol (Ollama,
            LM Studio, llama.cpp).

    Raises:
        InvalidInput: the form is unknown, the extra is not installed (the error says how to install
            it), or there is no such model.

    >>> model_by_name("gpt")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    memdb.errors.InvalidInput: the model 'gpt' has no valid form: use llm:NAME, openai:NAME ...
    """
    kind, _, rest = spec.partition(":")
    name, url = _name_and_url(rest)
    if kind == "llm" and rest.strip():
        from memdb.providers.llm import LLMModel

        return LLMModel(rest)
    if kind == "openai" and name.strip():
        from memdb.providers.openai import OpenAIModel

        return OpenAIModel(name, base_url=url)
    from memdb.text.redaction import redact

    raise InvalidInput(f"the model {redact(spec)!r} has no valid form: use {MODEL_FORMS}")


def embedder_by_name(spec: str) -> Embedder:
    """
    Return the embedder that *spec* names.

    Args:
        spec: `static` for the table that comes with memdb; `use` for sixteen languages
            (extra `multilingual`); `fastembed:DIR` for
            an ONNX model in a folder, or `fastembed:NAME` for one of
            fastembed's list; `openai:NAME` for OpenAI, with the key in
            OPENAI_API_KEY; `openai:NAME@URL` for another server of the same
            protocol; `llm:NAME` for a model of the llm package and its plugins.

    Raises:
        InvalidInput: no such form, the extra is not installed (the error says
            how to), or there is no such model.

    >>> embedder_by_name("static").dim
    128
    >>> embedder_by_name("minilm")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    memdb.errors.InvalidInput: the embedder 'minilm' has no valid form: use static, ...
    """
    if spec == STATIC:
        from memdb.embeddings.static_model import StaticEmbedder

        return StaticEmbedder()
    if spec == UNIVERSAL:
        from memdb.providers.use import UniversalEmbedder

        return UniversalEmbedder()
    kind, _, rest = spec.partition(":")
    name, url = _name_and_url(rest)
    if kind == "fastembed" and rest.strip():
        from memdb.providers.fastembed import FastEmbedEmbedder

        return FastEmbedEmbedder(rest)
    if kind == "llm" and rest.strip():
        from memdb.providers.llm import LLMEmbedder

        return LLMEmbedder(rest)
    if kind == "openai" and name.strip():
        from memdb.providers.openai import OpenAIEmbedder

        return OpenAIEmbedder(name, base_url=url)
    from memdb.text.redaction import redact

    raise InvalidInput(f"the embedder {redact(spec)!r} has no valid form: use {EMBEDDER_FORMS}")


def _name_and_url(text: str) -> tuple[str, str | None]:
    """Split NAME@URL; a name may contain `:` and `@`, and a URL may contain `@`."""
    starts = [at for at in (text.find("@http://"), text.find("@https://")) if at >= 0]
    if not starts:
        return text, None
    return text[: min(starts)], text[min(starts) + 1 :]
