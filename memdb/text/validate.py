"""
Validate arguments before anything is written: texts, names, numbers, times, JSON, paths.

SQLite stores less than Python's str and int can hold, and PostgreSQL less than
SQLite. Texts and values are stored with U+FFFD in place of each character that one of them refuses
(`content_value`, `json_value`). So a file stays portable, and one character in a tool's output does
not end a conversation. Names with such characters are refused, because two of them could become
equal. Each error names the field and the fix. Times are also parsed from spans such as "30d" and
formatted as ISO text.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Any, TypeVar

from memdb.errors import Corrupt, FileError, InvalidInput, TooLarge
from memdb.models import fields
from memdb.models.record import Page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    # Takes a value that is not None and its name; returns what is stored.
    Check = Callable[[Any, str], Any]

T = TypeVar("T")

SQLITE_MAGIC = b"SQLite format 3\0"  # https://sqlite.org/fileformat.html

# What SQLite and memdb keep beside a database, and remove when they no longer need it.
SIDE_FILES = ("-wal", "-shm", "-journal")

# Of the addresses of servers. An address may hold a password, so no error and no log repeats one.
SCHEMES = ("postgresql://", "postgres://")
FORM = "postgresql://USER@HOST:PORT/DATABASE"
NO_SIGNS = dict.fromkeys(map(ord, "+-."))  # of a scheme, such as postgresql+psycopg

MAX_NAME_CHARS = fields.MAX_NAME_CHARS
MAX_TEXT_BYTES = fields.MAX_TEXT_BYTES

# Spans in milliseconds.
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

# Year 1 to 9999, the range of Python's datetime.
MIN_MS = -62_135_596_800_000
MAX_MS = 253_402_300_799_999
SECONDS = range(10**9, 1 << 32)  # of 2001 to 2106


# Levels of lists and objects in a JSON value. Python's parser gives up at fewer
# than 1,000, the fewer the deeper it is called: what was stored could not be read.
MAX_NESTING = 200

# Reads a value of JSON at an index, in a quarter of the time of `json.loads`.
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # stubs lack it


def said_value(text: str | None, parts: object) -> str:
    """
    Return the text of a message; "" means that its *parts* have it.

    Raises:
        InvalidInput: the message has neither.
    """
    if text is None and parts is None:
        raise InvalidInput('text is missing: give the text (it may be ""), or parts')
    return "" if text is None else text


# What Python's "surrogateescape" makes of bytes that are no UTF-8.
ESCAPED_BYTES = range(0xDC80, 0xDD00)


def text_value(value: object, field: str) -> str:
    """
    Return *value* if it is a text that can be stored.

    Raises:
        InvalidInput: *value* is not a str, or contains NUL or a lone surrogate.
        TooLarge: over `MAX_TEXT_BYTES` of UTF-8.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"{field} is {type(value).__name__}: give a str")
    if "\0" in value:
        raise InvalidInput(
            f"{field} contains a NUL character: remove it, or save the text as an artifact"
        )
    size = len(value)
    if not value.isascii():
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            half = ord(value[error.start])
            is_byte = half in ESCAPED_BYTES
            what = f"byte 0x{half & 0xFF:x}, which is not UTF-8," if is_byte else "a lone surrogate"
            raise InvalidInput(
                f"{field} holds {what} at position {error.start}: "
                + ("convert it to UTF-8" if is_byte else "decode the text with errors='replace'")
            ) from error
    if size > MAX_TEXT_BYTES:
        raise TooLarge(f"the UTF-8 size of {field} in bytes", MAX_TEXT_BYTES, size)
    return value


def content_value(value: object, field: str) -> str:
    r"""
    Return a text that can be stored: U+FFFD replaces NUL and lone surrogates.

    Raises:
        InvalidInput: *value* is not a str.
        TooLarge: over `MAX_TEXT_BYTES` of UTF-8.

    >>> content_value("GIF89a\0", "text")
    'GIF89a\ufffd'
    """
    try:
        return text_value(value, field)
    except InvalidInput:
        return text_value(fit_value(value), field)


