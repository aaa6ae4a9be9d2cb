r"""
Defaults of commands: the memory file, its user and app, and the embedder.

Each comes from the command line, else from the environment, else from the config file:

    file = "~/memory.db"
    user = "ann"

MEMDB_URL is for the address of a server, whose password is then in no list of processes. The
file is `config.toml` of memdb's folder of the user's settings (`~/.config/memdb`, on macOS
`~/Library/Application Support/memdb`, on Windows `%APPDATA%\memdb`), or where MEMDB_CONFIG
says.
"""

from __future__ import annotations

import os
from typing import Any

import click

from memdb.text.validate import is_address, is_other_address, shown_address

FILE_VARIABLE = "MEMDB_FILE"
URL_VARIABLE = "MEMDB_URL"
CONFIG_VARIABLE = "MEMDB_CONFIG"
TEXTS = ("file", "user", "app", "embedder")


class DefaultFile:
    """A memory file that no argument names, and where it is named."""

    __slots__ = ("path", "where")

    def __init__(self, path: str, where: str) -> None:
        """Store the *path*, and for messages *where* it comes from."""
        self.path = path
        self.where = where


def shown_path(path: str) -> str:
    """Return a path for people; of an address without password and options."""
    is_any = is_address(path) or is_other_address(path)
    return shown_address(path) if is_any else click.format_filename(path)


def config_path() -> str:
    """Return the path of the config file, which need not exist."""
    given = os.environ.get(CONFIG_VARIABLE)
    return given or os.path.join(click.get_app_dir("memdb"), "config.toml")


def read_config() -> dict[str, Any]:
    """
    Return the fields of the config file with absolute paths, {} without a file.

    Raises:
        click.UsageError: it cannot be read, or says something else; names it and the field.
    """
    path = config_path()
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (FileNotFoundError, NotADirectoryError) as error:
        if os.environ.get(CONFIG_VARIABLE):
            raise click.UsageError(
                f"{CONFIG_VARIABLE} names {path}, which does not exist."
            ) from error
        return {}
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}: correct or remove the file.") from error
    import tomllib

    try:
        found = tomllib.loads(data.decode("utf-8-sig"))
    except ValueError as error:
        raise click.UsageError(f"{path} is not TOML ({error}): correct it.") from error
    for name, value in found.items():
        if name not in TEXTS:
            raise click.UsageError(f"{path} has an unknown field {name!r}: use {', '.join(TEXTS)}.")
        if not isinstance(value, str) or value == "":
            raise click.UsageError(f"{path}: {name} is {value!r}: write a text in quotes.")
    where = found.get("file")
    if where is not None and not (is_address(where) or is_other_address(where)):
        folder = os.path.dirname(os.path.abspath(path))
        found["file"] = os.path.join(folder, os.path.expanduser(where))
    return found


def default_file(config: dict[str, Any]) -> DefaultFile | None:
    """Return the memory of MEMDB_FILE, else MEMDB_URL, else the config file; None without all."""
    for variable in (FILE_VARIABLE, URL_VARIABLE):
        given = os.environ.get(variable)
        if given:
            return DefaultFile(given, variable)
    return DefaultFile(config["file"], config_path()) if "file" in config else None
