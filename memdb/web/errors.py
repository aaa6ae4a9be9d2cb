"""
Errors as `application/problem+json`: status, code, the cause, and the next thing to do.

The codes are those of `memdb.errors`; the only table from codes to statuses is here.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from starlette.responses import Response

from memdb.errors import InvalidInput, MemDBError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

# Status and advice by the code of an error; a subclass without a row has that of its base.
CODES: dict[str, tuple[int, str]] = {
    "invalid": (422, "Correct the field and send it again."),
    "secret": (422, "Take the secret out, or give secrets=redact."),
    "not_found": (404, "Check the name; a list request returns the names that exist."),
    "conflict": (409, "Read the record again, and decide whether to repeat the request."),
    "exists": (409, "Choose another name, or read the record with this name."),
    "version": (409, "Read the newer version, and send the request with its number."),
    "file": (410, "The file was removed or replaced: start the server again."),
    "read_only": (403, "The file is open for reading only; start the server without --read-only."),
    "schema_new": (500, "Upgrade memdb, then start the server again."),
    "storage": (500, "Try again; if it fails again, run `memdb check FILE`."),
    "busy": (503, "Another process writes. Try again in a second."),
    "interrupted": (503, "Try again."),
    "full": (507, "Free some space on the disk, then try again. Nothing was written."),
    "corrupt": (500, "Restore a backup: `memdb restore BACKUP FILE`."),
    "closed": (410, "The file was closed. Start the server again."),
    "unsupported": (501, "This kind of file does not support the request."),
    "port": (502, "A model or embedder failed. What was stored is safe; try again later."),
    "unavailable": (503, "A model or embedder gave no answer. Try again later."),
    "internal": (500, "This is a bug: please report it."),
    # Of the server itself.
    "sign_in": (401, "Press Enter in the terminal of `memdb web` for a new link."),
    "token": (401, "Send Authorization: Bearer with a token of `memdb token add`."),
    "other_user": (403, "Send the user and app of the token, or leave both out."),
    "whole_memory": (403, "Send a token of `memdb token add --everything`."),
    "link_used": (401, "Press Enter in the terminal of `memdb web` for a new link."),
    "link_old": (401, "Press Enter in the terminal of `memdb web` for a new link."),
    "foreign": (403, "Open the link that the server printed; no other page may send requests."),
    "no_route": (404, "See openapi.json for the paths that exist."),
    "method": (405, "See openapi.json for the methods of this path."),
    "other_file": (410, "Another file is served here. Start the server with the file you mean."),
    "replaced": (410, "The file was replaced. Start the server again."),
    "stale": (412, "The record changed since you read it. Read it again, then decide."),
    "body_size": (413, "Send at most 1 MB; use the command line for more."),
    "content_type": (415, "Send Content-Type: application/json."),
    "host": (421, "Use the address that the server printed."),
    "no_version": (
        428,
        "Send If-Match with the ETag that you read, or If-None-Match: * for a new one.",
    ),
    "shared": (403, "Send a token of `memdb token add --shared`."),
    "framing": (400, "Send either Content-Length or Transfer-Encoding, not both."),
    "attempts": (429, "Send a valid token, which is answered at once, or wait a minute."),
    "header_size": (431, "Send shorter headers, or clear the cookies of 127.0.0.1."),
    "streams": (503, "Too many downloads are open. Try again in a second."),
}
RETRY_AFTER_S = "1"
BUSY = 503
MAX_DETAIL_CHARS = 2000


class Refused(Exception):
    """A request that the server itself refuses; the error handler answers it."""

    def __init__(self, code: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        """Refuse the request with the row *code* of `CODES`."""
        super().__init__(detail)
        self.code = code
        self.headers = dict(headers or {})


def problem(
    code: str,
    detail: str,
    *,
    status: int | None = None,
    facts: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the answer for the row *code* of `CODES`."""
    usual, todo = CODES[code]
    body = {
        **(facts or {}),
        "type": "about:blank",
        "status": status or usual,
        "code": code,
        "detail": detail[:MAX_DETAIL_CHARS],
        "todo": todo,
    }
    response = Response(
        json.dumps(body, default=str), status or usual, media_type="application/problem+json"
    )
    response.headers.update(headers or {})
    if response.status_code == BUSY:
        response.headers["Retry-After"] = RETRY_AFTER_S
    return response


def from_error(error: Exception, fields: Iterable[str] = ()) -> Response:
    """
    Return the answer for an error of a call.

    Args:
        fields: Parameters of the call; if the error's sentence begins with one, the answer names
            it.
    """
    if isinstance(error, Refused):
        return problem(error.code, str(error), headers=error.headers)
    if not isinstance(error, MemDBError):
        return problem("internal", f"{type(error).__name__}: {error}")
    row = _row_of(type(error))
    facts = {**error.facts(), "code": error.code}
    detail = str(error)
    if isinstance(error, InvalidInput):
        word = re.match(r"\w*", detail)[0]  # type: ignore[index] # it matches ""
        facts["field"] = facts.get("field") or (word if word in {*fields} else None)
    return problem(row, detail, facts=facts)


def _row_of(kind: type) -> str:
    """Return the row of an error class: its own code, or that of the nearest base."""
    codes = [getattr(one, "code", "") for one in kind.__mro__]
    return next((code for code in codes if code in CODES), "internal")
