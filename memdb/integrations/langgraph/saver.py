"""
Checkpoints of LangGraph as items: one per checkpoint, and one per task with its writes.

The namespace is the thread, and below it the checkpoint namespace of a subgraph. Keys begin with
the checkpoint's id, so a checkpoint and its writes are one range of keys, and the latest ones come
last.
"""

from __future__ import annotations

import heapq
import random
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from itertools import chain, islice, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langchain_core.messages import BaseMessage, message_to_dict
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)

from memdb.adapters.adapter import ScopedAdapter, in_thread
from memdb.adapters.batches import key_list
from memdb.adapters.host import mirror
from memdb.errors import VersionConflict
from memdb.integrations.langgraph.checkpoints import (
    BINARY,
    BLOB_BYTES,
    BLOBS,
    CHECKPOINT,
    WRITES,
    blobs_of,
    channels_of,
    config_of,
    configurable_of,
    filter_steps,
    id_of,
    is_checkpoint,
    is_match,
    key_of,
    key_range,
    labels_of,
    metadata_of,
    pack_writes,
    plain_metadata,
    task_of,
    unpack_writes,
)
from memdb.integrations.langgraph.recent import RecentCheckpoints
from memdb.models.items import DeleteItem, FindItem, PutItem
from memdb.records.scopes import name_part
from memdb.text.validate import int_value

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        DeltaChannelHistory,
        PendingWrite,
        SerializerProtocol,
    )

    from memdb.adapters.adapter import Source
    from memdb.integrations.langgraph.checkpoints import Group, Labels, Stored
    from memdb.models.items import Item
    from memdb.models.reports import ChangeMark

# What writes are sorted by: task path, task, index.
_place = itemgetter(0, 1, 2)

# Items per read: for the latest checkpoint, its writes and what follows; at most; per change.
LATEST, PAGE, CHANGED_AT_ONCE = 3, 500, 1_000

# Checkpoints that `alist` reads per visit of its thread.
LISTED_AT_ONCE = 50
MAX_LIMIT = 1 << 31

# The channel of a conversation, and threads whose messages are compared with the last ones.
MESSAGES, KNOWN_THREADS = "messages", 32

# What a run is known by in metadata.
RUN_ID = (str, int, float)


