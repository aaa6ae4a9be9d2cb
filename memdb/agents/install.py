"""
Install memdb into the settings of coding agents, and remove it again.

Settings are edited as text: pieces are inserted, and nothing else changes a byte. memdb's own data
folder has the places of the pieces and a digest of the file, but no text of it. So removing the
pieces restores the original bytes. If a file was changed since, it is parsed, and only memdb's
entries are removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memdb.agents import json_text, toml_text
from memdb.agents.places import data_folder, make_folder
from memdb.agents.programs import is_server, own_hooks, package_of, program_of, words_for
from memdb.errors import AlreadyExists, FileError, InvalidInput, MemDBError
from memdb.models.record import Record

if TYPE_CHECKING:
    from memdb.agents.json_text import Piece
    from memdb.agents.programs import Entry, SettingsFile

    Range = list[int]  # offset and length


class Change(Record):
    """
    Change that an installation makes to a settings file.

    Attributes:
        before, after: Its text; None means that there is no file.
        receipt: Stored to undo the change; None removes the stored one.
    """

    path: Path
    before: str | None
    after: str | None
    receipt: dict[str, Any] | None

    @property
    def is_change(self) -> bool:
        """Whether the file changes."""
        return self.before != self.after


def plan_install(
    name: str, project: Path | None, file: str | None, *, recalls: bool = False
) -> list[Change]:
    """
    Return the changes that install memdb in a program; nothing is written yet.

    Args:
        project: The folder of a project; None means the user's own settings.
        file: The memory file; None means the default one, which the settings do not name.
        recalls: Whether to install the hook that answers each prompt too.

    Raises:
        InvalidInput: there is no such program, or a settings file cannot be read.
        AlreadyExists: another server is called memdb there.
        FileError: a file cannot be read.
    """
    if recalls and not program_of(name).prompt:
        raise InvalidInput(f"{name} has no hook that can add to a prompt: leave --recall out")
    words = words_for(is_project=project is not None, file=file, recalls=recalls)
    receipts = _read_receipts()
    files = program_of(name).files(project, words)
    return [_named(one, receipts, _installed) for one in files]


def write_package(name: str, folder: Path, version: str, *, recalls: bool) -> list[Path]:
    """
    Write a plugin for a program into a new or empty folder; return its files.

    Raises:
        AlreadyExists: the folder is not empty.
        FileError: a file cannot be written.
        InvalidInput: the program does not support plugins.
    """
    files = package_of(name, version, recalls=recalls)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise AlreadyExists("file", str(folder))
    for path, text in files.items():
        _write(folder / path, text)
    return [folder / path for path in files]


def plan_uninstall(name: str, project: Path | None) -> list[Change]:
    """Return the changes that remove memdb from a program; raises as `plan_install` does."""
    words = words_for(is_project=project is not None, file=None, recalls=True)
    receipts = _read_receipts()
    files = program_of(name).files(project, words)
    return [_named(one, receipts, _uninstalled) for one in files]


def apply(changes: list[Change]) -> None:
    """
    Write *changes*, each file as a whole or not at all.

    Raises:
        FileError: a file cannot be written, or was changed since the plan.
    """
    receipts = _read_receipts()
    emptied: list[str] = []
    for change in changes:
        if not change.is_change:
            continue
        if _read(change.path) != change.before:
            path = str(change.path)
            raise FileError(f"{path} was changed at this moment: try again", path)
        key, receipt = str(change.path), change.receipt
        created = (receipts.get(key) or {}).get("folders", [])
        if receipt is not None:
            receipt["folders"] = [*created, *_missing_folders(change.path)]
            receipts[key] = receipt
            _write_receipts(receipts)
        _write(change.path, change.after)
        if receipt is None:
            receipts.pop(key, None)
            _write_receipts(receipts)
            emptied += created if change.after is None else []
    _remove_folders(emptied)


def state_of(name: str, project: Path | None) -> list[tuple[Path, str]]:
    """
    Return each settings file of a program and whether memdb is in it.

    The state is "installed", "partly", "absent", or what is wrong with the file.
    """
    words = words_for(is_project=project is not None, file=None)
    found = []
    for settings in program_of(name).files(project, words):
        own = [entry for entry in settings.entries if entry.is_own]
        try:
            value = _parsed(settings, _read(settings.path) or "")
            count = sum(bool(_own_values(entry, value)) for entry in own)
            state = "absent" if not count else "installed" if count == len(own) else "partly"
        except (InvalidInput, FileError) as error:
            state = str(error)
        found.append((settings.path, state))
    return found


def _named(settings: SettingsFile, receipts: dict[str, Any], plan: Any) -> Change:
    """Return the changes that *plan* returns for a settings file; errors name the file."""
    path = Path(os.path.realpath(settings.path))  # a link stays one
    try:
        done: Change = plan(settings, path, _read(path), receipts.get(str(path)))
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error
    return done


def _installed(
    settings: SettingsFile, path: Path, before: str | None, receipt: dict[str, Any] | None
) -> Change:
    """Return the change that inserts the entries."""
    text = before or ""
    value = _parsed(settings, text)
    if all(_is_there(entry, value) for entry in settings.entries):
        return Change(path, before, before, receipt)
    created = before is None
    if any(_own_values(entry, value) for entry in settings.entries if entry.is_own):
        text = _uninstalled(settings, path, before, receipt).after or ""
        created = bool(receipt and receipt["created"])
    containers = _missing_containers(settings, text)
    ranges: list[Range] = []
    clean = _digest(text)
    for entry in settings.entries:
        present = _own_values(entry, _parsed(settings, text))
        if not entry.is_own and _get(_parsed(settings, text), (*entry.path, entry.key)) is not None:
            continue
        if entry.key is not None and entry.is_own:
            other = _get(_parsed(settings, text), (*entry.path, entry.key))
            if other is not None and not present:
                raise AlreadyExists("server", f"{entry.key} in {path}")
        text = _with_pieces(text, _added(settings, text, entry), ranges)
    kept = {
        "created": created,
        "clean_sha256": clean,
        "sha256": _digest(text),
        "ranges": ranges,
        "containers": containers,
    }
    return Change(path, before, text, kept)


def _uninstalled(
    settings: SettingsFile, path: Path, before: str | None, receipt: dict[str, Any] | None
) -> Change:
    """Return the change that removes the entries."""
    if before is None:
        return Change(path, None, None, None)
    created = bool(receipt and receipt["created"])
    text = _undone(before, receipt)
    if text is None:
        text = before
        containers = None if receipt is None else receipt["containers"]
        for entry in settings.entries:
            if entry.is_own:
                text = _without(settings, text, entry, containers)
    is_gone = created and text != before and _is_empty(settings, text)
    return Change(path, before, None if is_gone else text, None)


def _undone(text: str, receipt: dict[str, Any] | None) -> str | None:
    """Return the bytes from before an installation; None if the file was changed since."""
    if receipt is None or receipt["sha256"] != _digest(text):
        return None
    for offset, length in sorted(receipt["ranges"], reverse=True):
        text = text[:offset] + text[offset + length :]
    return text if _digest(text) == receipt["clean_sha256"] else None


def _is_empty(settings: SettingsFile, text: str) -> bool:
    """Return whether a text without memdb's entries contains nothing of its user."""
    extra = {entry.key: entry.value for entry in settings.entries if not entry.is_own}
    notes = toml_text.comments(text) if settings.is_toml else json_text.comments(text)
    rest = _parsed(settings, text)
    return not notes and isinstance(rest, dict) and rest.items() <= extra.items()


