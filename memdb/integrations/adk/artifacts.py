"""Artifacts of ADK in a memdb file."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import (
    ArtifactVersion,
    BaseArtifactService,
    ensure_part,
)
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.platform import time as platform_time
from google.genai import types

from memdb.errors import NotFound
from memdb.integrations.adk.events import to_ms
from memdb.integrations.adk.service import Service, can_name, frozen

if TYPE_CHECKING:
    import memdb
    from memdb.api.collections import Artifacts

SHARED = "user:"
HOST = "adk"

# As ADK's own services follow them.
MAX_REFERENCES = 5

# No file holds as many.
MAX_VERSION = 1 << 62

URI_MIME = "text/uri-list"
BYTES_MIME = "application/octet-stream"
TOMBSTONE = types.Part(inline_data=types.Blob(mime_type=BYTES_MIME, data=b""))


class MemdbArtifactService(Service, BaseArtifactService):
    """
    ADK's artifacts in a memdb file; see `Service` for how it is opened.

    Versions count from 0 here and from 1 in memdb. The number of a deleted version is never used
    again, so after a delete the numbers continue. A name without a session is the user's, as is one
    that begins with `user:`.

    As in ADK's own, every call refuses ids and names that would leave their folder
    if they were paths. Names that are only too long have no artifacts.
    """

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """
        Save a text, bytes, or a reference as the next version; return its number.

        Raises:
            InputValidationError: an id or name would leave its folder, the part is of another kind,
                or a reference leads to another scope.
        """
        files = self._files(app_name, user_id, session_id, filename)
        part = ensure_part(artifact)
        if not isinstance(part, types.Part):
            raise InputValidationError(f"artifact is {type(part).__name__}: give a types.Part")
        _check_reference(part, app_name, user_id, session_id)
        data, mime, kept = _taken_apart(part)
        custom = frozen(custom_metadata)
        if custom:
            kept["custom"] = custom
        metadata = {HOST: kept} if kept else None
        created_ms = to_ms(platform_time.get_time())

        def write() -> int:
            saved = files().save(filename, data, mime=mime, metadata=metadata, created=created_ms)
            return int(saved.version) - 1

        return await self._run(write)

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """
        Return a version, or the newest; None if it is absent or was rewound.

        Raises:
            InputValidationError: references lead too far, in a circle, or to another scope;
                *version* is not an int.
        """
        _check_version(version)
        left = MAX_REFERENCES
        while True:
            files = self._files(app_name, user_id, session_id, filename)
            if not can_name(app_name, user_id, session_id or SHARED, filename):
                return None
            part = await self._read(lambda f=files, n=filename, v=version: _load(f(), n, v))  # type: ignore[misc]  # mypy infers no default
            if part is None or not artifact_util.is_artifact_ref(part):
                return None if part in (None, TOMBSTONE, types.Part()) else part
            target = artifact_util.resolve_artifact_reference(
                file_uri=part.file_data.file_uri,
                app_name=app_name,
                user_id=user_id,
                session_id=session_id,
                remaining_depth=left,
            )
            session_id, filename, version = target.session_id, target.filename, target.version
            left -= 1

    async def list_artifact_keys(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[str]:
        """Return the names of a session and its user, sorted; without a session only the user's."""
        files = self._files(app_name, user_id, session_id)

        def read() -> list[str]:
            found = files().list()
            return sorted(
                one.name for one in found if session_id is not None or one.session is None
            )

        if not can_name(app_name, user_id, session_id or SHARED):
            return []
        return await self._read(read)

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Remove every version; do nothing if there is none."""
        files = self._files(app_name, user_id, session_id, filename)
        if can_name(app_name, user_id, session_id or SHARED, filename):
            await self._run(lambda: files().delete(filename))

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """Return the numbers of the versions, oldest first; [] if there is none."""
        found = await self._versions(app_name, user_id, session_id, filename)
        return [one.version - 1 for one in reversed(found)]

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """Return the metadata of each version, oldest first; [] if there is none."""
        found = await self._versions(app_name, user_id, session_id, filename)
        return [_described(app_name, user_id, one) for one in reversed(found)]

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """Return the metadata of a version, or of the newest; None if there is none."""
        _check_version(version)
        found = await self._versions(app_name, user_id, session_id, filename)
        for one in found:
            if version is None or one.version == version + 1:
                return _described(app_name, user_id, one)
        return None

    async def _versions(
        self, app_name: str, user_id: str, session_id: str | None, filename: str
    ) -> list[memdb.ArtifactVersion]:
        """Return every version of a name, newest first; [] if there is none."""
        files = self._files(app_name, user_id, session_id, filename)
        if not can_name(app_name, user_id, session_id or SHARED, filename):
            return []
        found: list[memdb.ArtifactVersion] = await self._read(lambda: files().versions(filename))
        return found

    def _files(
        self, app_name: str, user_id: str, session_id: str | None, filename: str | None = None
    ) -> Any:
        """
        Return the artifacts of a place, after checking all names.

        Raises:
            InputValidationError: a name is empty, or would leave its place in a
                tree of folders.
        """
        artifact_util.validate_path_segment(app_name, "app_name")
        artifact_util.validate_path_segment(user_id, "user_id")
        if session_id is not None:
            artifact_util.validate_path_segment(session_id, "session_id")
        if filename is not None:
            _check_name(filename)

        def files() -> Artifacts:
            scope = self._scope(app_name, user_id)
            return scope.artifacts if session_id is None else scope.session(session_id).artifacts

        return files


def _check_name(filename: str) -> None:
    """Refuse a name that would leave its folder if it were a path, here or on Windows."""
    if not isinstance(filename, str):
        raise InputValidationError(f"filename is {type(filename).__name__}: give a str")
    name = filename.removeprefix(SHARED)
    paths = PurePosixPath(name), PureWindowsPath(name)
    if not name.strip():
        raise InputValidationError(
            f"filename {filename!r} is empty: give a name, such as 'report.md'"
        )
    if "\0" in name:
        raise InputValidationError(f"filename {filename!r} contains a NUL character: remove it")
    if any(path.anchor or ".." in path.parts for path in paths):
        raise InputValidationError(
            f"filename {filename!r} would leave its folder: give a name without drive, "
            "'..' or a slash at its start"
        )


def _check_version(version: int | None) -> None:
    if version is not None and not isinstance(version, int):
        raise InputValidationError(f"version is {type(version).__name__}: give an int from 0 on")


def _check_reference(part: types.Part, app_name: str, user_id: str, session_id: str | None) -> None:
    """Refuse a reference that cannot be followed from here."""
    if artifact_util.is_artifact_ref(part):
        artifact_util.resolve_artifact_reference(
            file_uri=part.file_data.file_uri,
            app_name=app_name,
            user_id=user_id,
            session_id=session_id,
            remaining_depth=MAX_REFERENCES,
        )


def _taken_apart(part: types.Part) -> tuple[bytes, str | None, dict[str, Any]]:
    """
    Return the bytes of a part, their type, and other fields to store.

    Raises:
        InputValidationError: the part is not text, bytes or a reference.
    """
    rest = part.model_dump(
        mode="json", exclude={"text": True, "inline_data": {"data"}}, exclude_none=True
    )
    if part.inline_data is not None:
        data, mime = part.inline_data.data or b"", part.inline_data.mime_type or BYTES_MIME
    elif part.text is not None:
        data, mime = part.text.encode(errors="surrogatepass"), "text/plain"
        rest["text"] = ""
    elif part.file_data is not None:
        data, mime = (part.file_data.file_uri or "").encode(), URI_MIME
    else:
        raise InputValidationError("artifact has no text, bytes or file_data: give one of them")
    return data, mime, {"part": rest}


def _load(files: Artifacts, filename: str, version: int | None) -> types.Part | None:
    """Return a version as the part that was saved; another client's version as bytes."""
    if version is not None and not 0 <= version < MAX_VERSION:
        return None
    try:
        found = files.load(filename, None if version is None else version + 1)
    except NotFound:
        return None
    rest = ((found.info.metadata or {}).get(HOST) or {}).get("part")
    if rest is None:
        return types.Part(inline_data=types.Blob(mime_type=found.info.mime, data=found.data))
    part = types.Part.model_validate(rest)
    if part.inline_data is not None:
        part.inline_data.data = found.data
    elif part.text is not None:
        part.text = found.data.decode(errors="surrogatepass")
    return part


def _described(app_name: str, user_id: str, one: memdb.ArtifactVersion) -> ArtifactVersion:
    kept = (one.metadata or {}).get(HOST) or {}
    file_data = (kept.get("part") or {}).get("file_data")
    uri = artifact_util.get_artifact_uri(app_name, user_id, one.name, one.version - 1, one.session)
    return ArtifactVersion(
        version=one.version - 1,
        canonical_uri=uri.replace("artifact:", "memdb:", 1),
        custom_metadata=kept.get("custom") or {},
        create_time=one.created_ms / 1000,
        mime_type=file_data.get("mime_type") if file_data else one.mime,
    )
