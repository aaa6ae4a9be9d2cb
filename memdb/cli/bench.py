"""
`memdb bench` and `memdb pack`: recall and facts measured over data on disk, and packs of it.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from memdb.cli.base import embedder_named, verb
from memdb.cli.command import Noun
from memdb.cli.options import embedder_option
from memdb.cli.output import Column, Line, columns_of, note, print_records
from memdb.errors import FileError, StorageError
from memdb.models.record import counted
from memdb.text.validate import refuse_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from memdb.cli.base import Call
    from memdb.evaluation.facts import Result as FactResult
    from memdb.evaluation.measuring import Answer, Arm
    from memdb.fixtures import Manifest
    from memdb.models.protocols import Embedder


@click.group(cls=Noun)
def bench() -> None:
    """Measure recall and learning over a data set."""


@verb(
    "memdb bench recall set.jsonl",
    "memdb bench recall locomo10.json BEAM/chats/100K",
    "memdb bench recall set.jsonl --records answers.jsonl --json",
    of=bench,
    file=False,
    scope=False,
)
@click.argument("data", type=click.Path(), nargs=-1, required=True)
@click.option(
    "--lexical", is_flag=True, help="Search by words alone, so that no embedder is needed."
)
@embedder_option
@click.option("--records", type=click.Path(), metavar="PATH", help="File to write every answer to.")
def recall(call: Call, data: tuple[str, ...], lexical: bool, records: str | None) -> None:
    """
    Ask all questions of each DATA, and count what is found.

    DATA is LoCoMo, LongMemEval, BEAM or BEIR as published, or JSON lines
    as docs/evaluation.md describes. The data set goes into a temporary file; two runs give
    equal numbers. Exit code 7 if, over all questions of a DATA, plain FTS5 or the
    embedder's plain cosine finds more.
    """
    from memdb.evaluation import measuring

    if records is not None:
        refuse_output(records)
    chosen = (measuring.LEXICAL,) if lexical else measuring.ARMS
    embedder = None if lexical else embedder_named(call.embedder)
    with _data_sets(data) as sets, _records(records) as keep:
        results = [_measure(one, chosen, embedder, keep) for one in sets]
    call.reply(
        results[0] if len(results) == 1 else results,
        lambda: click.echo("\n\n".join("\n".join(measuring.text(one)) for one in results)),
    )
    if any(not line["good"] for one in results for line in one["fused_against_baselines"]):
        note("WORSE: plain FTS5 or the plain cosine finds more than the fused ranking.")
        click.get_current_context().exit(StorageError.exit_code)


def _measure(
    path: tuple[str, str],
    arms: Sequence[Arm],
    embedder: Embedder | str | None,
    keep: Callable[[Answer], None],
) -> dict[str, Any]:
    """Return the report of one data set; *path* is its name and where its lines are."""
    from memdb.evaluation import dataset, measuring
    from memdb.evaluation.baselines import BASELINES

    found = dataset.read(path[1]).replace(name=path[0])

    def kept() -> Iterator[Answer]:
        with Line("Asking") as bar:
            for answer in measuring.run(
                found, arms, embedder=embedder, baselines=BASELINES, progress=bar.to
            ):
                keep(answer)
                yield answer

    return measuring.report(found, arms, kept(), embedder)


@contextmanager
def _data_sets(paths: Sequence[str]) -> Iterator[list[tuple[str, str]]]:
    """Yield (name, path of JSON lines) of each data set; published ones are converted."""
    from tempfile import TemporaryDirectory

    from memdb.evaluation import convert as converting
    from memdb.evaluation import dataset

    with TemporaryDirectory(prefix="memdb-bench-") as folder:
        sets = []
        for number, path in enumerate(paths):
            kind = converting.kind_of(path)
            lines = path
            if kind is not None:
                lines = os.path.join(folder, f"{number}.jsonl")
                dataset.write(converting.convert(kind, path), lines)
            sets.append((path, lines))
        yield sets


@contextmanager
def _records(path: str | None) -> Iterator[Callable[[Answer | FactResult], None]]:
    """Yield a function that writes a result as a line of JSON to *path*; None: nowhere."""
    if path is None:
        yield lambda _: None
        return
    import json

    try:
        with open(path, "x", encoding="utf-8", newline="\n") as file:
            yield lambda answer: print(json.dumps(answer.to_dict(), ensure_ascii=False), file=file)
    except OSError as error:
        shown = click.format_filename(path)
        raise FileError(f"{shown}: {error.strerror}", shown) from error


@verb("memdb bench compare before.jsonl after.jsonl", of=bench, file=False, scope=False)
@click.argument("before", type=click.Path())
@click.argument("after", type=click.Path())
def compare(call: Call, before: str, after: str) -> None:
    """
    Show how recall changed between two runs.

    BEFORE and AFTER are what --records wrote. CHANGE is over the questions of both runs. A star
    marks a change whose 95 % interval excludes 0.
    """
    from memdb.evaluation import compare as comparing

    lines = comparing.compare(comparing.read_records(before), comparing.read_records(after))
    call.reply(lines, lambda: print_records(COMPARE_COLUMNS, lines))


def _interval(line: dict[str, Any]) -> str:
    low, high = line["interval"]
    return f"{low:+.3f} to {high:+.3f}{' *' if low > 0 or high < 0 else ''}"


COMPARE_COLUMNS = (
    *columns_of("arm level measure questions=N before after change"),
    Column("95 %", _interval),
    *columns_of("better worse"),
)


@verb(
    "memdb bench facts facts.jsonl",
    "memdb bench facts pairs-en.jsonl chats/ --crowd 300 --records cases.jsonl",
    of=bench,
    file=False,
    scope=False,
)
@click.argument("data", type=click.Path(), nargs=-1, required=True)
@click.option("--lexical", is_flag=True, help="Use words alone, without an embedder.")
@embedder_option
@click.option(
    "--crowd",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Put N statements into one scope. Default: each case has its own.",
)
@click.option("--records", type=click.Path(), metavar="PATH", help="File to write every case to.")
def facts(
    call: Call, data: tuple[str, ...], lexical: bool, crowd: int, records: str | None
) -> None:
    """
    Store the statements of DATA, ask for them, and read its chats.

    DATA are files of JSON lines, or folders of them, as docs/facts.md describes.
    Recall is measured by words alone, with the built-in vectors and with --embedder. Each is
    compared with a memory that keeps every statement and links none. Exit code 7 if that memory
    loses fewer statements.
    """
    from memdb.evaluation import facts as measuring
    from memdb.evaluation import facts_set

    if records is not None:
        refuse_output(records)
    found = facts_set.read(data)
    embedders: dict[str, Embedder | str | None] = {"words": None}
    if not lexical:
        given = embedder_named(call.embedder)
        embedders |= {name: name for name in ("static", given) if name is not None}
    with Line("Telling") as bar, _records(records) as keep:

        def kept() -> Iterator[FactResult]:
            for one in measuring.run(found, embedders, crowd=crowd, progress=bar.to):
                keep(one)
                yield one

        told = measuring.report(found, kept(), crowd)
    call.reply(told, lambda: click.echo("\n".join(measuring.text(told))))
    if told["worse"]:
        note("WORSE: keeping every statement loses fewer facts than memdb.")
        click.get_current_context().exit(StorageError.exit_code)


@click.group(cls=Noun)
def pack() -> None:
    """Make, verify and open fixture packs."""


@verb(
    "memdb pack make trip.toml -o trip.pack",
    "memdb pack make agent.db -o agent.pack --json",
    of=pack,
    file=False,
    scope=False,
)
@click.argument("source", type=click.Path())
@click.option(
    "--output",
    "-o",
    "target",
    type=click.Path(),
    required=True,
    metavar="PACK",
    help="Path of the new pack.",
)
@click.option(
    "--clock",
    help="Time that the opened pack shows, and at which a recipe starts. Default: that of the "
    "recipe, or the newest time in the file.",
)
@click.option(
    "--seed", type=click.IntRange(0), help="The seed of the ids. Default: that of the recipe."
)
@click.option("--replace", is_flag=True, help="Overwrite the pack at PACK.")
def make(
    call: Call, source: str, target: str, clock: int | None, seed: int | None, replace: bool
) -> None:
    """
    Make a pack of SOURCE, a recipe or a memdb file.

    The same SOURCE gives the same bytes on every machine. docs/fixtures.md says what
    a recipe can do.
    """
    from memdb import fixtures

    manifest = fixtures.make_pack(source, target, clock_ms=clock, seed=seed, replace=replace)
    call.reply(manifest, f"{click.format_filename(target)}: {_summary(manifest)}")


def _summary(manifest: Manifest) -> str:
    counts = [counted(n, kind) for kind, n in manifest.counts.items() if kind not in UNSAID]
    return f"{', '.join(counts) or 'nothing'}; content {manifest.content}"


UNSAID = ("memdb", "scope")


@verb("memdb pack verify trip.pack", of=pack, file=False, scope=False)
@click.argument("path", metavar="PACK", type=click.Path())
def verify(call: Call, path: str) -> None:
    """Check every byte of PACK against its hashes."""
    from memdb import fixtures

    manifest = fixtures.verify_pack(path)
    call.reply(manifest, f"{click.format_filename(path)} is whole: {_summary(manifest)}")


@verb("memdb pack open trip.pack trip.db", of=pack, name="open", file=False, scope=False)
@click.argument("path", metavar="PACK", type=click.Path())
@click.argument("target", metavar="NEW", type=click.Path())
def open_(call: Call, path: str, target: str) -> None:
    """Write the memory in PACK to the new memdb file NEW."""
    from memdb import fixtures

    manifest = fixtures.unpack(path, target)
    call.reply(manifest, f"{click.format_filename(target)}: {_summary(manifest)}")


COMMANDS = {"bench": bench, "pack": pack}
