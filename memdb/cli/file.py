"""
Commands about the whole file: what it holds and what changed, its care, and its rescue.

`memdb info`, `stats`, `counts`, `changes`, `check`, `rebuild`, `backup`, `vacuum`, `query`,
`space`, `recover` and `restore`.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from memdb.api.file import File
from memdb.api.scope import Scope
from memdb.cli.base import DEFAULT_APP, confirm, scopes_to_dicts, size_of, verb
from memdb.cli.command import Noun
from memdb.cli.made import plain, remove
from memdb.cli.options import confirm_options, replace_option, text_or_stdin
from memdb.cli.output import (
    Column,
    Line,
    columns_of,
    note,
    one_line,
    print_facts,
    print_json_line,
    print_records,
    print_table,
    size,
    when,
)
from memdb.errors import NotFound, PortError, StorageError
from memdb.models.ids import MAX_SCOPE_NO
from memdb.models.keys import key_value, read_key_file
from memdb.models.record import counted
from memdb.models.vectors import MAX_DIM
from memdb.text.validate import is_address

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memdb.api.database import MemDB
    from memdb.cli.base import Call
    from memdb.models.messages import Finding, SpaceInfo
    from memdb.models.reports import Changes, FileInfo, Recovery, ScopeCounts, Stats, Upkeep


MAX_SCOPES = 20  # users that are listed for a person; --json has them all

# What to do next, by what is damaged, in the order in which it helps.
ADVICE = {
    "nothing": "What the file holds is sound. If you have read what may be lost, run ",
    "truth": "What was stored is damaged, run ",
    "schema": "The schema is not that of memdb, run ",
    "index": "An index is damaged, what was stored is not: run ",
}
_COMMAND = re.compile(r"memdb (\w+)[ A-Z]+(?:--\w+|(?<! ))")

FINDING_COLUMNS = (
    *columns_of("code=RULE damaged"),
    Column("FIXED BY", lambda one: " or ".join(_COMMAND.findall(one.remedy)) or "-"),
    Column("WHERE", lambda one: one.text),
)


@verb("memdb info agent.db", "memdb info agent.db --json", scope=False)
def info(call: Call) -> None:
    """Show what is in FILE: rows, bytes, times and whose memory it is."""
    with call.open() as db:
        found = db.file.info()
        scopes = scopes_to_dicts(db.scopes())
    call.reply({**found.to_dict(), "scopes": scopes}, lambda: _print_info(found, scopes))


def _readers(found: FileInfo) -> str:
    """Return who keeps a large WAL from being moved into the file."""
    if not found.wal_readers:
        return ""
    numbers = ", ".join(map(str, found.wal_readers))
    return f" (kept by readers in process {numbers}: it grows until they end)"


def _wal(found: FileInfo) -> str:
    """Return the size of the file's WAL. A server has one for all databases, so it is not shown."""
    return "" if is_address(found.path) else f", WAL {size(found.wal_bytes)}{_readers(found)}"


def _print_info(found: FileInfo, scopes: list[dict[str, str]]) -> None:
    users = [f"{scope['user'] or 'shared'} (app {scope['app']})" for scope in scopes[:MAX_SCOPES]]
    if len(scopes) > MAX_SCOPES:
        users.append(f"and {len(scopes) - MAX_SCOPES:,} more")
    first, last = when(found.oldest_ms), when(found.newest_ms)
    print_facts(
        [
            ("file", click.format_filename(found.path)),
            ("format", f"{found.format}{', encrypted' * found.is_encrypted}"),
            ("size", size(found.size_bytes) + _wal(found)),
            ("users", ", ".join(users) or "none yet"),
            ("messages", f"from {first} to {last}" if first else "none"),
            ("summaries", _numbers(found.summaries) or "none"),
            ("archived", counted(found.archived_messages, "message")),
            ("due", _numbers(found.pending) or "nothing"),
            ("upkeep", _upkeep(found.upkeep)),
            *(("space", _space(one)) for one in found.spaces),
            ("room", _room(found.scopes_left)),
            ("copies", _listed("made by migrations: ", found.migration_copies)),
            ("others", _listed("tables of other programs: ", found.other_tables)),
        ]
    )
    stores = sorted(found.bytes_per_store.items(), key=lambda item: (-item[1], item[0]))
    for titles, counts in (("ROWS", "COUNT"), found.counts.items()), (("STORE", "BYTES"), stores):
        click.echo()
        print_table([*map(Column, titles)], [(name, f"{count:,}") for name, count in counts])