def fit_value(value: Any) -> Any:
    """Return a JSON value as a file can contain it: U+FFFD for what it cannot, a text for NaN."""
    if isinstance(value, str):
        value = value.replace("\0", "\ufffd")
        if value.isascii():
            return value
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {fit_value(key): fit_value(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [*map(fit_value, value)]
    is_number = not isinstance(value, float) or value - value == 0  # neither NaN nor infinite
    return value if is_number else str(value)


def name_value(value: object, field: str) -> str:
    """
    Return *value* if it is a name: 1 to 1,024 characters, not blank.

    Names are opaque: slashes, quotes and `%` mean nothing.
    """
    if isinstance(value, str) and "\0" in value:
        raise InvalidInput(f"{field} contains a NUL character: remove it")
    text = text_value(value, field)
    if not text.strip():
        raise InvalidInput(f"{field} is empty: give a name")
    if len(text) > MAX_NAME_CHARS:
        raise TooLarge(f"the number of characters in {field}", MAX_NAME_CHARS, len(text))
    return text


def optional_name(value: object, field: str) -> str | None:
    """Return None for None, else what `name_value` returns."""
    return None if value is None else name_value(value, field)


MANY = 1 << 40  # a limit of the code: no caller has so many
LARGE = 1 << 19  # a limit that nobody meets: it helps only who gave more


def int_value(value: object, field: str, low: int, high: int) -> int:
    """Return *value* if it is an int from *low* to *high*, both inclusive."""
    if not isinstance(value, int) or isinstance(value, bool):
        shown = f"{value!r:.40}" if isinstance(value, str) else type(value).__name__
        raise InvalidInput(f"{field} is {shown}: give an int")
    if not low <= value <= high:
        is_open = value < low and high >= LARGE
        wanted = f"of {low:,} or more" if is_open else f"from {low:,} to {high:,}"
        raise InvalidInput(f"{field} is {value}: give a number {wanted}")
    return value


def expected_value(value: object, field: str) -> int | None:
    """
    Return the number at which a record must be, None for any.

    Args:
        value: A number, 0 for a record that must be new; or a record that was read.
        field: The field with the number in such a record.
    """
    found = getattr(value, field, value)
    return None if found is None else int_value(found, "expected", 0, (1 << 63) - 1)


def share_value(value: object, field: str) -> float:
    """Return *value* as a float if it is a number from 0 to 1, both inclusive."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise InvalidInput(f"{field} is {type(value).__name__}: give a number from 0 to 1")
    if not 0 <= value <= 1:  # NaN is neither
        raise InvalidInput(f"{field} is {value}: give a number from 0 to 1")
    return float(value)


def time_value(value: object, field: str) -> int | None:
    """Return None for None, else UTC milliseconds within years 1 to 9999."""
    return None if value is None else int_value(value, field, MIN_MS, MAX_MS)


def flag_value(value: object, field: str) -> bool:
    """Return *value* if it is True or False."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{field} is {value!r}: give True or False")
    return value


def choice_value(value: object, field: str, choices: tuple[str, ...]) -> str:
    """Return *value* if it is one of *choices*."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidInput(f"{field} is {value!r}: use one of {', '.join(choices)}")
    return value


def between(low: int, high: int) -> Check:
    """Return a check for an int from *low* to *high*."""
    return lambda value, field: int_value(value, field, low, high)


def one_of(*choices: str) -> Check:
    """Return a check for one of *choices*."""
    return lambda value, field: choice_value(value, field, choices)


def page_of(read: Callable[[int | None], Iterable[T]], limit: int | None) -> Page[T]:
    """
    Return a page of the rows from *read*, which is called for one more than *limit*.

    Raises:
        InvalidInput: *limit* is not a number, or below 0.
    """
    if limit is None:
        return Page(read(None))
    most = int_value(limit, "limit", 0, MANY)
    rows = [*islice(read(most + 1), most + 1)]
    return Page(rows[:most], rows[most - 1] if 0 < most < len(rows) else None)


def row_after(after: object, fields: dict[str, type]) -> tuple[Any, ...] | None:
    """
    Return the start of a page: the fields of the last row of the previous page, in order.

    Args:
        after: That row, or its `to_dict()`. None means the first page.
        fields: The fields that the order compares, each with its type.

    Raises:
        InvalidInput: a field is absent, or of another type.
    """
    if after is None:
        return None
    if isinstance(after, (str, int)):
        raise InvalidInput(f"after is {type(after).__name__}: give the last row of a page")
    values = []
    for field, kind in fields.items():
        value = after.get(field) if isinstance(after, dict) else getattr(after, field, None)
        if kind is int and isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value)  # as `to_dict` gives what a browser would round
        if kind is str:
            text_value(value, f"{field} of after")
        elif not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise InvalidInput(
                f"after has no {field} of the type {kind.__name__}: give the last row of a page"
            )
        values.append(value)
    return tuple(values)


def list_value(values: object, field: str) -> list[Any]:
    """Return an iterable as a list; InvalidInput for a text and for other values."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise InvalidInput(f"{field} is {type(values).__name__}: give a list")
    return [*values]


def path_value(path: object, field: str = "path", *, is_database: bool = False) -> str:
    """
    Return a path as text; for a database it may be the address of a server.

    Raises:
        InvalidInput: *path* is not a path, cannot name a file, or is an address that is not
            accepted here.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidInput(f"{field} is {type(path).__name__}: give a path")
    text = text_value(os.fspath(path), field)
    check_path(text, field, is_database=is_database)
    return text


def is_address(path: str) -> bool:
    """Return whether *path* is the address of a database on a server."""
    return path.startswith(SCHEMES)


def shown_address(address: str) -> str:
    """Return an address without password and options; of a refused one no part at all."""
    if not is_address(address) or is_unclear(address):
        return "postgresql://..."
    scheme, _, rest = address.partition("://")
    login, mark, place = rest.partition("?")[0].rpartition("@")
    return f"{scheme}://{login.partition(':')[0]}{mark}{place}"


def is_unclear(address: str) -> bool:
    """
    Return whether an address has another `@` besides the one between user and host.

    libpq may read a part of a password with `/`, `?` or `@` as host or database, which errors would
    name.
    """
    rest = address.partition("://")[2]
    before_path = rest.partition("?")[0].partition("/")[0]
    return rest.count("@") > before_path.count("@") or before_path.count("@") > 1


def is_other_address(path: str) -> bool:
    """Return whether *path* is meant as an address, but not in memdb's form."""
    lower = path.lower()
    scheme, mark, _ = lower.partition("://")
    # One letter is a drive of Windows.
    has_scheme = bool(mark) and len(scheme) > 1 and scheme.translate(NO_SIGNS).isalnum()
    has_password = any(word.startswith("password=") for word in lower.split())  # libpq's keywords
    return has_scheme or has_password or lower.startswith(("postgresql:", "postgres:"))


def check_path(path: str, field: str, *, is_database: bool) -> None:
    """
    Refuse a value that would be mistaken for a path.

    Args:
        field: Name in the error, which does not repeat the path.
        is_database: Whether the address of a server is accepted too.

    Raises:
        InvalidInput: *path* is an address of another kind, is ambiguous, or names no file.
    """
    if is_database and is_address(path):
        if is_unclear(path):
            raise InvalidInput(
                f"{field} is an address that can be read in two ways: in user, password, database "
                "and options write / ? and @ as %2F %3F and %40"
            )
    elif is_other_address(path):
        use = f"the path of a file or {FORM}" if is_database else "the path of a file"
        raise InvalidInput(f"{field} is an address that memdb does not open here: give {use}")


def json_value(value: object, field: str) -> str | None:
    """
    Return *value* as JSON text, None for None; keys keep their order.

    Values that no file can contain are stored as `fit_value` describes.

    Raises:
        InvalidInput: something in it has no JSON form.
        TooLarge: over `MAX_TEXT_BYTES`.
    """
    if value is None:
        return None
    try:
        return _exact_json(value, field)
    except InvalidInput as error:
        try:
            fit = fit_value(value)
        except RecursionError:
            raise error from None  # too deep to correct: the first error says why
        return _exact_json(fit, field)


def _exact_json(value: object, field: str) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{field} has no JSON form ({error}): use plain values") from error
    if "\\u0000" in text and fit_value(value) != value:
        raise InvalidInput(f"{field} holds a NUL character: remove it")
    if is_deep(value, text):
        raise InvalidInput(f"{field} is nested over {MAX_NESTING} deep: make it flatter")
    return text_value(text, field)


def json_object(value: Mapping[str, Any] | None, field: str) -> str | None:
    """Return a mapping with str keys as JSON text, None for None."""
    if value is None:
        return None
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidInput(f"{field} is not a dict with str keys: give one, or None")
    return json_value(dict(value), field)


def json_list(value: object, field: str) -> str | None:
    """Return a list or tuple as JSON text, None for None."""
    if value is not None and not isinstance(value, (list, tuple)):
        raise InvalidInput(f"{field} is {type(value).__name__}: give a list of parts, or None")
    return json_value(value, field)


def parse_json(text: str | None, kind: type = object) -> Any:
    """
    Return the value of stored JSON text, None for None.

    Args:
        kind: The type that the value has: dict for metadata, list for parts.

    Raises:
        Corrupt: *text* is not JSON, of another type, or nested more than `MAX_NESTING` deep.
    """
    if text is None:
        return None
    problem: Exception | None = None
    try:
        value = _parse(text)
        if isinstance(value, kind) and not is_deep(value, text):
            return value
    except (ValueError, RecursionError) as error:
        problem = error
    raise Corrupt(
        "a stored JSON value is damaged: run `memdb check`, then restore a backup (`memdb "
        "restore`) or save the rest (`memdb recover`)"
    ) from problem


def _parse(text: str) -> Any:
    """
    Return the value of JSON text.

    Text that `json_value` wrote is parsed without further checks.
    """
    try:
        value, end = _scan(text, 0)
        if end == len(text):
            return value
    except StopIteration:  # no value where one has to be
        pass
    return json.loads(text)


def is_deep(value: object, text: str, most: int = MAX_NESTING) -> bool:
    """Return whether *value*, with the JSON text *text*, is nested over *most* deep."""
    if text.count("[") + text.count("{") <= most:
        return False
    level = [value]
    for _ in range(most + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list, tuple))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def moment_ms(value: object, field: str) -> int | None:
    """
    Return None for None, else UTC milliseconds of an int or an aware datetime.

    A number that would be a time of this century in seconds, and of early 1970 in milliseconds, is
    refused, because nobody means early 1970.
    """
    if isinstance(value, int) and value in SECONDS:
        raise InvalidInput(
            f"{field} is {value}: give milliseconds, {value}000 if these are seconds, or a datetime"
        )
    if value is None or isinstance(value, int):
        return time_value(value, field)
    timestamp = getattr(value, "timestamp", None)
    if timestamp is None:
        raise InvalidInput(f"{field} is {type(value).__name__}: give milliseconds or a datetime")
    if getattr(value, "tzinfo", None) is None:
        raise InvalidInput(f"{field} has no time zone: use datetime(..., tzinfo=timezone.utc)")
    return time_value(round(timestamp() * 1000), field)


