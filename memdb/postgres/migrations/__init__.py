"""
The migration steps of a server's tables, each to the next format; README.md says how to write one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memdb.engine.steps import Step

# By the format that each leads to.
STEPS: dict[int, Step] = {}