def _room(scopes_left: int) -> str:
    """Return how many more scopes there may be, if it is less than a fifth of all."""
    if scopes_left > MAX_SCOPE_NO // 5:
        return ""
    return f"for {scopes_left:,} more scopes: take another database for those who come later"


def _listed(head: str, names: Iterable[str]) -> str:
    """Return names behind *head*, "" if there is none."""
    return f"{head}{', '.join(names)}" if names else ""


def _numbers(counts: dict[str, int]) -> str:
    """Return how many there are of each kind."""
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items())


def _space(one: SpaceInfo) -> str:
    """Return the vectors of a model, and the state of its space unless it is ready."""
    due = f", {counted(one.due, 'text')} due" if one.due else ""
    state = "" if one.state == "ready" else f", {one.state}{due}"
    return f"{counted(one.vectors, 'vector')} of {one.model} ({one.dim} dimensions){state}"


def _upkeep(known: tuple[Upkeep, ...]) -> str:
    """Return the time of the last upkeep of the file, and its failures."""
    done = [one.done_ms for one in known if one.done_ms is not None]
    failed = [f"{one.kind} fails: {one.error}" for one in known if one.error is not None]
    if not done and not failed:
        return "never: `memdb work --watch` does it"
    return "; ".join([f"last {when(max(done))}"] * bool(done) + failed)


QUEUE_COLUMNS = columns_of("kind=WORK model waiting due failing oldest_due_ms error=LAST_ERROR")
REFUSED_COLUMNS = columns_of("kind=REFUSED session seq entry_id attempts=TIMES retry_ms=NEXT error")


@verb("memdb stats agent.db", "memdb stats agent.db --json", scope=False)
def stats(call: Call) -> None:
    """
    Show the background work that waits in FILE, and failures with their reasons.

    Texts that an embedder refuses again and again are listed: `memdb work` tries
    them at once. Exit code 8 if something fails.
    """
    with call.open() as db:
        found = db.stats()
        upkeep = [one for one in db.file.info().upkeep if one.error is not None]
    data = {
        "queue": [one.to_dict() for one in found.queue],
        "refused": [one.to_dict() for one in found.refused],
        "upkeep": [one.to_dict() for one in upkeep],
    }
    call.reply(data, lambda: _print_stats(found, upkeep))
    if upkeep or not found.is_healthy:
        click.get_current_context().exit(PortError.exit_code)


def _print_stats(found: Stats, upkeep: list[Upkeep]) -> None:
    print_records(QUEUE_COLUMNS, found.queue, empty="Nothing waits.")
    if found.refused:
        click.echo()
        print_records(REFUSED_COLUMNS, found.refused)
    for one in upkeep:
        note(f"Upkeep {one.kind} fails: {one_line(one.error or '')}")


@verb("memdb check agent.db --deep", scope=False)
@click.option("--deep", is_flag=True, help="Read every page and the bytes of every artifact too.")
@click.option(
    "--accept",
    is_flag=True,
    help="Accept the findings wal_missing and message_lost, and stop reporting them.",
)
def check(call: Call, deep: bool, accept: bool) -> None:
    """
    Prove that FILE is sound.

    Each index is compared with its rows, and each row with its hash. Exit code 7
    if something is found.
    """
    with call.open() as db:
        findings = db.file.check(deep=deep, accept=accept)
    told = [{**one.to_dict(), "damaged": one.damaged, "remedy": one.remedy} for one in findings]
    call.reply(told, lambda: _print_findings(findings, call.shown_file))
    if findings:
        click.get_current_context().exit(StorageError.exit_code)


def _print_findings(findings: list[Finding], file: str) -> None:
    if not findings:
        click.echo("No problem found.")
        return
    print_records(FINDING_COLUMNS, findings)
    note(f"{counted(len(findings), 'problem')} found.")
    for kind, advice in ADVICE.items():
        remedies = sorted({one.remedy for one in findings if one.damaged == kind})
        if remedies:
            commands = _COMMAND.sub(r"`\g<0>`", "; ".join(remedies)).replace("FILE", file)
            note(f"{advice}{commands}.")


rebuild = plain(
    File.rebuild,
    "memdb rebuild agent.db",
    shows=lambda _: "Rebuilt what is derived.",
    help="""
    Rebuild the indexes and counters of FILE.

    They are derived from the rows, which stay unchanged.
    """,
)