def span_value(since_ms: int | None, until_ms: int | None) -> tuple[int, int]:
    """
    Return the beginning and the end of a time as UTC milliseconds; None is an open end.

    Raises:
        InvalidInput: the span ends before it begins.

    >>> span_value(0, 1_000)
    (0, 1000)
    """
    if since_ms is not None and until_ms is not None and until_ms < since_ms:
        since, until = iso_time(since_ms), iso_time(until_ms)
        raise InvalidInput(f"until is {until}, before since, {since}: swap them")
    return MIN_MS if since_ms is None else since_ms, MAX_MS + 1 if until_ms is None else until_ms


def iso_day(created_ms: int) -> str:
    """
    Return the UTC day of a time as ISO text, for any time that memdb stores.

    >>> iso_day(1_700_000_000_000), iso_day(-1)
    ('2023-11-14', '1969-12-31')
    """
    start = datetime(1970, 1, 1, tzinfo=UTC)
    return (start + timedelta(milliseconds=created_ms)).date().isoformat()


def iso_time(created_ms: int) -> str:
    """
    Return a time as ISO text in UTC, to the millisecond.

    >>> iso_time(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    start = datetime(1970, 1, 1, tzinfo=UTC)
    moment = start + timedelta(milliseconds=created_ms)
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


# Spans of time as text: "30d", "12h", "45m".
UNITS_MS = {"d": DAY_MS, "h": HOUR_MS, "m": MINUTE_MS}


def refuse_special(*paths: str | os.PathLike[str]) -> None:
    """
    Refuse a pipe, a device or a socket: opening one may wait forever, reading it never end.

    An absent file and a folder pass: opening them raises the error. Cost: 2 µs each.

    Raises:
        FileError: one of *paths* exists, and is neither a regular file nor a folder.
    """
    for path in paths:
        try:
            mode = os.stat(path).st_mode
        except (OSError, ValueError):
            continue
        if not (S_ISREG(mode) or S_ISDIR(mode)):
            raise FileError(
                f"{os.fspath(path)} is a pipe, a device or a socket: give the path of a regular "
                "file",
                os.fspath(path),
            )


def refuse_output(path: str | os.PathLike[str]) -> None:
    """
    Refuse to write a file at *path*, if another kind of file is there or SQLite would remove it.

    Raises:
        FileError: *path* is a pipe, device or socket, or the name of SQLite's file beside an
            existing file.
    """
    refuse_special(path)
    base = find_side_file_owner(path)
    if base is not None:
        raise FileError(
            f"{os.fspath(path)} is a name that SQLite uses for a file beside {base}, and removes: "
            "choose another name",
            os.fspath(path),
        )


def find_side_file_owner(path: str | os.PathLike[str]) -> str | None:
    """Return the file beside which SQLite may keep *path*; None if there is none."""
    for name in {os.fspath(path), os.path.realpath(path)}:
        for end in SIDE_FILES:
            base = name.removesuffix(end)
            if base != name and os.path.isfile(base):
                return base
    return None


def check_query_values(values: Sequence[Any] | Mapping[str, Any]) -> None:
    """Refuse what SQL cannot hold: a mapping would be bound as the list of its keys."""
    named = values.items() if isinstance(values, dict) else enumerate(values)
    for name, value in named:
        for one in value if isinstance(value, (list, tuple, set, frozenset)) else [value]:
            if not isinstance(one, (int, float, str, bytes, bytearray, memoryview, type(None))):
                raise InvalidInput(
                    f"values[{name!r}] contains {type(one).__name__}: give None, a number, text, "
                    "bytes, or a list of these"
                )
