"""Stores of bytes, and a cache of models' answers: items that recall never finds."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.caches import BaseCache
from langchain_core.messages import message_to_dict, messages_from_dict
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, Generation, GenerationChunk
from langchain_core.stores import BaseStore, InvalidKeyException

from memdb import PutItem
from memdb.adapters.adapter import ScopedAdapter, adapted, in_thread
from memdb.adapters.batches import delete_all, delete_many, find_many, is_key, key_list, put_many
from memdb.adapters.json_forms import pack_value, unpack_value
from memdb.errors import InvalidInput, SecretFound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memdb.adapters.adapter import Source
    from memdb.models.items import Ttl

GENERATIONS: dict[str, type[Generation]] = {
    made.__name__: made
    for made in (Generation, GenerationChunk, ChatGeneration, ChatGenerationChunk)
}


class Namespaced(ScopedAdapter):
    """Values in a namespace of items."""

    _NAMESPACE: tuple[str, ...]

    def __init__(
        self,
        source: Source,
        *,
        user: str | None = None,
        app: str | None = None,
        namespace: Sequence[str] | None = None,
        ttl: Ttl | None = None,
        **options: Any,
    ) -> None:
        """
        Store values in a namespace of items.

        Args:
            source: A path, or a file that is open (`memdb.open` or `memdb.aio.open`).
            namespace: Its labels; stores with different labels share nothing. None means
                "langchain" and "bytes", or "cache" for answers of models.
            ttl: How long a value lives after it was set: seconds, a timedelta, or "30d",
                "12h", "45m". None means for ever.
            options: For `memdb.open`, with a path.

        Raises:
            InvalidInput: a name cannot be used.
            FileError: the file cannot be used.
        """
        super().__init__(source, user=user, app=app, **options)
        self._items = self._scope.items
        self._namespace = self._NAMESPACE if namespace is None else tuple(namespace)
        self._ttl = ttl


class MemdbByteStore(Namespaced, BaseStore[str, bytes]):
    """Bytes under keys, each an item of up to 32 MiB."""

    _NAMESPACE = ("langchain", "bytes")

    @adapted
    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the bytes of each key, None if there is none."""
        given = key_list(keys)
        found = find_many(self._items, self._namespace, given)
        values = [found[key].value if is_key(key) and key in found else None for key in given]
        return [value if isinstance(value, bytes) else None for value in values]

    @adapted
    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        """
        Set values, all of them or none.

        Raises:
            InvalidKeyException: a key is empty, longer than 1,024 characters, or contains NUL.
            InvalidInput: a value is not bytes.
        """
        puts = []
        for key, value in key_value_pairs:
            if not is_key(key):
                raise InvalidKeyException(
                    f"{key!r:.80} cannot be a key: give 1 to 1,024 characters without NUL"
                )
            if not isinstance(value, (bytes, bytearray, memoryview)):
                kind = type(value).__name__
                raise InvalidInput(f"the value of {key!r:.80} is {kind}: give bytes")
            puts.append(PutItem(self._namespace, key, value, ttl=self._ttl, index=False))
        put_many(self._db, self._items, puts)

    @adapted
    def mdelete(self, keys: Sequence[str]) -> None:
        """Delete values; keys without one are skipped."""
        delete_many(self._db, self._items, self._namespace, key_list(keys))

    amset = in_thread(mset)
    amdelete = in_thread(mdelete)

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """Yield the keys that begin with *prefix*, in order; values are not read."""
        last = ""
        while page := self._call(partial(self._keys, prefix or "", last)):
            yield from page
            last = page[-1]

    def _keys(self, prefix: str, last: str) -> list[str]:
        return self._items.keys(self._namespace, prefix, after=last)


class MemdbCache(Namespaced, BaseCache):
    """
    The answers of models, for `set_llm_cache` or `cache=` of a model.

    An answer without a JSON form is not stored, and neither is one with a key or password if the
    file refuses those.
    """

    _NAMESPACE = ("langchain", "cache")

    @adapted
    def lookup(self, prompt: str, llm_string: str) -> list[Generation] | None:
        """Return the stored answer of a model to a prompt, None if there is none."""
        item = self._items.find(self._namespace, _key_of(prompt, llm_string))
        return None if item is None else _to_generations(unpack_value(item.value))

    @adapted
    def update(self, prompt: str, llm_string: str, return_val: Sequence[Generation]) -> None:
        """
        Store the answer of a model to a prompt, and replace an earlier one.

        An answer without a JSON form is not stored, and the call of the model continues.

        Raises:
            InvalidInput: *return_val* is not an answer of LangChain; nothing was written.
        """
        generations = [*return_val]
        for one in generations:
            if not isinstance(one, Generation):
                raise InvalidInput(f"{type(one).__name__} is not a Generation of LangChain")
        with suppress(SecretFound, TypeError, ValueError, RecursionError):  # also pydantic's
            value = pack_value([*map(_to_json, generations)], "the answer")
            key = _key_of(prompt, llm_string)
            self._items.put(self._namespace, key, value, ttl=self._ttl, index=False)

    @adapted
    def clear(self, **kwargs: Any) -> None:
        """Remove every answer; arguments have no effect."""
        del kwargs
        delete_all(self._db, self._items, self._namespace)

    aupdate = in_thread(update)
    aclear = in_thread(clear)


def _key_of(prompt: str, llm_string: str) -> str:
    """Return the key of an answer, because prompts are longer than keys can be."""
    pair = json.dumps([prompt, llm_string])
    return hashlib.sha256(pair.encode()).hexdigest()


def _to_json(generation: Generation) -> dict[str, Any]:
    kinds = (one.__name__ for one in type(generation).__mro__)
    kind = next(kind for kind in kinds if kind in GENERATIONS)
    value: dict[str, Any] = {"type": kind, "text": generation.text}
    if generation.generation_info is not None:
        value["generation_info"] = generation.generation_info
    if isinstance(generation, ChatGeneration):
        value["message"] = message_to_dict(generation.message)
    return value


def _to_generations(value: Any) -> list[Generation] | None:
    """Return the answers in an item; None if it contains something else."""
    try:
        return [*map(_to_generation, value)]
    except (LookupError, TypeError, ValueError, AttributeError):  # of another program
        return None


def _to_generation(data: dict[str, Any]) -> Generation:
    fields = {name: value for name, value in data.items() if name != "type"}
    if "message" in data:
        fields["message"] = messages_from_dict([data["message"]])[0]
    return GENERATIONS[data["type"]](**fields)
