"""`memdb info`, `check`, `rebuild`, `backup`, `vacuum`, `query` and `space`: the whole file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from memdb.cli.base import confirm, confirm_options, scopes_to_dicts, size_of, text_or_stdin, verb
from memdb.cli.command import Noun
from memdb.cli.output import (
    Bar,
    Column,
    note,
    one_line,
    print_json_line,
    print_records,
    say,
    size,
    when,
)
from memdb.errors import NotFound, PortError, StorageError
from memdb.models.record import counted
from memdb.text.validate import is_address

if TYPE_CHECKING:
    from memdb.cli.base import Call
    from memdb.models.messages import Finding, SpaceInfo
    from memdb.models.reports import FileInfo, Stats, Upkeep

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
    Column("RULE", lambda one: one.code),
    Column("DAMAGED", lambda one: one.damaged),
    Column("MENDED BY", lambda one: " or ".join(_COMMAND.findall(one.remedy)) or "-"),
    Column("WHERE", lambda one: one.text, cut=True),
)
SPACE_COLUMNS = (
    Column("MODEL", lambda one: one.model, cut=True),
    Column("DIM", lambda one: one.dim, right=True),
    Column("VECTORS", lambda one: f"{one.vectors:,}", right=True),
    Column("STATE", lambda one: one.state),
    Column("DUE", lambda one: f"{one.due:,}", right=True),
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
    """Return how large the WAL of a file is; that of a server is none of a database's."""
    return "" if is_address(found.path) else f", WAL {size(found.wal_bytes)}{_readers(found)}"


def _print_info(found: FileInfo, scopes: list[dict[str, str]]) -> None:
    users = [f"{scope['user'] or 'shared'} (app {scope['app']})" for scope in scopes[:MAX_SCOPES]]
    if len(scopes) > MAX_SCOPES:
        users.append(f"and {len(scopes) - MAX_SCOPES:,} more")
    facts = [
        ("file", click.format_filename(found.path)),
        ("format", str(found.format)),
        ("size", size(found.size_bytes) + _wal(found)),
        ("users", ", ".join(users) or "none yet"),
        ("messages", f"from {when(found.oldest_ms)} to {when(found.newest_ms)}"),
        ("summaries", _summaries(found.summaries)),
        ("archived", counted(found.archived_messages, "message")),
        ("due", _due(found.pending)),
        ("upkeep", _upkeep(found.upkeep)),
    ]
    if found.oldest_ms is None:
        facts[4] = ("messages", "none")
    facts += [
        ("space", f"{space.vectors:,} of {space.model} ({space.dim} dimensions){_state(space)}")
        for space in found.spaces
    ]
    if found.migration_copies:
        facts.append(("copies", f"made by migrations: {', '.join(found.migration_copies)}"))
    if found.other_tables:
        facts.append(("others", f"tables of other programs: {', '.join(found.other_tables)}"))
    for name, value in facts:
        say(one_line(value), " " * 11, f"{name:<11}")
    stores = sorted(found.bytes_per_store.items(), key=lambda item: (-item[1], item[0]))
    tables = (("ROWS", "COUNT", list(found.counts.items())), ("STORE", "BYTES", stores))
    for title, unit, counts in tables:
        click.echo()
        columns = [Column(title, lambda one: one[0])]
        columns.append(Column(unit, lambda one: f"{one[1]:,}", right=True))
        print_records(columns, counts)


def _state(space: SpaceInfo) -> str:
    """Return the state of a space and what is due, "" if it is ready."""
    if space.state == "ready":
        return ""
    return f", {space.state}" + (f", {counted(space.due, 'text')} due" if space.due else "")


def _summaries(by_quality: dict[str, int]) -> str:
    """Return the number of summaries by quality."""
    if not by_quality:
        return "none"
    return ", ".join(f"{count:,} {quality}" for quality, count in by_quality.items())


def _due(by_kind: dict[str, int]) -> str:
    """Return the number of jobs for `memdb work`."""
    verbs = {"embed": "to embed", "summarize": "to summarise"}
    jobs = [f"{counted(n, 'job')} {verbs.get(kind, kind)}" for kind, n in by_kind.items()]
    return ", ".join(jobs) or "nothing"


def _upkeep(known: tuple[Upkeep, ...]) -> str:
    """Return when a worker last did the upkeep of the file, and what failed."""
    done = [one.done_ms for one in known if one.done_ms is not None]
    failed = [f"{one.kind} fails: {one.error}" for one in known if one.error is not None]
    if not done and not failed:
        return "never: `memdb work --watch` does it"
    return "; ".join([f"last {when(max(done))}"] * bool(done) + failed)


QUEUE_COLUMNS = (
    Column("WORK", lambda one: one.kind),
    Column("MODEL", lambda one: one.model or "-", cut=True),
    Column("WAITING", lambda one: f"{one.waiting:,}", right=True),
    Column("DUE", lambda one: f"{one.due:,}", right=True),
    Column("FAILING", lambda one: f"{one.failing:,}", right=True),
    Column("OLDEST DUE", lambda one: when(one.oldest_due_ms)),
    Column("LAST ERROR", lambda one: one.error or "-", cut=True),
)
REFUSED_COLUMNS = (
    Column("REFUSED", lambda one: one.kind),
    Column(
        "WHERE",
        lambda one: f"{one.session} {one.seq}" if one.entry_id is None else str(one.entry_id),
        cut=True,
    ),
    Column("TIMES", lambda one: f"{one.attempts:,}", right=True),
    Column("NEXT", lambda one: when(one.retry_ms)),
    Column("ERROR", lambda one: one.error, cut=True),
)


