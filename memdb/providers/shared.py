"""
Code that the providers share: messages, schemas as text, dimensions, missing extras.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from memdb.errors import InvalidInput, PortError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROLES = ("system", "user", "assistant")

# A text that every embedder accepts, to find its dimension.
PROBE = "memory"

# Two to four pages; the rest of a text is not embedded. Models take 256 to 8,192
# tokens, and servers refuse a longer text rather than cut it.
MAX_CHARS = 8_000


# What models put before a question and before a text, by parts of their names; the first line
# that matches counts. They are those that the model cards name.
SEARCH = "Represent this sentence for searching relevant passages: "
PREFIXES = (
    (("e5-", "instruct"), "", ""),  # its instruction is the caller's to choose
    (("e5-",), "query: ", "passage: "),
    (("bge-", "-en"), SEARCH, ""),
    (("arctic-embed", "v2"), "query: ", ""),
    (("arctic-embed",), SEARCH, ""),
    (("mxbai-embed",), SEARCH, ""),
    (("nomic-embed",), "search_query: ", "search_document: "),
    (("embeddinggemma",), "task: search result | query: ", "title: none | text: "),
)


def prefixes_of(model: str) -> tuple[str, str]:
    """
    Return what *model* wants before a question, and before a text; "" for nothing.

    >>> prefixes_of("intfloat/multilingual-e5-small")
    ('query: ', 'passage: ')
    >>> prefixes_of("sentence-transformers/all-MiniLM-L6-v2")
    ('', '')
    """
    name = model.lower()
    for parts, question, text in PREFIXES:
        if all(part in name for part in parts):
            return question, text
    return "", ""


def embed_prefixed(
    prefix: str, texts: Sequence[str], embed: Callable[[list[str]], Sequence[Sequence[float]]]
) -> list[Sequence[float] | None]:
    """Return what `embed_texts` does, with *prefix* before each text that is embedded."""
    return embed_texts(texts, lambda some: embed([f"{prefix}{text}" for text in some]))


def missing_extra(extra: str, error: ImportError) -> InvalidInput:
    """Return the error for an *extra* whose package cannot be imported."""
    return InvalidInput(
        f"the extra {extra} is not installed ({error}): run `pip install 'memdb-sqlite[{extra}]'`"
    )


def check_messages(messages: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """
    Return *messages* with role and content only.

    Raises:
        InvalidInput: there are none, or one has another role or no text.
    """
    if not messages:
        raise InvalidInput("there are no messages: give at least one")
    checked = []
    for number, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        if role not in ROLES:
            raise InvalidInput(
                f"role of message {number} is {role!r}: use one of {', '.join(ROLES)}"
            )
        if not isinstance(content, str):
            raise InvalidInput(f"content of message {number} is not a str: give a text")
        checked.append({"role": role, "content": content})
    return checked


def put_schema_in_prompt(
    messages: list[dict[str, str]], schema: Mapping[str, Any]
) -> list[dict[str, str]]:
    """Return *messages* with *schema* as an instruction at the end of the system prompt."""
    instruction = (
        "Answer with JSON only, no prose and no code fence. It must keep to this JSON schema: "
        f"{json.dumps(schema, ensure_ascii=False)}"
    )
    if messages[0]["role"] != "system":
        return [{"role": "system", "content": instruction}, *messages]
    first = {"role": "system", "content": f"{messages[0]['content']}\n\n{instruction}"}
    return [first, *messages[1:]]


class Client:
    """Caller of a model: no copy and no pickle of it contains a key or a connection."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """
        Refuse pickling and copying.

        Raises:
            TypeError: always.
        """
        name = type(self).__name__
        raise TypeError(
            f"{name} cannot be pickled or copied: create it in the process that uses it"
        )


class SizedEmbedder:
    """The part of an embedder that finds the dimension of its model if it is not known."""

    name: str
    _dim: int | None

    if TYPE_CHECKING:

        def embed(self, texts: Sequence[str]) -> list[Sequence[float] | None]:
            """Return one vector per text."""

    @property
    def dim(self) -> int:
        """
        The number of components; if it is not known the model embeds one word, once.

        Raises:
            PortError: the model gave no vector.
        """
        if self._dim is None:
            (vector,) = self.embed([PROBE])
            if vector is None:
                raise PortError(self.name, "it gave no vector for a plain word")
            self._dim = len(vector)
        return self._dim

    def expect(self, dim: int) -> None:
        """Set the dimension if it is not known: a file with the model's vectors knows it."""
        if self._dim is None:
            self._dim = dim


def embed_texts(
    texts: Sequence[str], embed: Callable[[list[str]], Sequence[Sequence[float]]]
) -> list[Sequence[float] | None]:
    """Return *embed* of the first `MAX_CHARS` of each text, None for a text of spaces only."""
    full = [text[:MAX_CHARS] for text in texts if text.strip()]
    vectors = iter(embed(full) if full else [])
    return [next(vectors) if text.strip() else None for text in texts]
