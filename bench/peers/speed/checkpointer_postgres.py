"""LangGraph's PostgresSaver: a checkpoint per message, whose one new value is the message."""

import sys
import time

import driver

STARTED = time.perf_counter()
import psycopg
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg.rows import dict_row


class Peer:
    def __init__(self, _folder: str) -> None:
        connection = psycopg.connect(
            sys.argv[2], autocommit=True, prepare_threshold=0, row_factory=dict_row
        )
        self.saver = PostgresSaver(connection)
        self.saver.setup()
        self.configs: dict[str, dict] = {}

    def put(self, row: dict) -> None:
        thread = f"{row['user']} {row['session']}"
        config = self.configs.get(thread) or {
            "configurable": {"thread_id": thread, "checkpoint_ns": ""}
        }
        version = f"{len(self.configs):032}.{row['id']}"
        checkpoint = empty_checkpoint() | {
            "channel_values": {"messages": [{"role": "user", "content": row["text"]}]},
            "channel_versions": {"messages": version},
        }
        metadata = {"source": "loop", "step": 1, "writes": {}, "parents": {}}
        self.configs[thread] = self.saver.put(config, checkpoint, metadata, {"messages": version})

    def last(self, asked: dict) -> None:
        thread = f"{asked['user']} {asked['session']}"
        found = self.saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
        assert found


driver.serve(Peer, "langgraph-checkpoint-postgres", STARTED)
