"""How far a call travels: the functions between `session.append` and the disk."""

import sys
from pathlib import Path
from types import FrameType

import memdb

# Functions and files of an append to an open file. They only fall, to 70 and 18.
MOST = (95, 33)


def test_an_append_runs_few_functions(tmp_path: Path) -> None:
    """Each of them is a step that a reader of the call passes."""
    root = str(Path(memdb.__file__).parent)
    passed: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(root):
            passed.add((code.co_filename, code.co_qualname))

    with memdb.open(tmp_path / "agent.db", settings={"extract": False}) as db:
        trip = db.user("ann").session("trip")
        trip.extend([{"role": "user", "text": "hi"}])
        trip.append("user", "hi")
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            trip.append("user", "hi")
        finally:
            sys.setprofile(before)

    functions, files = len(passed), len({file for file, _ in passed})
    assert (functions <= MOST[0], files <= MOST[1]) == (True, True), (functions, files)
