"""The fixtures of `agent_samples`."""

from agent_samples import db, home

__all__ = ["db", "home"]
