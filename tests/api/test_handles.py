"""A handle belongs to its open file."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

from memdb import MemDB


def test_no_handle_is_pickled_or_copied(open_db: Callable[..., MemDB]) -> None:
    """The error says what to do; it is the same for everything that belongs to an open file."""
    db = open_db(":memory:", embedder=None)
    ann = db.scope("ann")
    chat = ann.session("s")
    handles: list[Any] = [db, db.file, db.jobs, db.settings, ann, ann.entries, ann.items, ann.state]
    handles += [chat, chat.artifacts, chat.summaries, chat.tools()]
    wrong = []
    for handle in handles:
        for copied in (pickle.dumps, copy.copy, copy.deepcopy):
            try:
                copied(handle)
                wrong.append(f"{handle!r} is copied")
            except TypeError as error:
                wrong += [] if "pass its path" in str(error) else [f"{handle!r}: {error}"]

    assert wrong == []