@verb("memdb backup agent.db copy.db", scope=False)
@click.argument("target", type=click.Path())
@replace_option
def backup(call: Call, target: str, replace: bool) -> None:
    """Copy FILE while others use it."""
    with call.open() as db:
        _copy(call, db, target, replace=replace)


@verb("memdb encrypt agent.db safe.db --key-file agent.key", scope=False)
@click.argument("target", type=click.Path())
@replace_option
def encrypt(call: Call, target: str, replace: bool) -> None:
    """
    Copy the plain FILE to TARGET, encrypted with a key.

    --key-file names the key. FILE stays unchanged: delete it and its backups afterwards.
    `head -c 32 /dev/urandom > agent.key; chmod 600 agent.key` makes a key. Nobody can read TARGET
    without the key, not even you.
    """
    import memdb

    if (key := key_value(None)) is None:
        raise click.UsageError("--key-file is missing: give the file with the key of TARGET.")
    with memdb.open(call.file, mode="read", key="") as db:
        _copy(call, db, target, replace=replace, key=key)


@verb("memdb decrypt safe.db plain.db --key-file agent.key", scope=False)
@click.argument("target", type=click.Path())
@replace_option
def decrypt(call: Call, target: str, replace: bool) -> None:
    """Copy the encrypted FILE to the plain TARGET. Everybody who gets TARGET can read it."""
    import memdb

    with memdb.open(call.file, mode="read") as db:
        _copy(call, db, target, replace=replace, key="")


def _copy(call: Call, db: MemDB, target: str, **options: Any) -> None:
    with Line("Copying") as line:
        copied = db.file.backup(target, progress=line.to, **options)
    shown = click.format_filename(target)
    call.reply({"path": target, "size_bytes": copied}, f"Copied {size(copied)} to {shown}.")


@verb("memdb rekey safe.db --key-file agent.key --new-key-file new.key", scope=False)
@click.option(
    "--new-key-file",
    type=click.Path(),
    metavar="PATH",
    required=True,
    help="The file with the new key: 32 bytes, or a line of text.",
)
def rekey(call: Call, new_key_file: str) -> None:
    """Change the key of the encrypted FILE; backups keep theirs. No program may have it open."""
    import memdb

    with Line("Rewriting") as bar:
        memdb.rekey(call.file, read_key_file(new_key_file), progress=bar.to)
    call.reply({"path": call.shown_file, "rekeyed": True}, f"{call.shown_file} has the new key.")


@verb("memdb vacuum agent.db", "memdb vacuum agent.db --whole", scope=False)
@click.option(
    "--whole", is_flag=True, help="Rewrite all of FILE, so that half-full pages shrink too."
)
def vacuum(call: Call, whole: bool) -> None:
    """
    Return the free room of FILE to the disk.

    Archiving and deleting leave free room in FILE for later rows. The command works in small steps
    while others write, and Ctrl-C ends it without losing a step. --whole rewrites FILE, and so does
    the first run on a file of an older memdb. Rewriting needs as much free disk as FILE has bytes,
    and other writers wait until it ends.
    """
    is_file = not is_address(call.file)
    with call.open() as db:
        before = _bytes_of(call.file) if is_file else db.file.info().size_bytes
        with Line(f"Packing {size(before)}") as bar:
            db.file.vacuum(whole=whole, progress=bar.to)
        after = 0 if is_file else db.file.info().size_bytes
    if is_file:
        after = _bytes_of(call.file)  # closing it made it smaller
    changed = f"{'+' if after > before else '-'}{size(abs(before - after))}"
    call.reply(
        {"path": call.shown_file, "before_bytes": before, "after_bytes": after},
        f"{call.shown_file}: {size(after)}, before {size(before)} ({changed})",
    )


def _bytes_of(path: str) -> int:
    """Return the bytes that a file takes on the disk, its WAL included."""
    return (size_of(path) or 0) + (size_of(f"{path}-wal") or 0)


