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
OF_FILES = "faults of the bytes of a file; those of servers are in tests/faults/postgres"
BY_PLACE = {
    "tests/agents/test_capture.py": "hooks are processes of their own, over a file of the user's",
    "tests/agents/test_hooks.py": "hooks are processes of their own, over a file of the user's",
    "tests/agents/test_install": "installs servers over a file of the user's",
    "tests/api/test_recovery.py": "recovers files",
    "tests/architecture/": "reads the source, whatever the engine",
    "tests/compat/": "other programs open the file",
    "tests/docs/": "reads pages, whatever the engine",
    "tests/engine/test_backup.py": "the engine of files",
    "tests/engine/test_count_use.py": "counts the rows that SQLite changed",
    "tests/engine/test_query.py": "queries in SQLite's words; see test_postgres_views.py",
    "tests/engine/test_transactions.py": "statements in SQLite's words; see test_postgres_engine.py",
    "tests/engine/test_upkeep.py": "merges parts and moves the log of a file",
    "tests/engine/test_dead_bytes.py": "the engine of files",
    "tests/engine/test_digests.py": "the engine of files",
    "tests/engine/test_engines_agree.py": "chooses its server itself",
    "tests/engine/test_errors.py": "the engine of files",
    "tests/engine/test_facts.py": "the engine of files",
    "tests/engine/test_gate.py": "the engine of files",
    "tests/engine/test_marker.py": "the engine of files",
    "tests/engine/test_migrations.py": "the engine of files",
    "tests/engine/test_modes.py": "the engine of files",
    "tests/engine/test_open.py": "the engine of files",
    "tests/engine/test_paths.py": "the engine of files",
    "tests/engine/test_platforms.py": "the engine of files",
    "tests/engine/test_postgres_changes.py": "chooses its server itself",
    "tests/engine/test_postgres_dialect.py": "chooses its server itself",
    "tests/engine/test_postgres_engine.py": "chooses its server itself",
    "tests/engine/test_postgres_migrations.py": "chooses its server itself",
    "tests/engine/test_postgres_tokens.py": "chooses its server itself",
    "tests/engine/test_postgres_views.py": "chooses its server itself",
    "tests/engine/test_pragmas.py": "the engine of files",
    "tests/engine/test_read_only.py": "the engine of files",
    "tests/engine/test_read_untouched.py": "the engine of files",
    "tests/engine/test_readers.py": "the engine of files",
    "tests/engine/test_round_trips.py": "chooses its server itself",
    "tests/engine/test_sketches.py": "the engine of files",
    "tests/engine/test_tail.py": "the engine of files",
    "tests/engine/test_vacuum.py": "the engine of files",
    "tests/engine/test_vectors.py": "the engine of files",
    "tests/engine/test_wal_sync.py": "the engine of files",
    "tests/engine/test_words.py": "the engine of files",
    "tests/examples/": "examples name their file",
    "tests/faults/postgres/": "chooses its servers itself",
    "tests/faults/test_copy": "chooses the engines of source and target itself",
    "tests/faults/test_busy.py": "SQLite itself holds the lock of the file",
    "tests/faults/test_connections.py": "connections and snapshots of a file, and its log",
    "tests/faults/test_corrupt_bytes.py": OF_FILES,
    "tests/faults/test_damaged_updates.py": OF_FILES,
    "tests/faults/test_file_gone.py": OF_FILES,
    "tests/faults/test_forget_faults.py": OF_FILES,
    "tests/faults/test_full_disk.py": OF_FILES,
    "tests/faults/test_inside_sqlite.py": OF_FILES,
    "tests/faults/test_interrupt.py": OF_FILES,
    "tests/faults/test_kill": OF_FILES,
    "tests/faults/test_nth_failure.py": OF_FILES,
    "tests/faults/test_power_loss.py": OF_FILES,
    "tests/faults/test_rot.py": OF_FILES,
    "tests/faults/test_signals.py": OF_FILES,
    "tests/fixtures/test_packs.py": "packs are files",
    "tests/hostile/": "files of strangers",
    "tests/integrations/": "clients have their own environments",
    "tests/search/test_snapshots.py": "counts the statements of SQLite",
}