def _missing_containers(settings: SettingsFile, text: str) -> list[list[str]]:
    """Return the paths of objects and lists that the entries need and *text* lacks."""
    value = _parsed(settings, text)
    paths = [entry.path[:n] for entry in settings.entries for n in range(1, len(entry.path) + 1)]
    return [list(path) for path in dict.fromkeys(paths) if _get(value, path) is None]


def _without(
    settings: SettingsFile, text: str, entry: Entry, containers: list[list[str]] | None
) -> str:
    """
    Return *text* without an entry, and without containers that become empty.

    Args:
        containers: The containers that an installation made; None means that any empty one may be
            removed.
    """
    for _ in range(len(text)):
        found = _own_values(entry, _parsed(settings, text))
        if not found:
            return text
        if settings.is_toml:
            return toml_text.remove(text, (*entry.path, str(entry.key)))
        text = json_text.remove(text, found[-1])
        path = entry.path
        while (
            path
            and (containers is None or list(path) in containers)
            and _get(_parsed(settings, text), path) in ({}, [])
        ):
            text = json_text.remove(text, path)
            path = path[:-1]
    return text


def _added(settings: SettingsFile, text: str, entry: Entry) -> list[Piece]:
    if settings.is_toml:
        return toml_text.add(text, (*entry.path, str(entry.key)), entry.value)
    return json_text.add(text, entry.path, entry.key, entry.value)