@verb(
    "memdb query agent.db 'SELECT user_name, count(*) FROM scopes GROUP BY 1'",
    "memdb query agent.db 'SELECT * FROM messages_view' --csv > messages.csv",
    scope=False,
)
@click.argument("sql")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values with a heading.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=1000, show_default=True)
@click.option("--timeout", type=click.FloatRange(0.01, 3600), default=10.0, show_default=True)
def query(call: Call, sql: str, as_csv: bool, limit: int, timeout: float) -> None:
    """
    Run one SELECT over all users' data in FILE.

    SQL "-" is read from standard input. The views (sessions_view, messages_view,
    entries_view, ...) show names and readable times instead of ids. Queries only
    read, and stop after --timeout seconds. A BLOB is shown in hexadecimal.
    """
    if as_csv and call.as_json:
        raise click.UsageError("--json and --csv cannot be used together.")
    with call.open() as db:
        found = db.query(text_or_stdin(sql), limit=limit, timeout_s=timeout)
    rows = [{name: _plain(value) for name, value in row.items()} for row in found]
    if as_csv:
        import csv
        import sys

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(found.columns)
        writer.writerows([_plain(value) for value in row] for row in found.rows)
    else:
        cells = [["-" if value is None else _plain(value) for value in row] for row in found.rows]
        columns = [*map(Column, found.columns)]
        call.reply(rows, lambda: print_table(columns, cells, empty="No row."))
    if found.has_more:
        note(f"There are more than {limit:,} rows: --limit takes more.")


