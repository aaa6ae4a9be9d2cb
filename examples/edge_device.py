"""
A device that measures, remembers and answers, on a board without a network.

    python examples/edge_device.py [FILE] [--rounds 60]

Readings expire after a week; what stands out is kept as a fact. The file is opened for fast
appends, without vectors, and copied to a backup at the end.
"""

import argparse
import math
from pathlib import Path

import memdb

WARM = 26.0


def measure(round_number: int) -> float:
    """Stand in for a sensor: degrees Celsius, warmest in the middle of 60 rounds."""
    return 22 + 5 * math.sin(math.pi * round_number / 60)


def run(db: memdb.MemDB, rounds: int) -> None:
    """Store the readings, and remember when it became too warm."""
    house = db.scope("house", app="thermometer")
    was_warm = bool(house.state.get("warm", False))
    for number in range(rounds):
        degrees = measure(number)
        with db.transaction():  # a reading and what it means are stored together, or neither
            house.items.put(("readings",), f"{number:06}", {"degrees": degrees}, ttl="7d")
            if (degrees > WARM) != was_warm:
                was_warm = degrees > WARM
                house.state["warm"] = was_warm
                text = f"The living room is {'above' if was_warm else 'below'} {WARM} degrees."
                house.remember(text, key="living_room")


def main() -> None:
    """Measure, then answer from what is stored."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?", default="house.db")
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    with memdb.open(
        options.file,
        durability="process",  # survives a crash of the program; "power" survives a power cut
        embedder=None,
        counter="estimate",
        settings={"entry_quota": 200},
    ) as db:
        run(db, options.rounds)
        house = db.scope("house", app="thermometer")
        warmest = house.items.list(("readings",), where={"degrees": {"$gt": WARM}}, limit=1000)
        print(len(warmest), "warm readings")
        for hit in house.recall("is the living room warm?", kinds=["entry"], limit=1):
            print(hit.text, [entry.text for entry in house.entries.replaced(hit.source.entry_id)])
        db.file.backup(Path(options.file).with_suffix(".backup.db"), replace=True)


if __name__ == "__main__":
    main()
