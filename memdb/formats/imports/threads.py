"""
Conversations that are trees, because a question was edited or an answer was repeated.

An export names the node before each node. The nodes on the screen come first, so they become the
session, and the others its branches (`memdb.transfer.messages`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    # By the id of each node, in the order of the export: the node before it; None for a first one.
    Parents = Mapping[str, str | None]


def parents_of(said: Iterable[tuple[str, str | None]]) -> dict[str, str | None]:
    """
    Return the node before each node; if the parent is absent, the one before it in the export.

    Args:
        said: Id and parent of each node, in the order of the export; None for a first node.
    """
    nodes = [*said]
    ids = {node for node, _ in nodes}
    parents: dict[str, str | None] = {}
    last = None
    for node, parent in nodes:
        parents.setdefault(node, parent if parent is None or parent in ids else last)
        last = node
    return parents


def way_to(parents: Parents, last: str | None) -> list[str]:
    """
    Return the nodes from the first one to *last*; an absent parent ends the path.

    Raises:
        InvalidInput: a node is its own ancestor.
    """
    way: list[str] = []
    seen: set[str] = set()
    while last is not None and last in parents:
        if last in seen:
            raise InvalidInput(f"node {last!r} is its own ancestor: export it again")
        seen.add(last)
        way.append(last)
        last = parents[last]
    way.reverse()
    return way


def last_nodes(parents: Parents) -> list[str]:
    """Return the nodes that no other node follows, in order."""
    inner = set(parents.values())
    return [node for node in parents if node not in inner]


def newest_last(parents: Parents, times: Mapping[str, int | None]) -> str | None:
    """
    Return the newest of the `last_nodes`, the later one of equal times, or None.
    """
    last = reversed(last_nodes(parents))
    return max(last, key=lambda node: times[node] or 0, default=None)


def in_order(parents: Parents, current: str | None) -> list[str]:
    """
    Return all nodes, each after its parent, and first those on the path to *current*.

    Nodes that are their own ancestors are left out, with all nodes after them.
    """
    found = way_to(parents, current)
    taken = set(found)
    children: dict[str | None, list[str]] = {}
    for node, parent in parents.items():
        children.setdefault(parent if parent in parents else None, []).append(node)
    waiting = children.get(None, [])[::-1]
    while waiting:
        node = waiting.pop()
        if node not in taken:
            found.append(node)
        waiting += children.get(node, [])[::-1]
    return found


def message_before(parents: Parents, node: str, ends: Mapping[str, str | None]) -> str | None:
    """
    Return the external id of the last message imported before a node; None if there is none.

    Args:
        ends: The last message of each node that was read, including those before *node*. A node
            without messages has the last message before it.
    """
    parent = parents[node]
    while parent is not None and parent in parents and parent not in ends:
        parent = parents[parent]
    return ends.get(parent) if parent is not None else None