@verb("memdb stats agent.db", "memdb stats agent.db --json", scope=False)
def stats(call: Call) -> None:
    """
    Show what background work waits in FILE, what fails and why.

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
@click.option("--accept", is_flag=True, help="Report a missing -wal (wal_missing) no longer.")
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


@verb("memdb rebuild agent.db", scope=False)
@click.option("--links", is_flag=True, help="Also guess every link between entries anew.")
def rebuild(call: Call, *, links: bool) -> None:
    """
    Make the indexes and counters of FILE anew.

    All of them are derived from the rows, which stay as they are.
    """
    with call.open() as db:
        db.file.rebuild(links=links)
    call.reply({"path": call.shown_file, "rebuilt": True}, f"Rebuilt {call.shown_file}.")


@verb("memdb backup agent.db copy.db", scope=False)
@click.argument("target", type=click.Path())
@click.option("--replace", is_flag=True, help="Write over what is at TARGET.")
def backup(call: Call, target: str, replace: bool) -> None:
    """Copy FILE while others use it."""
    with call.open() as db, Bar("Copying") as bar:
        copied = db.file.backup(target, replace=replace, progress=bar.to)
    shown = click.format_filename(target)
    call.reply({"path": target, "size_bytes": copied}, f"Copied {size(copied)} to {shown}.")


@verb("memdb vacuum agent.db", "memdb vacuum agent.db --whole", scope=False)
@click.option("--whole", is_flag=True, help="Rewrite FILE: half-full pages go too.")
def vacuum(call: Call, whole: bool) -> None:
    """
    Give the free room of FILE back to the disk.

    Archiving and deleting leave room in FILE for what comes next. It goes in small
    steps while others write, and Ctrl-C ends it: what was given back stays so.

    --whole makes FILE as small as what it holds, and so does the first run on a
    file of an older memdb. It takes as much free disk as FILE is large, and other
    writers wait until it ends.
    """
    is_file = not is_address(call.file)
    with call.open() as db:
        before = _bytes_of(call.file) if is_file else db.file.info().size_bytes
        with Bar(f"Packing {size(before)}") as bar:
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
@click.option("--jsonl", "as_lines", is_flag=True, help="Print one JSON object per line.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=1000, show_default=True)
@click.option("--timeout", type=click.FloatRange(0.01, 3600), default=10.0, show_default=True)
def query(call: Call, sql: str, as_csv: bool, as_lines: bool, limit: int, timeout: float) -> None:
    """
    Print what a SELECT finds in FILE, whoever's it is.

    SQL "-" is read from standard input. The views (sessions_view, messages_view,
    entries_view, ...) name people, sessions and times. Only reading is allowed,
    for at most --timeout seconds. A BLOB is shown in hexadecimal.
    """
    if as_csv + as_lines + call.as_json > 1:
        raise click.UsageError("--json, --jsonl and --csv exclude each other.")
    with call.open() as db:
        found = db.query(text_or_stdin(sql), limit=limit, timeout_s=timeout)
    rows = [{name: _plain(value) for name, value in row.items()} for row in found]
    if as_lines:
        for row in rows:
            print_json_line(row)
    elif as_csv:
        import csv
        import sys

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(found.columns)
        writer.writerows([_plain(value) for value in row] for row in found.rows)
    else:
        columns = [
            Column(name, lambda row, place=place: _cell(row[place]), cut=True)  # type: ignore[misc]
            for place, name in enumerate(found.columns)
        ]
        call.reply(rows, lambda: print_records(columns, found.rows, empty="No row."))
    if found.has_more:
        note(f"There are more than {limit:,} rows: --limit takes more.")


def _plain(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value


def _cell(value: object) -> str:
    return "-" if value is None else str(_plain(value))


@click.group(cls=Noun)
def space() -> None:
    """
    List and drop the vectors of each embedder.

    A file with a new embedder keeps the vectors of the old one until they are
    dropped: `memdb work FILE --embedder NAME` fills the new space.
    """


@verb("memdb space list agent.db", of=space, name="list", scope=False)
def list_(call: Call) -> None:
    """Show the embedding spaces of FILE, oldest first."""
    with call.open() as db:
        found = db.file.spaces()
    call.reply_records(found, SPACE_COLUMNS, empty="No embedding spaces yet.")


@verb("memdb space drop agent.db static-en-1 --dry-run", of=space, scope=False)
@click.argument("name", metavar="MODEL")
@click.option("--dim", type=click.IntRange(1, 65_536), help="Where MODEL has several spaces.")
@confirm_options
def drop(call: Call, name: str, dim: int | None, yes: bool, dry_run: bool) -> None:
    """
    Remove the vectors that MODEL made.

    Messages and entries stay. The program that uses MODEL makes the vectors
    anew; `memdb vacuum` gives the room back to the disk.
    """
    with call.open() as db:
        known = [one for one in db.file.spaces() if one.model == name and dim in (None, one.dim)]
        if not known:
            raise NotFound("space", name)
        what = " and ".join(map(_named, known))
        if not dry_run:
            confirm(f"Drop {what}?", yes=yes)
            known = [db.file.drop_space(name, dim)]
    data = {"dropped": not dry_run, "dry_run": dry_run, "spaces": known}
    call.reply(data, f"{'Would drop' if dry_run else 'Dropped'} {what}.")


def _named(one: SpaceInfo) -> str:
    return f"{counted(one.vectors, 'vector')} of {one_line(one.model)} ({one.dim} dimensions)"


COMMANDS = {
    "info": info,
    "stats": stats,
    "check": check,
    "rebuild": rebuild,
    "backup": backup,
    "vacuum": vacuum,
    "query": query,
    "space": space,
}
