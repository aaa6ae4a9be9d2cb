"""`memdb settings`: what a file does by itself, shown and changed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from memdb.cli.base import verb
from memdb.cli.output import columns_of, print_records
from memdb.errors import InvalidInput
from memdb.models.record import counted

if TYPE_CHECKING:
    from memdb.cli.base import Call
    from memdb.models.settings import Settings

COLUMNS = columns_of("group setting value default meaning")


@verb(
    "memdb settings agent.db --changed",
    "memdb settings agent.db --set entry_quota=500 --set session_archive_at=1000",
    "memdb settings agent.db --toml > settings.toml",
    "memdb settings agent.db --from settings.toml",
    scope=False,
)
@click.option(
    "--set", "given", multiple=True, metavar="NAME=VALUE", help="Change one setting. Repeatable."
)
@click.option(
    "--reset", multiple=True, metavar="NAME", help="Reset this setting to its default. Repeatable."
)
@click.option(
    "--from", "source", type=click.Path(), help="Change the settings that a TOML file names."
)
@click.option("--changed", is_flag=True, help="Show only settings that differ from the defaults.")
@click.option("--toml", "as_toml", is_flag=True, help="Print all settings as TOML.")
def settings(
    call: Call,
    given: tuple[str, ...],
    reset: tuple[str, ...],
    source: str | None,
    changed: bool,
    as_toml: bool,
) -> None:
    """
    Show and change the settings of FILE.

    The file keeps them, so every program that opens it agrees.

    The settings are listed in groups: entries and secrets, summaries, extraction, sessions,
    contexts. VALUE is a number, true or false, a text, or names with commas between
    them; "never" takes away a limit. Categories are set by --from.
    """
    from memdb.models.settings import DEFAULTS
    from memdb.models.settings_file import read_toml, to_toml

    if as_toml and call.as_json:
        raise click.UsageError("--toml and --json cannot be used together.")
    changes: dict[str, Any] = {} if source is None else read_toml(source)
    for name in reset:
        changes[name] = _of(DEFAULTS, name)
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--set {text!r} has no value: write NAME=VALUE.")
        changes[name] = _read(DEFAULTS, name, value)
    with call.open(as_kept=True) as db:
        found = db.settings.update(**changes) if changes else db.settings.get()
    if as_toml:
        click.echo(to_toml(found), nl=False)
        return
    sentences = _sentences(DEFAULTS.__doc__ or "")
    rows = [
        {
            "group": group,
            "setting": name,
            "value": _shown(value),
            "default": _shown(getattr(DEFAULTS, name)),
            "meaning": sentences.get(name, ""),
        }
        for group, fields in found.groups().items()
        for name, value in fields.items()
        if (name in changes if changes else True)
        and not (changed and value == getattr(DEFAULTS, name))
    ]
    call.reply(found, lambda: print_records(COLUMNS, rows, empty="All are as by default."))


def _sentences(doc: str) -> dict[str, str]:
    """Return the docstring's text of each field, by name; {} if Python left docstrings out."""
    texts = re.split(r"^ {8}(\w+): ", doc.partition("Attributes:\n")[2], flags=re.MULTILINE)
    return {
        name: " ".join(text.split()) for name, text in zip(texts[1::2], texts[2::2], strict=True)
    }


def _of(record: Settings, name: str) -> Any:
    if name not in record.to_dict():
        raise InvalidInput(f"settings has no field {name!r}: `memdb settings FILE` lists them")
    return getattr(record, name)


def _read(record: Settings, name: str, text: str) -> object:
    """Return the text of a value as the kind that the field has; the library checks its range."""
    _of(record, name)
    kind = type(record).__annotations__[name]
    if kind.startswith("bool") and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind.startswith(("int", "float")):
        try:
            return int(text.replace("_", "")) if kind.startswith("int") else float(text)
        except ValueError:
            return text  # "never", or refused with the field's range
    if kind.startswith("tuple[str"):
        names = [part.strip() for part in text.split(",")]
        return None if names in ([""], ["all"]) else names
    if name == "categories":
        raise InvalidInput("settings.categories is a table: give it in a TOML file, with --from")
    return None if text in ("", "never") and "None" in kind else text


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "-" if value is None else str(value).lower()
    if isinstance(value, tuple):
        if value and not isinstance(value[0], str):
            return counted(len(value), "category", "categories")
        return ", ".join(value) or "-"
    return f"{value:,}" if isinstance(value, int) else str(value)


COMMANDS = {"settings": settings}