def _plain(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value


@click.group(cls=Noun)
def space() -> None:
    """
    List and delete the vectors of each embedder.

    A file with a new embedder keeps the vectors of the old one until they are
    deleted: `memdb work FILE --embedder NAME` fills the new space.
    """


SPACES = columns_of("model dim vectors state due")


@verb("memdb space list agent.db", of=space, name="list", scope=False)
def list_spaces(call: Call) -> None:
    """Show the embedding spaces of FILE, oldest first."""
    with call.open() as db:
        found = [*db.file.info().spaces]
    call.reply(found, lambda: print_records(SPACES, found, empty="No embedding spaces yet."))


@verb("memdb space delete agent.db static-en-1 --dry-run", of=space, scope=False)
@click.argument("name", metavar="MODEL")
@click.option(
    "--dim", type=click.IntRange(1, MAX_DIM), help="Dimension of the space, if MODEL has several."
)
@confirm_options
def delete(call: Call, name: str, dim: int | None, **asked: bool) -> None:
    """
    Remove the vectors that MODEL made.

    Messages and entries stay. The program that uses MODEL makes the vectors
    again; `memdb vacuum` returns the room to the disk.
    """
    with call.open() as db:
        known = [
            one for one in db.file.info().spaces if one.model == name and dim in (None, one.dim)
        ]
        if not known:
            raise NotFound("space", name, "this file")
        what = one_line(" and ".join(map(_space, known)))
        remove(call, what, lambda: db.file.delete_space(name, dim), **asked, spaces=known)


# What the kinds of `Changes` are, for people.
KINDS = {
    "message": "messages (edited, archived or removed)",
    "session": "sessions (renamed or removed)",
    "entry": "entries",
    "summary": "summaries",
    "artifact": "artifacts",
    "item": "items",
    "state": "state of sessions",
    "settings": "settings",
    "scope": "whole memories (copied)",
    "other": "nothing that holds words: jobs, vectors",
}


def _print_counts(found: ScopeCounts) -> None:
    print_records(
        columns_of("start_ms=DAY messages sessions=BEGUN entries"),
        found.days,
        empty="Nothing came in.",
    )
    if found.categories:
        click.echo()
        print_records(
            columns_of("category active superseded expired inactive future"), found.categories
        )


counts = plain(
    Scope.counts,
    "memdb counts agent.db --user ann",
    "memdb counts agent.db --since 30d --json",
    shows=_print_counts,
    help="""
    Count the messages and entries of each day, and entries by category and state.

    More than 600 days are grouped into spans of several days.
    """,
)


@verb(
    "memdb changes agent.db",
    "memdb changes agent.db --since MARK",
    "memdb changes agent.db --follow --json",
    scope=False,
)
@click.option(
    "--since",
    metavar="MARK",
    help="Print only the changes after this MARK, which an earlier run printed.",
)
@click.option("--follow", is_flag=True, help="Keep printing changes until Ctrl-C.")
def changes(call: Call, since: str | None, follow: bool) -> None:
    """
    Print the changes of all programs in FILE, and a mark for the next call.

    Without --since and --follow only the mark is printed. The changes since a mark are listed by
    kind; with --follow, sessions with new messages are listed too. No change is missed, and no
    clock is used. With --follow and --json each change is a line.
    """
    with call.open(read_only=True) as db:
        if not follow:
            found = db.changes(since)
            call.reply(found, lambda: _print_changes(call, found, since))
            return
        from memdb.cli.service import ending_by_signals

        with ending_by_signals():
            coming = db.watch()  # from here on: changes before the next line are reported twice
            first = db.changes(since)
            mark = since or first.mark
            try:
                for found in chain([first], coming):
                    _print_followed(call, found)
                    mark = found.mark
            except KeyboardInterrupt:
                if not call.as_json:
                    note(f"Mark: {mark}")
                raise


def _print_changes(call: Call, found: Changes, since: str | None) -> None:
    """Print the changes since a mark, and the new mark."""
    lines = _lines_of(found)
    if since is not None:
        click.echo("\n".join(lines) if lines else "Nothing changed.")
    click.echo(f"Mark: {found.mark}")
    if since is None:
        note(f"`memdb changes {call.shown_file} --since MARK` says what changed since now.")


def _print_followed(call: Call, found: Changes) -> None:
    """Print the changes, if there are any."""
    if found.is_empty:
        return
    if call.as_json:
        print_json_line(found)
    else:
        click.echo("\n".join(_lines_of(found)))


def _lines_of(found: Changes) -> list[str]:
    """Return a line for each session and kind that changed."""
    lines = []
    for one in found.sessions:
        branch = "" if one.branch is None else f", branch {one_line(one.branch)}"
        owner = one_line(one.user) + (f" in {one_line(one.app)}" if one.app != DEFAULT_APP else "")
        lines.append(f"new messages    {one_line(one.session)}{branch} ({owner})")
    if not found.is_complete:
        lines.append(
            "new messages    in sessions that the mark does not tell: see `memdb chat list`"
        )
    lines += [f"changed         {KINDS.get(kind, kind)}" for kind in found.kinds]
    return lines


@verb("memdb recover damaged.db new.db", scope=False)
@click.argument("new", type=click.Path())
def recover(call: Call, new: str) -> None:
    """
    Make the file NEW from the readable parts of FILE.

    FILE stays unchanged. LEFT OUT counts rows that do not match their hash, or that are useless
    because another row is lost. MADE counts scopes, sessions, names and inactive entries that were
    made in place of lost ones. Exit code 7 if `check` finds something in NEW.
    """
    import memdb

    report = memdb.recover(call.file, new)
    call.reply(report, lambda: _print_recovery(report))
    if report.findings:
        click.get_current_context().exit(StorageError.exit_code)


def _print_recovery(report: Recovery) -> None:
    print_records(columns_of("name=TABLE rows left_out made"), report.tables)
    for text in report.notes:
        note(f"Note: {text}.")
    note(
        f"{report.broken_trees} tables and indexes of the damaged file have pages that cannot be "
        f"read. {click.format_filename(report.path)} is "
        + ("sound." if not report.findings else f"not sound: {report.findings[0]}.")
    )


@verb("memdb restore backup.db agent.db --dry-run", file=False, scope=False)
@click.argument("backup", type=click.Path())
@click.argument("file", type=click.Path())
@confirm_options
def restore(call: Call, backup: str, yes: bool, dry_run: bool) -> None:
    """
    Put BACKUP in place of FILE.

    BACKUP is checked first. The old FILE is kept beside it, under a name that is
    printed, together with its -wal. The command fails while a program has FILE open.
    """
    import memdb

    plan = memdb.restore(backup, call.file, dry_run=True)
    if not dry_run:
        confirm(f"Put {click.format_filename(backup)} in place of {call.shown_file}?", yes=yes)
        plan = memdb.restore(backup, call.file)
    verb = "Would restore" if dry_run else "Restored"
    kept = "" if plan.kept is None else f"; the old one is {click.format_filename(plan.kept)}"
    call.reply(plan, f"{verb} {call.shown_file} ({size(plan.size_bytes)}){kept}.")


COMMANDS = {
    "info": info,
    "stats": stats,
    "check": check,
    "rebuild": rebuild,
    "backup": backup,
    "encrypt": encrypt,
    "decrypt": decrypt,
    "rekey": rekey,
    "vacuum": vacuum,
    "query": query,
    "space": space,
    "counts": counts,
    "changes": changes,
    "recover": recover,
    "restore": restore,
}
