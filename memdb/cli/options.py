"""
Arguments and options: their types, those that many commands share, and those of the Python API.

A parameter of a call of the API is an argument or an option here. Its name, type, default and
text are those of the signature and the docstring, as in the JSON API, so that the three never
differ.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from memdb.api.signatures import STRING, argument_texts, own_parameters, schema_of
from memdb.errors import InvalidInput
from memdb.models.record import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Base = click.ParamType[Any]
else:
    Base = click.ParamType  # click 8.1 cannot be subscripted


def text_or_stdin(text: str) -> str:
    """
    Return *text*; for "-" the text on standard input, without its last line end.

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


SCOPE_OPTIONS = (
    click.Option(
        ["--user"],
        envvar="MEMDB_USER",
        show_envvar=True,
        metavar="NAME",
        help="Whose memory it is.",
    ),
    click.Option(
        ["--app"],
        envvar="MEMDB_APP",
        show_envvar=True,
        metavar="NAME",
        help='The program the memory belongs to. Default: "default".',
    ),
)
JSON = click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON document.")

embedder_option = click.option(
    "--embedder",
    envvar="MEMDB_EMBEDDER",
    show_envvar=True,
    metavar="NAME",
    help="The model that makes the vectors: static, use, fastembed:DIR, openai:NAME, "
    "openai:NAME@URL, llm:NAME, or none to search by words alone. Keys come from the environment, "
    "or from where llm keeps them.",
)
BRANCH = "memdb.branch"


def _keep_branch(context: click.Context, _option: click.Parameter, value: str | None) -> None:
    context.meta[BRANCH] = value


branch_option = click.option(
    "--branch",
    metavar="NAME",
    expose_value=False,
    callback=_keep_branch,
    help="The branch of the conversation. Default: the conversation itself.",
)


def session_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add SESSION and --branch to a command; see `session_of`."""
    return click.argument("session")(branch_option(command))


session_option = click.option(
    "--session", metavar="NAME", help="The conversation it belongs to. Default: all share it."
)


def branch_given() -> str | None:
    """Return the value of --branch of the running command, None without it."""
    found: str | None = click.get_current_context().meta.get(BRANCH)
    return found


def model_option(task: str, without: str) -> Callable[[Any], Any]:
    """Return --model, which names the language model that does *task*."""
    return click.option(
        "--model",
        metavar="NAME",
        help=f"The model that {task}: llm:NAME, openai:NAME or openai:NAME@URL. "
        f"Default: {without}. Keys come from the environment, or from where llm keeps them.",
    )


def confirm_options(function: Any) -> Any:
    """Add --yes and --dry-run to the command."""
    dry = click.option(
        "--dry-run", is_flag=True, help="List what would be removed, and remove nothing."
    )
    return click.option("--yes", "-y", is_flag=True, help="Delete without asking first.")(
        dry(function)
    )


replace_option = click.option("--replace", is_flag=True, help="Overwrite the file at TARGET.")
OPERATORS = {">=": "$gte", "<=": "$lte", "!=": "$ne", ">": "$gt", "<": "$lt", "=": ""}
_UNIT = re.compile(r"_(tokens|minutes|s)$")
_END = re.compile(r"\n\n(?=\w+:\n|Raises:|Returns|Cost:|>>>)|\n\n    ")
# What parameters mean whose docstring leaves it to their names.
TEXTS = {
    "category": "The kind of fact.",
    "created": "Time when it was said or made, now by default.",
    "expires": "Time or span (such as 30d) after which it is not recalled.",
    "expected": "Fail unless it is at this version; 0 means that it is new.",
    "key": "A name for the fact; no two entries may have the same one.",
    "keywords": "An additional word to find it by.",
    "metadata": "A JSON object of yours.",
    "refresh": "Restart the item's time to live.",
    "seq": "Number of the message in its session.",
    "session": "The conversation that it belongs to.",
    "text": 'Its new text, or "-" to read standard input.',
    "trust": "How far a model may trust its text.",
    "version": "The number of a version, in place of the newest.",
}

# What others mean on every command line.
OWN = {
    "after": "Last row of the previous page, as JSON. The list continues after it.",
    "limit": "Print at most this many.",
    "where": "Only items that meet this condition, and each other condition given.",
    "group": '"session" prints the best conversations, each with its best messages.',
    "current": "Leave out entries that a newer entry outdates with a probability of at least 0.8.",
}


class Json(Base):
    """A value as JSON; a text that is not JSON is a text."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ARG002 (click gives them)
        """Return the value."""
        return parsed(value) if isinstance(value, str) else value


class Labels(Base):
    """A namespace: labels with slashes between them, or a JSON list of them."""

    name = "namespace"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the labels of "notes/trip", or of a JSON list; "/" is the root."""
        if not isinstance(value, str):
            return value
        if value.startswith("["):
            try:
                return tuple(json.loads(value))
            except ValueError as error:
                self.fail(f"{value!r} is not a JSON list of labels ({error}).", param, ctx)
        return tuple(value.strip("/").split("/")) if value.strip("/") else ()


class Row(Base):
    """The last row of the previous page, as --json printed it."""

    name = "row"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the fields of the row."""
        row = parsed(value) if isinstance(value, str) else value
        if not isinstance(row, dict):
            self.fail("give the last row of the previous page, a JSON object.", param, ctx)
        return row


