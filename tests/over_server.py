"""
What cannot hold over a server, each with its reason: `pytest --engine postgres` leaves it out.

All other tests are to pass there too; `docs/postgres.md` says what is different for users.
"""

from __future__ import annotations

# Fixtures that are about a file.
BY_FIXTURE = {
    "raw": "opens the file with SQLite itself",
}

# Folders and files of tests, from the longest name to the shortest.
BY_PLACE = {
    "tests/architecture/": "reads the source, whatever the engine",
    "tests/docs/": "reads pages, whatever the engine",
    "tests/engine/": "the engine of files, and tests of the server that choose theirs",
    "tests/faults/": "faults of files; those of servers are in tests/faults/postgres",
    "tests/fixtures/": "frozen files",
    "tests/hostile/": "files of strangers",
    "tests/integrations/": "clients have their own environments",
    "tests/search/test_snapshots.py": "counts the statements of SQLite",
}

# Single tests, by the end of their name.
BY_NAME = {
    "test_a_file_that_is_only_read_gives_its_items": "a backup is a file",
    "test_a_kept_keyword_without_spaces_between_words_is_still_found": "asks FTS5",
    "test_a_file_that_is_replaced_or_migrated_is_said": "writes the number of a file's format",
    "test_nothing_of_another_process_is_missed": "another process opens the path as a file",
    "test_export_overwrites_only_if_told_and_never_a_database": "a server is no file",
    "test_of_a_long_query_the_longest_words_are_looked_up": "counts the words asked of FTS5",
    "test_the_command_shows_it": "a command opens the path as a file",
}


def reason_for(place: str, name: str, fixtures: list[str]) -> str | None:
    """Return why a test cannot hold over a server, None if it has to."""
    for one, reason in BY_FIXTURE.items():
        if one in fixtures:
            return reason
    for one, reason in BY_PLACE.items():
        if place.startswith(one):
            return reason
    return BY_NAME.get(name.partition("[")[0])