class MemdbSaver(ScopedAdapter, BaseCheckpointSaver[str]):
    """
    A checkpointer of LangGraph, for threads and event loops alike.

    >>> from langgraph.checkpoint.base import empty_checkpoint
    >>> with MemdbSaver(":memory:") as saver:
    ...     config = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
    ...     put = saver.put(config, empty_checkpoint(), {"source": "input", "step": -1}, {})
    ...     saver.get_tuple(config).metadata["step"]
    -1
    """

    def __init__(
        self,
        source: Source,
        *,
        serde: SerializerProtocol | None = None,
        user: str | None = None,
        app: str | None = None,
        sessions: bool | None = None,
        **options: Any,
    ) -> None:
        """
        Use a memdb file.

        Args:
            source: A path, or an open `memdb.MemDB` or `memdb.aio.MemDB`.
            serde: Turns checkpoints into bytes and back. None means LangGraph's own.
            user: The user whose checkpoints they are. None means MEMDB_USER, or "default".
            app: The program; its checkpoints are items of the part `APP (checkpoints)`. None means
                MEMDB_APP, or "default".
            sessions: Whether to store the channel `messages` of a graph also in the session of
                *app* with the thread's id. `recall` and every other client find it there. None
                means True without a *serde*, because a serde may be meant to encrypt the messages.
            options: For `memdb.open`, with a path.
        """
        ScopedAdapter.__init__(self, source, user=user, app=app, **options)
        BaseCheckpointSaver.__init__(self, serde=serde)
        part = name_part(self._scope.app, "checkpoints")
        self._items = self._db.scope(self._scope.user, part).items
        self._has_sessions = serde is None if sessions is None else sessions
        # By thread, the messages that its session has: they are compared and not stored again.
        self._known: dict[str, dict[str | None, BaseMessage]] = {}
        self._recent = RecentCheckpoints(self._db)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint of a config, or without an id the latest; None if there is none."""
        labels, checkpoint_id = labels_of(config), get_checkpoint_id(config)
        is_known, group, mark = self._recent.find(labels, checkpoint_id)
        if not is_known:
            group = self._call(partial(self._find_group, labels, checkpoint_id, mark))
        if group is None:
            return None
        loaded = self._load(labels, *group, config if checkpoint_id else None)
        return loaded._replace(metadata=deepcopy(loaded.metadata))  # the group may be kept

    def _find_group(
        self, labels: Labels, checkpoint_id: str | None, mark: ChangeMark | None
    ) -> Group | None:
        """
        Return a checkpoint with its writes, or without an id the latest.

        None if there is none. *mark* was taken before.
        """
        if checkpoint_id:
            return next(self._groups(labels, key_range(checkpoint_id), PAGE), None)
        walk = self._walk(labels, None, LATEST)
        first = next(walk, None)
        group = None if first is None else next(_grouped(chain([first], walk)), None)
        # Otherwise a checkpoint comes whose writes are there already.
        if first is None or (group is not None and group[0] is first):
            self._recent.keep(mark, labels, group)
        return group

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 (LangGraph's name)
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """
        Yield checkpoints, highest ids first.

        Args:
            config: Only checkpoints of its thread, its checkpoint namespace and its checkpoint id,
                as far as it has them. None means all threads.
            filter: Only checkpoints whose metadata has these values; dots lead into objects.
            before: Only checkpoints with a lower id than that of this config.
            limit: Most checkpoints. None means all.
        """
        self._refuse_closed()
        if limit is not None:
            limit = max(0, int_value(limit, "limit", -MAX_LIMIT, MAX_LIMIT))
        chosen = self._choose(config, before, 2 * limit + 1 if limit is not None else PAGE)
        wanted = {name: (filter_steps(name), value) for name, value in (filter or {}).items()}
        matching = (one for one in chosen if not wanted or is_match(one[1][0], wanted))
        for labels, group in islice(matching, limit):
            yield self._load(labels, *group)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint, replacing one with its id; return its config."""
        configurable = config["configurable"]
        labels, said = labels_of(config), checkpoint["channel_values"].get(MESSAGES)
        add, messages = self._new_said(labels, said)
        about = {
            "parent": configurable.get("checkpoint_id") or None,
            "metadata": plain_metadata(get_checkpoint_metadata(config, metadata)),
        }
        commits = self._recent.commits
        stored = self._call(partial(self._store, labels, checkpoint, about, new_versions, add))
        self._recent.note(commits, stored)
        if messages:
            self._known.pop(labels[0], None)
            self._known[labels[0]] = messages
            if len(self._known) > KNOWN_THREADS:
                del self._known[next(iter(self._known))]
        return {
            "configurable": {
                "thread_id": configurable["thread_id"],
                "checkpoint_ns": configurable.get("checkpoint_ns", ""),
                "checkpoint_id": checkpoint["id"],
            }
        }

    def _store(
        self,
        labels: Labels,
        checkpoint: Checkpoint,
        about: dict[str, Any],
        new_versions: ChannelVersions,
        add: Callable[[], None] | None,
    ) -> Item:
        """Store a checkpoint, without large values that its parent already has; return its item."""
        values, versions = {**checkpoint["channel_values"]}, checkpoint["channel_versions"]
        parent, space, channels = about["parent"], blobs_of(labels), {}
        large: list[PutItem] = []
        versioned = [one for one in values if versions.get(one) is not None]
        for channel in [one for one in versioned if one in new_versions]:
            kind, data = self.serde.dumps_typed(values[channel])
            if len(data) >= BLOB_BYTES:
                channels[channel] = [str(versions[channel]), uuid4().hex, kind]
                large.append(PutItem(space, channels[channel][1], BINARY + data, index=False))
                del values[channel]
        # Others may be large values that the parent has.
        others = [one for one in versioned if one not in new_versions]
        is_looking = bool(parent and others) and not self._recent.is_small(labels, parent)
        is_alone = not (large or add or is_looking)
        with nullcontext() if is_alone else self._db.transaction():
            if is_looking:
                known = channels_of(self._items.find(labels, key_of(parent, CHECKPOINT)))
                for channel in others:
                    if known.get(channel, [""])[0] == str(versions[channel]):
                        channels[channel] = known[channel]
                        del values[channel]
            kind, data = self.serde.dumps_typed({**checkpoint, "channel_values": values})
            metadata = {**about, "type": kind, **({"channels": channels} if channels else {})}
            key = key_of(checkpoint["id"], CHECKPOINT)
            if large:
                self._items.batch(large)
            stored = self._items.put(labels, key, BINARY + data, metadata=metadata, index=False)
            if add is not None:
                add()
        return stored

    def _new_said(
        self, labels: Labels, said: object
    ) -> tuple[Callable[[], None] | None, dict[str | None, BaseMessage]]:
        """
        Return a function that adds a thread's new messages to its session, or None.

        And all messages.
        """
        if not self._has_sessions or labels[1:] or not isinstance(said, (list, tuple)):
            return None, {}
        messages = {one.id: one for one in said if isinstance(one, BaseMessage)}
        known = self._known.get(labels[0], {})
        new = [
            (message_to_dict(one), one.id)
            for one in said
            if isinstance(one, BaseMessage)
            for before in (known.get(one.id) if one.id else None,)
            if before is not one and before != one
        ]
        if not new:
            return None, messages
        chat = self._scope.session(labels[0])
        return self._call(lambda: mirror(chat, new)), messages

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """
        Store the writes of a task, under its id and the place of each write.

        If a place already has a write, the new write is ignored. If all channels are special ones
        (errors, interrupts, resumes), the new write replaces the stored one.
        """
        if not writes:
            return
        is_replacing = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        new: Stored = {}
        for place, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, place)
            if is_replacing or index not in new:
                new[index] = (task_path, channel, *self.serde.dumps_typed(value))
        key = key_of(str(config["configurable"]["checkpoint_id"]), WRITES + str(task_id))
        commits = self._recent.commits
        stored = self._call(
            lambda: self._put_writes(labels_of(config), key, new, is_replacing=is_replacing)
        )
        self._recent.note(commits, stored)

    def _put_writes(self, labels: Labels, key: str, new: Stored, *, is_replacing: bool) -> Item:
        try:
            return self._items.put(labels, key, **pack_writes(new), expected=0)
        except VersionConflict:
            with self._db.transaction():
                item = self._items.find(labels, key)
                old = {} if item is None else dict(unpack_writes(item))
                both = {**old, **new} if is_replacing else {**new, **old}
                return self._items.put(labels, key, **pack_writes(both))

    def delete_thread(self, thread_id: str) -> None:
        """Delete the checkpoints and writes of a thread, and the session with its id."""
        thread = str(thread_id)

        def delete() -> None:
            with self._db.transaction():
                self._items.clear((thread,))
                if self._has_sessions:
                    self._scope.session(thread).delete()

        self._call(delete)
        self._known.pop(thread, None)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """
        Delete the checkpoints of runs, by the run_id of their metadata, with their writes.

        Cost: reads every checkpoint, 20 ms per 1,000.
        """
        doomed = {one for one in key_list(run_ids, "run_ids") if isinstance(one, RUN_ID)}

        def delete() -> None:
            with self._db.transaction():
                for labels in self._namespaces():
                    self._delete(
                        labels,
                        (
                            group
                            for group in self._groups(labels, None, PAGE)
                            for run_id in [metadata_of(group[0]).get("run_id")]
                            if isinstance(run_id, RUN_ID) and run_id in doomed
                        ),
                    )

        if doomed:
            self._call(delete)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy the checkpoints and writes of a thread to another, and replace equal ids there."""
        source, target = str(source_thread_id), str(target_thread_id)

        def copy() -> None:
            with self._db.transaction():
                for labels in self._all_namespaces((source,)):
                    page: list[Item] = []
                    while page := self._items.list(
                        labels, exact=True, after=page[-1] if page else None, limit=PAGE
                    ):
                        self._items.batch(
                            PutItem(
                                (target, *labels[1:]), one.key, one.value, one.metadata, index=False
                            )
                            for one in page
                        )

        if source != target:
            self._call(copy)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """
        Delete checkpoints of threads, with their writes.

        Args:
            strategy: "keep_latest" keeps the latest checkpoint of each namespace, and the earlier
                ones that its delta channels need; "delete" keeps none.

        Raises:
            ValueError: the strategy is unknown.
        """
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"strategy is {strategy!r}: use 'keep_latest' or 'delete'")

        threads = [*map(str, key_list(thread_ids, "thread_ids"))]

        def delete_old(labels: Labels) -> None:
            groups = self._groups(labels, None, LATEST)
            latest = next(groups, None)
            if latest is not None:
                kept = self._needed(labels, latest)
                self._delete(
                    labels,
                    (one for one in self._groups(labels, None, PAGE) if id_of(one[0]) not in kept),
                )

        def prune() -> None:
            with self._db.transaction():
                for thread_id in threads:
                    if strategy == "delete":
                        self._items.clear((thread_id,))
                        continue
                    for labels in self._namespaces((thread_id,)):
                        delete_old(labels)

        self._call(prune)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """
        Return the changes of channels since they were last stored whole, and that value.

        The call walks the parents of the config's checkpoint, each once.
        """
        target = self.get_tuple(config) if channels else None
        missing = dict.fromkeys(channels)
        writes: dict[str, list[list[PendingWrite]]] = {channel: [] for channel in channels}
        seeds: dict[str, Any] = {}
        for one in self._parents(target):
            for channel in missing:
                own = [write for write in one.pending_writes or () if write[1] == channel]
                writes[channel].append(own)
            values = one.checkpoint["channel_values"]
            seeds |= {channel: values[channel] for channel in missing if channel in values}
            missing = {channel: None for channel in missing if channel not in values}
            if not missing:
                break
        return {
            channel: {
                "writes": [write for own in reversed(writes[channel]) for write in own],
                **({"seed": seeds[channel]} if channel in seeds else {}),
            }
            for channel in channels
        }

    def get_next_version(self, current: str | int | None, channel: None) -> str:  # noqa: ARG002 (LangGraph gives it)
        """Return a version after *current* that no other process makes too."""
        number = 0 if current is None else int(str(current).split(".", maxsplit=1)[0])
        return f"{number + 1:032}.{random.random():016}"

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 (LangGraph's name)
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Do as `list`, in a thread."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while page := await self._read(lambda: [*islice(found, LISTED_AT_ONCE)]):
            for one in page:
                yield one

    aget_tuple = in_thread(get_tuple, "read")
    aput = in_thread(put)
    aput_writes = in_thread(put_writes)
    adelete_thread = in_thread(delete_thread)
    adelete_for_runs = in_thread(delete_for_runs)
    acopy_thread = in_thread(copy_thread)
    aprune = in_thread(prune)
    aget_delta_channel_history = in_thread(get_delta_channel_history, "read")

    def _groups(
        self, labels: Labels, between: tuple[str, str] | None, size: int
    ) -> Iterator[Group]:
        """Return an iterator over checkpoints with their writes, the last ids first."""
        return _grouped(self._walk(labels, between, size))

    def _walk(self, labels: Labels, between: tuple[str, str] | None, size: int) -> Iterator[Item]:
        """Yield the items of a namespace of checkpoints, the last keys first."""
        after: Item | None = None
        while True:
            page = self._items.list(
                labels, exact=True, between=between, after=after, limit=size, descending=True
            )
            yield from page
            if len(page) < size:
                return
            after, size = page[-1], min(4 * size, PAGE)

    def _choose(
        self, config: RunnableConfig | None, before: RunnableConfig | None, size: int
    ) -> Iterator[tuple[Labels, Group]]:
        """Return an iterator over the candidates of `list`, by id."""
        ids = (configurable_of(one).get("checkpoint_id") for one in (config, before))
        between = key_range(*ids)
        configurable = configurable_of(config)
        if configurable.get("checkpoint_ns") is not None:
            spaces = [labels_of(config)]
        else:
            thread = (str(configurable["thread_id"]),) if "thread_id" in configurable else ()
            spaces = [*self._namespaces(thread)]
        walks = [
            zip(repeat(labels), self._groups(labels, between, min(size, PAGE))) for labels in spaces
        ]
        return heapq.merge(*walks, key=lambda one: one[1][0].key, reverse=True)

    def _namespaces(self, prefix: Labels = ()) -> Iterator[Labels]:
        """Yield the namespaces that contain checkpoints."""
        for labels in self._all_namespaces(prefix):
            if not labels[-1].startswith(BLOBS):
                yield labels

    def _all_namespaces(self, prefix: Labels = ()) -> Iterator[Labels]:
        """Yield the namespaces that contain checkpoints, and those of their large values."""
        page: list[Labels] = []
        while page := self._items.namespaces(prefix, after=page[-1] if page else None):
            yield from page

    def _load(
        self,
        labels: Labels,
        item: Item,
        writes: Iterable[Item],
        config: RunnableConfig | None = None,
    ) -> CheckpointTuple:
        """Return a checkpoint with the writes of its tasks in the order of their paths."""
        about: Any = item.metadata
        parent = about["parent"]
        load = self.serde.loads_typed
        stored = [
            (path, task, index, channel, load((kind, data)))
            for one in writes
            for task in (task_of(one),)
            for index, (path, channel, kind, data) in unpack_writes(one)
        ]
        stored.sort(key=_place)
        checkpoint = load((about["type"], item.value[1:]))
        if channels := channels_of(item):
            space, named = blobs_of(labels), [*channels.items()]
            blobs = self._items.batch([FindItem(space, key) for _, (_, key, _) in named])
            checkpoint["channel_values"] |= {
                channel: load((kind, blob.value[1:]))
                for (channel, (_, _, kind)), blob in zip(named, blobs, strict=True)
                if blob is not None  # forgotten since
            }
        return CheckpointTuple(
            config or config_of(labels, item.key[:-1]),
            checkpoint,
            about["metadata"],
            config_of(labels, parent) if parent else None,
            [(task, channel, value) for _, task, _, channel, value in stored],
        )

    def _parents(self, target: CheckpointTuple | None) -> Iterator[CheckpointTuple]:
        """Yield the parent of a checkpoint, its parent and so on, each once."""
        walked = set()
        while target is not None and target.parent_config is not None:
            walked.add(target.checkpoint["id"])
            target = self.get_tuple(target.parent_config)
            if target is None or target.checkpoint["id"] in walked:
                return
            yield target

    def _needed(self, labels: Labels, latest: Group) -> set[str]:
        """Return the id of a checkpoint, and of those that its delta channels need."""
        target = self._load(labels, *latest)
        needed, missing = {id_of(latest[0])}, _delta_channels(target)
        for parent in self._parents(target) if missing else ():
            needed.add(parent.config["configurable"]["checkpoint_id"])
            missing -= parent.checkpoint["channel_values"].keys()
            if not missing:
                break
        return needed

    def _delete(self, labels: Labels, groups: Iterable[Group]) -> None:
        """Delete checkpoints of a namespace with their writes; for inside a transaction."""
        doomed = [item for found, writes in groups for item in (found, *writes)]
        for start in range(0, len(doomed), CHANGED_AT_ONCE):
            self._items.batch(
                DeleteItem(item.namespace, item.key)
                for item in doomed[start : start + CHANGED_AT_ONCE]
            )
        unused = {key for item in doomed for _, key, _ in channels_of(item).values()}
        for kept, _ in self._groups(labels, None, PAGE) if unused else ():
            unused -= {key for _, key, _ in channels_of(kept).values()}
        for key in unused:
            self._items.delete(blobs_of(labels), key)


def _grouped(items: Iterable[Item]) -> Iterator[Group]:
    """Yield checkpoints with their writes, from items with the last keys first."""
    found: Item | None = None
    writes: list[Item] = []
    for item in items:
        if is_checkpoint(item):
            if found is not None:
                yield found, writes
            found, writes, own = item, [], item.key[:-1] + WRITES
        elif found is not None and item.key.startswith(own):
            writes.append(item)
    if found is not None:
        yield found, writes


def _delta_channels(target: CheckpointTuple) -> set[str]:
    """Return the channels of a checkpoint that are stored as the changes since a snapshot."""
    counted = target.metadata.get("counters_since_delta_snapshot") or {}
    return {*counted} - {*target.checkpoint["channel_values"]}