def parsed(text: str) -> Any:
    """Return the value of JSON text; any other text stays a text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def conditions(
    _: click.Context, __: click.Parameter, given: Sequence[str]
) -> dict[str, Any] | None:
    """Return the fields that "stars>=3" and "source=mail" ask for."""
    tests: dict[str, Any] = {}
    for text in given:
        signs = [(text.index(sign), -len(sign), sign) for sign in OPERATORS if sign in text]
        place, _size, sign = min(signs, default=(0, 0, ""))
        if not place:
            raise click.BadParameter(
                f"{text!r} is not a condition on a field: write KEY=VALUE or KEY>=VALUE."
            )
        value = parsed(text[place + len(sign) :])
        if OPERATORS[sign]:
            value = {**tests.get(text[:place], {}), OPERATORS[sign]: value}
        tests[text[:place]] = value
    return tests or None


# Types of parameters that the annotation alone does not tell.
ENTRIES = ("entry", "entry_id", "old_id", "new_id", "newer_id", "older_id")  # a number or a key
TYPES: dict[str, Any] = {
    **dict.fromkeys(ENTRIES, click.STRING),
    "after": Row(),
    "value": Json(),
    "metadata": Json(),
}


def params_of(
    call: Callable[..., Any],
    without: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
    texts: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> list[click.Parameter]:
    """
    Return the parameters of a call of the API as arguments and options.

    Args:
        without: Parameters that the command line does not give.
        names: What others are called here.
        texts: What others mean here.
        defaults: Values that others have here where they are not given.
    """
    texts = {**TEXTS, **argument_texts(inspect.getdoc(call) or ""), **OWN, **(texts or {})}
    found: list[click.Parameter] = []
    for one in own_parameters(call):
        if one.name not in without:
            name = (names or {}).get(one.name) or _UNIT.sub("", one.name)
            made = one.replace(default=(defaults or {}).get(one.name, one.default))
            found.append(_parameter(made, name, texts.get(one.name, "")))
            if defaults and one.name in defaults:
                found[-1].default = made.default
    return found


def _parameter(one: inspect.Parameter, name: str, text: str) -> click.Parameter:
    """Return the option for a parameter of the API; one without a default is an argument."""
    annotation, default = str(one.annotation), one.default
    schema = schema_of(annotation, nullable=False)
    kinds: list[dict[str, Any]] = schema.get("anyOf", [schema])
    kind: dict[str, Any] = STRING if STRING in kinds else _first(kinds)
    is_list = "Iterable" in annotation or kind.get("type") == "array"
    of: Any = TYPES.get(one.name) or _type_of(kind.get("items", kind))
    if annotation == "Namespace":
        of, is_list = Labels(), False
    if default is one.empty:
        metavar = "NUMBER|KEY" if name == "entry_id" else name.removesuffix("_id").upper()
        return click.Argument([one.name], type=of, metavar=metavar)
    about = re.split(r"(?<=[\w)][\w)])[.;:] ", shown(text) + " ")[0].strip()
    about, option = about and f"{about.removesuffix('.')}.", name.replace("_", "-")
    if isinstance(default, (int, str)) and not isinstance(default, bool) and default:
        about += f"  [default: {default}]"
    given: dict[str, Any] = {"help": about, "default": None}
    if one.name == "where":
        given |= {"multiple": True, "metavar": "KEY=VALUE", "callback": conditions}
    elif kind.get("type") == "boolean":
        given |= {"is_flag": True, **({"flag_value": False} if default is True else {})}
        if default is True:  # the docstring's "False keeps it" is the option's "Keep it"
            given["help"] = re.sub(r"^False (\w+?)s\b", lambda verb: verb[1].capitalize(), about)
        if default is not False:
            option = f"no-{option}" if default is True else f"{option}/--no-{option}"
    else:
        given |= {"type": of, "multiple": is_list}
        if is_list:
            option = singular(option)
            given["help"] = f"{about} Repeatable."
    return click.Option([f"--{option}", one.name], **given)


def singular(name: str) -> str:
    """Return the name of one thing of several: "entry" of "entries"."""
    return re.sub("(ch)es$", r"\1", re.sub("ies$", "y", name)).removesuffix("s")


def all_counted(counts: Mapping[str, int]) -> str:
    """Return the number of rows of each kind as text, such as "2 entries, 1 branch"."""
    parts = [counted(count, singular(name), name) for name, count in counts.items() if count]
    return ", ".join(parts) or "nothing"


def _first(kinds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the first schema that is not that of a list, else the first."""
    return next((one for one in kinds if one.get("type") != "array"), kinds[0])


def _type_of(schema: Mapping[str, Any]) -> Any:
    """Return the type of click for a JSON schema."""
    if "enum" in schema:
        return click.Choice(schema["enum"])
    kinds = {"integer": click.INT, "number": click.FLOAT, "object": Json()}
    return kinds.get(schema.get("type", ""), click.STRING)


def shown(text: str) -> str:
    """Return a text of a docstring as it reads on a command line."""
    return " ".join(re.sub("[*`]", "", text).split())


def doc_of(call: Callable[..., Any]) -> str:
    """Return the part of a docstring before its sections, for the help of a command."""
    text = _END.split(inspect.getdoc(call) or "")[0]
    return "\n\n".join(map(shown, text.split("\n\n")))