def _with_pieces(text: str, pieces: list[Piece], ranges: list[Range]) -> str:
    """Return *text* with *pieces* inserted; *ranges* then lists everything that was inserted."""
    for piece in sorted(pieces, key=lambda one: one.offset, reverse=True):
        size, is_inside = len(piece.text), False
        for one in ranges:
            if piece.offset <= one[0]:
                one[0] += size
            elif piece.offset < one[0] + one[1]:
                one[1] += size
                is_inside = True
        if not is_inside:
            ranges.append([piece.offset, size])
        text = text[: piece.offset] + piece.text + text[piece.offset :]
    return text


def _parsed(settings: SettingsFile, text: str) -> Any:
    """Return the parsed settings file, {} for an empty one."""
    if settings.is_toml:
        return toml_text.parse(text)
    node = json_text.parse(text)
    return {} if node is None else node.value


def _get(value: Any, path: tuple[Any, ...]) -> Any:
    """Return the value at a path, None if there is none."""
    for label in path:
        if isinstance(value, list) and isinstance(label, int):
            value = value[label]
        else:
            value = value.get(label) if isinstance(value, dict) else None
    return value


def _own_values(entry: Entry, value: Any) -> list[tuple[Any, ...]]:
    """Return the paths of values that memdb put in the place of an entry."""
    if entry.key is None:
        return [(*entry.path, *one) for one in own_hooks(_get(value, entry.path))]
    path = (*entry.path, entry.key)
    return [path] if is_server(_get(value, path)) else []


def _is_there(entry: Entry, value: Any) -> bool:
    """Return whether a file contains an entry unchanged."""
    if not entry.is_own:
        return _get(value, (*entry.path, entry.key)) is not None
    own = [_get(value, path) for path in _own_values(entry, value)]
    if entry.key is not None:  # a program or its user may have added to it
        return bool(own) and all(own[0].get(key) == one for key, one in entry.value.items())
    return own in ([entry.value], entry.value.get("hooks"))  # or in a group with others


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read(path: Path) -> str | None:
    """Return the text of a file with its own line ends; None if there is no file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for, for ever
            raise FileError(
                f"{path} is not a regular file: remove it, or use another file", str(path)
            )
        return path.read_bytes().decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        raise InvalidInput("the file is not UTF-8: convert it first") from error
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}", str(path)) from error


def _write(path: Path, text: str | None) -> None:
    """Write a file in one step and keep its permissions; None removes the file."""
    try:
        if text is None:
            path.unlink()
            return
        make_folder(path)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        beside = path.with_name(f".{path.name}.memdb-{os.getpid()}")
        try:
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            beside.chmod(mode)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}", str(path)) from error


def _missing_folders(path: Path) -> list[str]:
    """Return the folders that must be created for a file, deepest first."""
    return [str(one) for one in path.parents if not one.exists()]


def _remove_folders(folders: list[str]) -> None:
    """Remove the folders that an installation created, if they are empty."""
    for one in sorted(folders, key=len, reverse=True):
        try:
            Path(one).rmdir()
        except OSError:
            continue


def _receipts_path() -> Path:
    return data_folder() / "agent-installed.json"


def _read_receipts() -> dict[str, Any]:
    """
    Return the receipts of the installations by path; under "" the folders made for memdb's data.

    A damaged receipt counts as absent: the entries are then searched in the settings themselves.
    """
    try:
        value = json.loads(_read(_receipts_path()) or "{}")
    except (MemDBError, ValueError, RecursionError):
        return {}
    found = value.items() if isinstance(value, dict) else ()
    return {path: one for path, one in found if _is_receipt(one, is_own=not path)}


def _is_receipt(value: Any, *, is_own: bool) -> bool:
    """Return whether a value has the form of a receipt."""
    if not isinstance(value, dict) or not _is_list(value.get("folders"), str):
        return False
    return is_own or (
        isinstance(value.get("created"), bool)
        and all(isinstance(value.get(name), str) for name in ("sha256", "clean_sha256"))
        and _is_list(value.get("ranges"), list)
        and all(len(one) == 2 and _is_list(one, int) for one in value["ranges"])  # noqa: PLR2004 (from and to)
        and _is_list(value.get("containers"), list)
    )


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(one, kind) for one in value)


def _write_receipts(receipts: dict[str, Any]) -> None:
    """Store the receipts of the installations; without any, the file is removed."""
    path = _receipts_path()
    if receipts.keys() - {""}:
        receipts.setdefault("", {"folders": _missing_folders(path)})
        _write(path, json.dumps(receipts, indent=1) + "\n")
    elif path.exists():
        _write(path, None)
        own = receipts.get("", {"folders": [str(path.parent)]})
        _remove_folders([*own["folders"], str(path.parent)])
