"""
A server against a file: the same answers, and what they cost, in one run.

    python bench/engines.py [--agree [--folder FOLDER]] [--messages N] [--address POSTGRESQL://...]

`--agree` asks both LoCoMo's development questions, of FOLDER. Otherwise both hold N messages (1,000,000) in
scopes of 10,000, without vectors and with; the parts of a measurement take turns. Without an
address a server from PyPI is started on loopback, with fsync.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import corpus
import locomo_data
import units

import memdb

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.postgres_server import server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCOPE_MESSAGES, SESSION_MESSAGES, DEPTH = 10_000, 500, 10
BATCH = 1_000
CREATED_MS = 1_700_000_000_000


@contextmanager
def address_of(given: str | None) -> Iterator[str]:
    """Yield the address of a server: the given one, or of one that runs meanwhile."""
    if given is not None:
        yield given
        return
    with server(fsync="on", shared_buffers="1GB", max_wal_size="8GB") as found:
        yield found


def conversations(folder: Path) -> list[Path]:
    """Return the conversations of *folder*; ends the program if there are none."""
    found = locomo_data.files(folder)
    if not found:
        sys.exit(f"no conversations in {folder.name}: give --folder with LoCoMo's JSON files")
    return found


def compare(address: str, folder: Path, paths: list[Path]) -> None:
    """Print how often both give the same hits in the same order, and R@10 of each."""
    same = near = count = 0
    difference = 0.0
    right = [0.0, 0.0]
    with memdb.open(str(folder / "a.db")) as file, memdb.open(address) as there:
        for path in paths:
            for db in (file, there):
                scope = db.scope(path.stem)
                locomo_data.load(scope, path)
                db.jobs.run()
            known = {f"D{session}:{seq}" for session in range(1, 60) for seq in range(1, 100)}
            for text, _, evidence in locomo_data.questions(path, known):
                answers = [
                    {
                        f"D{hit.source.session.removeprefix('session_')}:{hit.source.seq}": hit.score
                        for hit in db.scope(path.stem).recall(
                            text, kinds=["message"], limit=DEPTH, min_score=0
                        )
                    }
                    for db in (file, there)
                ]
                ids = [list(answer) for answer in answers]
                count += 1
                same += ids[0] == ids[1]
                near += set(ids[0]) == set(ids[1])
                for place in range(2):
                    right[place] += len(evidence.intersection(ids[place])) / len(evidence)
                for key in answers[0].keys() & answers[1].keys():
                    difference = max(difference, abs(answers[0][key] - answers[1][key]))
                if ids[0] != ids[1]:
                    print("differs:", text, ids, file=sys.stderr)
    print(
        f"questions {count}, same hits in the same order {same / count:.4f}, same {near / count:.4f}"
    )
    print(f"largest difference of a score {difference:.2e}")
    print("R@10: file {:.4f}, server {:.4f}".format(*(one / count for one in right)))


def fill(db: memdb.MemDB, texts: list[str]) -> float:
    """Store *texts* in scopes of 10,000, embedded; return the messages per second."""
    begun = time.perf_counter()
    for start in range(0, len(texts), SESSION_MESSAGES):
        number = start // SCOPE_MESSAGES
        session = f"s{start % SCOPE_MESSAGES // SESSION_MESSAGES}"
        db.scope(f"user{number}").session(session).extend(
            [
                memdb.NewMessage("user", text, created_ms=CREATED_MS + 60_000 * place)
                for place, text in enumerate(texts[start : start + SESSION_MESSAGES])
            ]
        )
    return len(texts) / (time.perf_counter() - begun)


def in_turns(calls: dict[str, Callable[[int], object]], count: int) -> dict[str, list[float]]:
    """Return the sorted times in ms of *count* calls of each, which take turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(count):
        if number % 10 == 0:
            units.turn()
        for name, call in calls.items():
            begun = time.perf_counter()
            call(number)
            times[name].append(1000 * (time.perf_counter() - begun))
    return {name: sorted(some) for name, some in times.items()}


def show(what: str, times: dict[str, list[float]]) -> None:
    """Print the medians and the best tenth, and how the server's compare with the file's."""
    parts = [
        f"{name} p50 {statistics.median(some):.2f} ms, p10 {some[len(some) // 10]:.2f} ms"
        for name, some in times.items()
    ]
    medians = [statistics.median(some) for some in times.values()]
    tenths = [some[len(some) // 10] for some in times.values()]
    ratios = f"ratio p50 {medians[1] / medians[0]:.2f}, p10 {tenths[1] / tenths[0]:.2f}"
    print(f"{what:32} {'; '.join(parts)}; {ratios}", flush=True)


def measure(address: str, folder: Path, messages: int, calls: int) -> None:
    """Print what appends and recalls cost in each."""
    texts = corpus.texts(messages)
    for embedder in (None, "static"):
        with (
            memdb.open(str(folder / f"{embedder}.db"), embedder=embedder) as file,
            memdb.open(address, embedder=embedder) as there,
        ):
            both = {"file": file, "server": there}
            if embedder is None:
                for name, db in both.items():
                    print(f"load, {name}: {fill(db, texts):,.0f} messages/s", flush=True)
            else:
                for name, db in both.items():
                    begun = time.perf_counter()
                    if name == "file":
                        fill(db, texts[: 5 * SCOPE_MESSAGES])
                    done = db.jobs.run(limit=5 * SCOPE_MESSAGES)
                    print(f"embed, {name}: {time.perf_counter() - begun:.1f} s, {done}", flush=True)
            scopes = min(5, messages // SCOPE_MESSAGES)
            for what, queries in (
                ("recall, usual words", corpus.queries(calls)),
                ("recall, ten common words", corpus.common_queries(calls)),
            ):
                asked = {
                    name: lambda n, db=db, queries=queries, scopes=scopes: db.scope(
                        f"user{n % scopes}"
                    ).recall(queries[n])
                    for name, db in both.items()
                }
                in_turns(asked, 5)
                show(f"{what}, {embedder or 'no'} vectors", in_turns(asked, calls))
            appended = {
                name: lambda n, db=db: db.scope("user1").session("new").append("user", texts[n])
                for name, db in both.items()
            }
            in_turns(appended, 5)
            show(f"append, {embedder or 'no'} vectors", in_turns(appended, 10 * calls))
    print(units.line())


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agree", action="store_true")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--address")
    parser.add_argument("--folder", type=Path, default=locomo_data.FOLDER)
    given = parser.parse_args()
    paths = conversations(given.folder) if given.agree else []
    with address_of(given.address) as address, tempfile.TemporaryDirectory() as folder:
        if given.agree:
            compare(address, Path(folder), paths)
        else:
            measure(address, Path(folder), given.messages, given.calls)


if __name__ == "__main__":
    main()
