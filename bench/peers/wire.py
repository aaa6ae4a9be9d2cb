"""
How `bench/recall.py` speaks with a peer: JSON lines, one answer for each.

    {"op": "add", "scope": "ann", "items": [{"id", "session", "author", "role", "text", ...}]}
    {"op": "search", "scope": "ann", "query": "...", "limit": 20}

The answers are {"count": n} and {"ids": [...], "ms": 1.5}; a failing peer answers {"error": "..."}
and ends. A driver runs with the interpreter of its own environment, where memdb is not installed:
the embedder is taken from the checkout, since it needs no other package.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import time
from pathlib import Path

DIM = 128
ROOT = Path(__file__).resolve().parents[2]


def load_embedder():
    """Return a function from a text to its vector, the one that memdb uses."""
    sys.path.insert(0, str(ROOT))
    from memdb.embeddings.static_model import StaticEmbedder

    embed = StaticEmbedder().embed
    # A text without a word has no vector; peers ask for one all the same.
    nothing = [1.0] + [0.0] * (DIM - 1)

    def vector(text: str) -> list[float]:
        (found,) = embed([text])
        return list(struct.unpack(f"<{DIM}f", found)) if found else nothing

    vector("warm up")
    return vector


def said(item: dict) -> str:
    """Return what a peer is given of a message: who said it, and what."""
    return f"{item['author']}: {item['text']}" if item.get("author") else item["text"]


def serve(peer) -> None:
    """Answer until standard input ends; what a library prints goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if asked["op"] == "add":
                peer.add(asked["scope"], asked["items"])
                answer = {"count": len(asked["items"])}
            else:
                start = time.perf_counter()
                ids = peer.search(asked["scope"], asked["query"], asked["limit"])
                answer = {"ids": ids, "ms": (time.perf_counter() - start) * 1000}
        except Exception as error:  # noqa: BLE001 (whatever a foreign library raises)
            answer = {"error": f"{type(error).__name__}: {error}"}
        out.write(json.dumps(answer) + "\n")
        out.flush()
        if "error" in answer:
            sys.exit(1)
