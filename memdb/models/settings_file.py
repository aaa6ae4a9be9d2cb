"""
Settings as a TOML file: read with the place of each error, written with the defaults as comments.
"""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

from memdb.errors import InvalidInput
from memdb.models.settings import DEFAULTS, NEVER, Category, Settings, read_settings

if TYPE_CHECKING:
    import os

MAX_BYTES = 1 << 20


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """
    Return the fields that a TOML file sets, each checked by itself.

    Categories are tables: `[[categories]]` with `name = "recipes"`. A field that the file does not
    name stays unchanged.

    Raises:
        InvalidInput: the file cannot be read or is not TOML, there is no such field, or a value is
            out of its range.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise InvalidInput(
                f"settings file {path} is over 1 MB, so it is something else: give another file"
            )
        fields = tomllib.loads(data.decode("utf-8-sig"))
    except OSError as error:
        raise InvalidInput(f"settings file {path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, RecursionError, tomllib.TOMLDecodeError) as error:
        raise InvalidInput(f"settings file {path} is not TOML: {error}") from error
    try:
        read = read_settings(fields)
    except InvalidInput as error:
        raise InvalidInput(f"settings file {path}: {error}") from error
    assert isinstance(read, dict)  # of a dict
    return read


def to_toml(settings: Settings) -> str:
    r"""
    Return *settings* as TOML that `read_toml` reads; what is as by default is a comment.

    >>> lines = to_toml(Settings(entry_quota=500)).splitlines()
    >>> lines[1:3]
    ['entry_quota = 500', '# entry_decay_percent = 20']
    """
    lines = []
    for name in Settings._fields:
        if name == "categories":
            continue  # tables come last: what follows a table would belong to it
        value = getattr(settings, name)
        mark = "# " if value == getattr(DEFAULTS, name) else ""
        lines.append(f"{mark}{name} = {_value(value)}".rstrip())
    for category in settings.categories:
        lines += ["", "[[categories]]", *_category(category)]
    return "\n".join(["# Settings of a memdb file; a field behind # has its default.", *lines, ""])


def _category(category: Category) -> list[str]:
    usual = Category(category.name)
    values = category.to_dict()
    return [
        f"{name} = {_value(NEVER if value is None else value)}"
        for name, value in values.items()
        if name == "name" or value != getattr(usual, name)
    ]


def _value(value: object) -> str:
    """Return a value as TOML; "" for None, which TOML has not."""
    if value is None:
        return ""
    # What JSON writes of texts, numbers, flags and lists of texts is TOML too.
    text = json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")