# Single tests, by their name with or without parameters.
NO_FILE = "a server is no file"
BYTES = "the bytes of the disk are the server's; the receipt says so"
AT_THE_COMMIT = "rows are sent without waiting: what the schema refuses is said at the commit"
DAMAGES = "damages the indexes of a file"
DOCUMENT = "a file is named by its path"
BY_NAME = {
    "test_a_backup_beside_it_is_offered": NO_FILE,
    "test_a_blob_in_use_cannot_go": AT_THE_COMMIT,
    "test_a_copy_beside_the_file_is_searched": BYTES,
    "test_a_database_is_not_a_source": NO_FILE,
    "test_a_deleted_row_is_overwritten_at_once": BYTES,
    "test_a_dry_run_makes_no_file": NO_FILE,
    "test_a_file_that_is_only_read_gives_its_items": "a backup is a file",
    "test_a_file_that_is_replaced_is_told": NO_FILE,
    "test_a_file_that_was_replaced": NO_FILE,
    "test_a_full_disk_fails_everybody_who_waited": OF_FILES,
    "test_a_kept_keyword_without_spaces_between_words_is_still_found": "asks FTS5",
    "test_a_memdb_file_is_exported_first": NO_FILE,
    "test_a_missing_file_is_named_and_not_made": NO_FILE,
    "test_a_place_without_an_interpreter_says_what_was_not_read": BYTES,
    "test_a_reader_in_another_process_is_told_of": BYTES,
    "test_a_reader_that_stops_changes_no_finding": NO_FILE,
    "test_a_refusing_server_costs_quality_and_tells_no_key": "reads the bytes of the file",
    "test_a_version_is_never_replaced": AT_THE_COMMIT,
    "test_a_writer_in_another_process_is_told_of": BYTES,
    "test_another_thread_may_call_it_meanwhile": "a backup is a file",
    "test_it_is_refused_and_the_transaction_goes_on": "a server moves its WAL by itself",
    "test_the_asynchronous_file_refuses_the_same": "a server moves its WAL by itself",
    "test_changes_of_a_file_in_memory_are_not_seen": "a server has no databases in memory",
    "test_json_of_a_command_has_no_such_number": "a command opens the path as a file",
    "test_to_dict_has_no_number_that_a_browser_rounds": "rows of a server have no digests",
    "test_the_file_has_such_ids": "rows of a server have no digests",
    "test_looking_changes_nothing": "asks for the tables of SQLite",
    "test_the_first_key_finds_all_loaded": "another program opens the path as a file",
    "test_sigterm_lets_what_runs_end": "another program opens the path as a file",
    "test_bytes_that_are_no_text_name_their_column": "a server stores no such text",
    "test_a_write_changes_rows_and_leaves_the_file_sound[backup]": "a backup is a file",
    "test_a_write_changes_rows_and_leaves_the_file_sound[recover]": "recovers files",
    "test_a_write_goes_with_the_transaction_around_it[recover]": "recovers files",
    "test_check_in_memory_sees_the_same": "a server has no databases in memory",
    "test_words_of_archived_messages_are_compared_in_memory_too": DAMAGES,
    "test_add_is_held_to_the_schema": AT_THE_COMMIT,
    "test_add_of_a_taken_place_or_external_id_fails": AT_THE_COMMIT,
    "test_an_export_never_replaces_the_open_file": NO_FILE,
    "test_an_index_of_other_messages_is_found": DAMAGES,
    "test_an_owner_does_not_remember_what_was_undone": "a sequence gives no number twice",
    "test_another_name_of_the_open_file_is_known": NO_FILE,
    "test_backup": NO_FILE,
    "test_backup_does_not_write_over_a_file": NO_FILE,
    "test_backup_into_a_missing_folder": NO_FILE,
    "test_backup_onto_itself_is_refused": NO_FILE,
    "test_bytes_in_a_copy_are_told_of": BYTES,
    "test_damage_in_others_rows_harms_no_read": OF_FILES,
    "test_damage_in_others_rows_harms_no_removal": OF_FILES,
    "test_export_over_the_open_file": NO_FILE,
    "test_export_overwrites_only_if_told_and_never_a_database": NO_FILE,
    "test_forget_for_a_person": BYTES,
    "test_forget_golden": BYTES,
    "test_info_names_the_tables_of_others": "another program opens the file",
    "test_load_over_the_open_file": NO_FILE,
    "test_memdb_files_are_refused": NO_FILE,
    "test_nothing_is_left_without_a_proof": BYTES,
    "test_of_a_long_query_the_longest_words_are_looked_up": "counts the words asked of FTS5",
    "test_one_active_entry_has_a_key": AT_THE_COMMIT,
    "test_opening_a_foreign_file_raises_and_leaves_no_thread": NO_FILE,
    "test_reprs_name_what_they_are": DOCUMENT,
    "test_session_names_its_place": DOCUMENT,
    "test_sqlite_utils_gets_the_commands": "a plugin of a program that opens files",
    "test_the_command_line_takes_a_score": "a command opens the path as a file",
    "test_the_command_shows_it": "a command opens the path as a file",
    "test_the_commands": "a command opens the path as a file",
    "test_the_file_is_readable_without_memdb": "another program opens the file",
    "test_the_number_of_scopes_has_a_limit": "a sequence gives the numbers",
    "test_the_partial_file_is_never_a_database": NO_FILE,
    "test_the_proof_bites": BYTES,
    "test_the_proof_finds_a_copy_in_a_table_of_another_program": BYTES,
    "test_the_view_shows_an_id_of_another_program": "another program opens the file",
    "test_vacuum": NO_FILE,
}


def reason_for(place: str, name: str, fixtures: list[str]) -> str | None:
    """Return why a test cannot hold over a server, None if it has to."""
    for one, reason in BY_FIXTURE.items():
        if one in fixtures:
            return reason
    for one, reason in BY_PLACE.items():
        if place.startswith(one):
            return reason
    return BY_NAME.get(name) or BY_NAME.get(name.partition("[")[0])
