"""
Values that are typed on the command line: times, models, texts that may come by pipe.
"""

from __future__ import annotations

import sys

import click

from memdb.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memdb.models.protocols import Model

    Base = click.ParamType[int]
else:
    Base = click.ParamType  # click 8.1 cannot be subscripted


class Moment(Base):
    """A time as ISO 8601 date or date and time; UTC where it names no zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return UTC milliseconds."""
        from datetime import UTC, datetime, timedelta

        try:
            moment = datetime.fromisoformat(value.strip())
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=UTC)
            return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        except (ValueError, OverflowError):
            self.fail(
                f"{value!r} is no date or time: write 2025-03-01 or 2025-03-01T09:14+01:00",
                param,
                ctx,
            )


class MomentOrSpan(Moment):
    """A time, a span from now such as 30d, or "never"."""

    name = "time|span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return UTC milliseconds; a span and "never" as they are, for the library to read."""
        if value == "never" or (value[:-1].isdecimal() and value[-1] in "dhm"):
            return value
        return super().convert(value, param, ctx)


MOMENT = Moment()
EXPIRY = MomentOrSpan()


def text_or_stdin(text: str) -> str:
    """
    Return *text*; for "-" what stands on standard input, without its last line end.

    Raises:
        InvalidInput: standard input is not UTF-8.
    """
    if text != "-":
        return text
    data = sys.stdin.buffer.read()
    try:
        read = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"standard input is not UTF-8 at byte {error.start}: convert it, for example with iconv"
        ) from error
    return read.removesuffix("\n").removesuffix("\r")


def model_named(spec: str) -> Model:
    """
    Return the language model that --model names.

    Raises:
        InvalidInput: there is none, its extra is not installed, or *spec* holds
            a secret.
    """
    from memdb.api._resolve import model_by_name

    _refuse_secrets("--model", spec)
    return model_by_name(spec)


def embedder_named(spec: str) -> str | None:
    """
    Return *spec*, what --embedder names, for `memdb.open`; None for "none".

    Raises:
        InvalidInput: it holds a secret.
    """
    _refuse_secrets("--embedder", spec)
    return None if spec == "none" else spec


def _refuse_secrets(option: str, spec: str) -> None:
    """Refuse a URL with secrets: every user of the machine can read what is typed."""
    from memdb.text.secrets import url_secrets

    _, at, rest = spec.partition("@http")
    try:
        open_secrets = url_secrets(f"http{rest}") if at else []
    except ValueError:  # no URL at all, as the adapter says itself
        open_secrets = []
    if open_secrets:
        raise InvalidInput(
            f"{option} holds a user, password or query: what is typed can be read by others; put "
            "the key into OPENAI_API_KEY, and a whole URL into OPENAI_BASE_URL"
        )
