"""
Items of checkpoints: their namespaces and keys, and where each part of a checkpoint is stored.

A key is the id of a checkpoint, followed by the kind of the item: the checkpoint, or the writes of
one task.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from memdb.errors import InvalidInput
from memdb.text.values import parse_path, values_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from langchain_core.runnables import RunnableConfig

    from memdb.models.items import Item

    Labels = tuple[str, ...]
    Group = tuple[Item, list[Item]]  # a checkpoint, the writes of its tasks
    Stored = dict[int, tuple[str, str, str, bytes]]  # by index: task path, channel, type, data

# Behind the id in a key: the writes of a task, the checkpoint, and what no key has.
WRITES, CHECKPOINT, END = "\1", "\2", "\3"

# What the namespace of large values begins with behind the thread, and how large they are: each is
# stored once for all checkpoints that have this version of the channel.
BLOBS, BLOB_BYTES = "\4", 4096

# Bytes that begin with NUL are no text: they come back as they are, whatever is done to texts.
BINARY = b"\0"


def labels_of(config: RunnableConfig) -> Labels:
    """Return the namespace of the checkpoints of a config."""
    try:
        configurable = config["configurable"]
        thread, space = str(configurable["thread_id"]), configurable.get("checkpoint_ns", "")
    except (KeyError, TypeError, AttributeError) as error:
        configurable_of(config)
        raise InvalidInput(
            "config has no thread_id: give {'configurable': {'thread_id': ...}}"
        ) from error
    return (thread, space) if space else (thread,)


def blobs_of(labels: Labels) -> Labels:
    """Return the namespace of the large values of a namespace of checkpoints."""
    return (labels[0], BLOBS + "".join(labels[1:]))


def channels_of(item: Item | None) -> dict[str, list[str]]:
    """Return the channels whose values stand beside a checkpoint: version, key and type of each."""
    return {} if item is None else (item.metadata or {}).get("channels") or {}


def configurable_of(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the fields of a config about checkpoints; {} if there are none."""
    found = (config or {}).get("configurable") or {}
    if not isinstance(found, dict):
        raise InvalidInput(f"configurable is {type(found).__name__}: give a dict")
    return found


def config_of(labels: Labels, checkpoint_id: str) -> RunnableConfig:
    """Return the config of a checkpoint."""
    space = labels[1] if len(labels) > 1 else ""
    ids = {"thread_id": labels[0], "checkpoint_ns": space, "checkpoint_id": checkpoint_id}
    return {"configurable": ids}


def key_of(checkpoint_id: str, rest: str) -> str:
    """Return the key of a checkpoint or of writes."""
    if not isinstance(checkpoint_id, str) or not checkpoint_id:
        raise InvalidInput(f"checkpoint id is {checkpoint_id!r:.64}: give a text")
    if WRITES in checkpoint_id or CHECKPOINT in checkpoint_id or END in checkpoint_id:
        raise InvalidInput("checkpoint id contains a control character: remove it")
    return checkpoint_id + rest


def key_range(checkpoint_id: str | None, before: str | None = None) -> tuple[str, str] | None:
    """Return the range of keys of a checkpoint and its writes, up to the start of *before*."""
    low = key_of(checkpoint_id, WRITES) if checkpoint_id else WRITES
    ends = [key_of(checkpoint_id, END)] if checkpoint_id else []
    ends += [key_of(before, WRITES)] if before else []
    return (low, min(ends)) if ends else None


def is_checkpoint(item: Item) -> bool:
    """Return whether an item is a checkpoint, and not the writes of a task."""
    return item.key[-1] == CHECKPOINT and WRITES not in item.key


def id_of(item: Item) -> str:
    """Return the id of the checkpoint that an item is, or belongs to."""
    return item.key.partition(WRITES)[0].rstrip(CHECKPOINT)


def task_of(item: Item) -> str:
    """Return the id of the task whose writes are in an item."""
    return item.key.partition(WRITES)[2]


def pack_writes(writes: Stored) -> dict[str, Any]:
    """Return the writes of a task as arguments of a put: their bytes, and what each is."""
    about = [[index, *one[:3], len(one[3])] for index, one in writes.items()]
    return {
        "value": BINARY + b"".join(one[3] for one in writes.values()),
        "metadata": {"writes": about},
        "index": False,
    }


def unpack_writes(item: Item) -> Iterator[tuple[int, tuple[str, str, str, bytes]]]:
    """Yield the writes of a task by index."""
    start = len(BINARY)
    for index, path, channel, kind, size in (item.metadata or {})["writes"]:
        yield index, (path, channel, kind, item.value[start : start + size])
        start += size


def plain_metadata(metadata: Mapping[str, Any]) -> Any:
    """Return metadata as JSON values without lone surrogates, as LangGraph's savers store it."""
    try:
        return json.loads(json.dumps(metadata, ensure_ascii=False).encode("utf-8", "ignore"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"metadata has no JSON form ({error}): use plain values") from error


def metadata_of(item: Item) -> dict[str, Any]:
    """Return the metadata that LangGraph passed with a checkpoint."""
    return dict((item.metadata or {})["metadata"])


def filter_steps(name: str) -> tuple[Any, ...]:
    """
    Return the steps of a name in a filter, which are separated by dots.

    Raises:
        ValueError: the name has another form.
    """
    try:
        return parse_path(name, "filter")
    except InvalidInput as error:
        raise InvalidInput(f"Invalid filter key: {error}") from error


def is_match(item: Item, wanted: Mapping[str, tuple[tuple[Any, ...], Any]]) -> bool:
    """Return whether the metadata of a checkpoint has values, by name or by its steps."""
    metadata = metadata_of(item)
    return all(
        metadata[name] == value
        if name in metadata
        else next(values_at(metadata, steps), None) == value
        for name, (steps, value) in wanted.items()
    )
