"""
Checkpoints of LangGraph as items: one per checkpoint, and one per task with its writes.

The namespace is the thread, and below it the checkpoint namespace of a subgraph. Keys begin
with the checkpoint's id, so that a checkpoint and its writes are one range of keys, and the
latest ones are the last.
"""

from __future__ import annotations

import heapq
import random
from functools import partial
from itertools import islice, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)

from memdb.adapters.adapter import Adapter, in_thread
from memdb.adapters.batches import key_list
from memdb.adapters.host import HostFile
from memdb.errors import VersionConflict
from memdb.integrations.langgraph.checkpoints import (
    BINARY,
    CHECKPOINT,
    WRITES,
    config_of,
    configurable_of,
    filter_steps,
    id_of,
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
from memdb.models.items import DeleteItem, PutItem
from memdb.records.scopes import name_part
from memdb.text.validate import int_value

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

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
    from memdb.integrations.langgraph.checkpoints import Labels, Stored
    from memdb.models.items import Item

    Group = tuple[Item, list[Item]]  # a checkpoint, the writes of its tasks

# What writes are sorted by: task path, task, index.
_place = itemgetter(0, 1, 2)

# Items per read: for the latest checkpoint, its writes and what follows; at most; per change.
LATEST, PAGE, CHANGED_AT_ONCE = 3, 500, 1_000

# Checkpoints that `alist` reads per visit of its thread.
LISTED_AT_ONCE = 50
MAX_LIMIT = 1 << 31

# What a run is known by in metadata.
RUN_ID = (str, int, float)


class MemdbSaver(Adapter, BaseCheckpointSaver[str]):
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
        user: str = "default",
        app: str = "langgraph",
        **options: Any,
    ) -> None:
        """
        Use a memdb file.

        Args:
            source: A path, or an open `memdb.MemDB` or `memdb.aio.MemDB`.
            serde: Turns checkpoints into bytes and back. None means LangGraph's own.
            user: Whose checkpoints they are.
            app: They are items of its part `APP (checkpoints)`.
            options: For `memdb.open`, with a path.
        """
        Adapter.__init__(self, source, **options)
        BaseCheckpointSaver.__init__(self, serde=serde)
        self._items = self._db.scope(user, name_part(app, "checkpoints")).items
        # What `get_tuple` read last, and at which stamp of the file: a state is asked for again
        # and again while a graph waits for a person.
        self._read_last: tuple[Any, Group | None] = (None, None)
        self._is_watching = False

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint of a config, the latest without an id; None without one."""
        labels, checkpoint_id = labels_of(config), get_checkpoint_id(config)
        wanted = (HostFile(self._db).stamp(), labels, checkpoint_id)
        asked, group = self._read_last
        if asked != wanted or wanted[0] is None:  # a closed file has no stamp either
            group = self._call(partial(self._find_group, labels, checkpoint_id))
            self._read_last = (wanted, group)
        if group is None:
            return None
        return self._load(labels, *group, config if checkpoint_id else None)

    def _find_group(self, labels: Labels, checkpoint_id: str | None) -> Group | None:
        """Return a checkpoint with its writes, the latest without an id; None without one."""
        if not self._is_watching:  # from here on a stamp tells whether the file has changed
            self._is_watching = True
            HostFile(self._db).mark()
        between = key_range(checkpoint_id) if checkpoint_id else None
        return next(self._groups(labels, between, PAGE if checkpoint_id else LATEST), None)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 (LangGraph's name)
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """
        Yield checkpoints, those with the last id first.

        Args:
            config: Only those of its thread, of its checkpoint namespace if it has one, and
                with its checkpoint id. None means all threads.
            filter: Only those whose metadata has these values; dots lead into objects.
            before: Only those with a lower id than the one of this config.
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
        new_versions: ChannelVersions,  # noqa: ARG002 (values are stored with each checkpoint)
    ) -> RunnableConfig:
        """Store a checkpoint, replacing one with its id; return its config."""
        configurable = config["configurable"]
        kind, data = self.serde.dumps_typed(checkpoint)
        about = {
            "type": kind,
            "parent": configurable.get("checkpoint_id") or None,
            "metadata": plain_metadata(get_checkpoint_metadata(config, metadata)),
        }
        key, labels = key_of(checkpoint["id"], CHECKPOINT), labels_of(config)
        self._call(lambda: self._items.put(labels, key, BINARY + data, metadata=about, index=False))
        return {
            "configurable": {
                "thread_id": configurable["thread_id"],
                "checkpoint_ns": configurable.get("checkpoint_ns", ""),
                "checkpoint_id": checkpoint["id"],
            }
        }

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """
        Store what a task wrote, under its id and the place of each write.

        A write at a place that has one is ignored; if all channels are special ones
        (errors, interrupts, resumes), it replaces it.
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
        self._call(lambda: self._put_writes(labels_of(config), key, new, is_replacing=is_replacing))

    def _put_writes(self, labels: Labels, key: str, new: Stored, *, is_replacing: bool) -> None:
        try:
            self._items.put(labels, key, **pack_writes(new), expected=0)
        except VersionConflict:
            with self._db.transaction():
                item = self._items.find(labels, key)
                old = {} if item is None else dict(unpack_writes(item))
                both = {**old, **new} if is_replacing else {**new, **old}
                self._items.put(labels, key, **pack_writes(both))

    def delete_thread(self, thread_id: str) -> None:
        """Delete the checkpoints and writes of a thread."""
        self._call(lambda: self._items.clear((str(thread_id),)))

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
                        group
                        for group in self._groups(labels, None, PAGE)
                        for run_id in [metadata_of(group[0]).get("run_id")]
                        if isinstance(run_id, RUN_ID) and run_id in doomed
                    )

        if doomed:
            self._call(delete)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy the checkpoints and writes of a thread to another, whose equal ids they replace."""
        source, target = str(source_thread_id), str(target_thread_id)

        def copy() -> None:
            with self._db.transaction():
                for labels in self._namespaces((source,)):
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
            strategy: "keep_latest" leaves the latest checkpoint of each namespace, and those
                before it that its delta channels are rebuilt from; "delete" leaves none.

        Raises:
            ValueError: there is no such strategy.
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
                    one for one in self._groups(labels, None, PAGE) if id_of(one[0]) not in kept
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
        Return what channels got since they were last stored whole, and that value.

        Walks the parents of the config's checkpoint, each once.
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
        """Return a version behind *current*, which no other process makes too."""
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
        """Yield the checkpoints of a namespace with their writes, the last ids first."""
        found: Item | None = None
        writes: list[Item] = []
        after: Item | None = None
        while True:
            page = self._items.list(
                labels, exact=True, between=between, after=after, limit=size, descending=True
            )
            for item in page:
                if item.key[-1] == CHECKPOINT and WRITES not in item.key:
                    if found is not None:
                        yield found, writes
                    found, writes, own = item, [], item.key[:-1] + WRITES
                elif found is not None and item.key.startswith(own):
                    writes.append(item)
            if len(page) < size:
                break
            after, size = page[-1], min(4 * size, PAGE)
        if found is not None:
            yield found, writes

    def _choose(
        self, config: RunnableConfig | None, before: RunnableConfig | None, size: int
    ) -> Iterator[tuple[Labels, Group]]:
        """Return an iterator over what `list` may yield, by id."""
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
        """Yield the namespaces that hold checkpoints."""
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
        return CheckpointTuple(
            config or config_of(labels, item.key[:-1]),
            load((about["type"], item.value[1:])),
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
        """Return the id of a checkpoint, and of those that its delta channels are rebuilt from."""
        target = self._load(labels, *latest)
        needed, missing = {id_of(latest[0])}, _delta_channels(target)
        for parent in self._parents(target) if missing else ():
            needed.add(parent.config["configurable"]["checkpoint_id"])
            missing -= parent.checkpoint["channel_values"].keys()
            if not missing:
                break
        return needed

    def _delete(self, groups: Iterable[Group]) -> None:
        """Delete checkpoints with their writes; for inside a transaction."""
        doomed = [item for found, writes in groups for item in (found, *writes)]
        for start in range(0, len(doomed), CHANGED_AT_ONCE):
            self._items.batch(
                DeleteItem(item.namespace, item.key)
                for item in doomed[start : start + CHANGED_AT_ONCE]
            )


def _delta_channels(target: CheckpointTuple) -> set[str]:
    """Return the channels of a checkpoint that are stored as what they got since a snapshot."""
    counted = target.metadata.get("counters_since_delta_snapshot") or {}
    return {*counted} - {*target.checkpoint["channel_values"]}
