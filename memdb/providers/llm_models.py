"""
Language models of simonw/llm and its plugins (extra `llm`) for the port `Model`.

llm has no timeout of its own and its plugins do what they like, so a call runs
in a thread that is given up in time. Nothing is written to llm's log database.
"""

from __future__ import annotations

from memdb.errors import InvalidInput
from memdb.models.deadline import port_error, run_within, seconds
from memdb.providers.asking import checked, llm_secrets, missing, without_schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

# What plugins call the longest answer, in the order in which they are tried.
LENGTH_OPTIONS = (
    "max_tokens",
    "max_output_tokens",
    "max_completion_tokens",
    "num_predict",
    "max_tokens_to_sample",
)


class LLMModel:
    """
    A model of the llm package as a `memdb.models.protocols.Model`.

    Thread-safe as far as the plugin is. Pickling leaves the key out: the copy
    takes it from where llm keeps its keys.
    """

    __slots__ = ("_key", "_llm_name", "_model", "_options", "name")

    def __init__(
        self, name: str, *, options: Mapping[str, Any] | None = None, key: str | None = None
    ) -> None:
        """
        Find the model *name*.

        Args:
            name: Model id or alias, as `llm models` prints them.
            options: Of that model, such as `{"temperature": 0}`.
            key: API key, or the name of one in llm's keys; None: where llm
                looks for it (`llm keys`, environment variables).

        Raises:
            InvalidInput: llm is not installed, knows no such model, or the
                model has no such option.
        """
        self._llm_name = name
        self._options = dict(options or {})
        self._key = key
        self.name = f"llm:{name}"
        self._model = _found(name)
        try:
            self._model.Options(**self._options)
        except (TypeError, ValueError) as error:
            known = ", ".join(sorted(self._model.Options.model_fields)) or "none"
            raise InvalidInput(f"options of {self.name} are refused: it knows {known}") from error

    def __repr__(self) -> str:
        """Name the model and the names of its options, no values and no key."""
        return f"LLMModel({self._llm_name!r}, options={sorted(self._options)})"

    def __getstate__(self) -> dict[str, Any]:
        """Return what can be pickled: everything but the key."""
        return {"name": self._llm_name, "options": self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Find the model again, in the process that unpickles."""
        self.__init__(state["name"], options=state["options"])  # type: ignore[misc]  # the way back in

    def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        schema: Mapping[str, Any] | None = None,
        timeout_s: float = 30.0,
        max_tokens: int | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> str:
        """
        Return the answer to *messages* as text; see `memdb.models.protocols.Model`.

        A model without schemas is asked for JSON in the system prompt. An
        option set at construction wins over *max_tokens*; a model that knows no
        such option answers at its own length.

        Raises:
            PortError: no answer came. `memdb.models.deadline.Unavailable` where asking
                again may help.
            InvalidInput: *messages* or *timeout_s* is malformed.
        """
        asked = checked(messages)
        limit_s = seconds(timeout_s, "timeout_s")

        def work(stopped: Callable[[], bool]) -> str:
            pieces: list[str] = []
            for piece in self._answer(asked, schema, max_tokens):
                pieces.append(piece)
                if stopped():
                    break
            return "".join(pieces)

        try:
            return run_within(work, name=self.name, timeout_s=limit_s, cancelled=cancelled)
        except Exception as error:  # noqa: BLE001 (a plugin may raise anything)
            failure = port_error(self.name, error, llm_secrets(self._model, self._key))
            failure.__cause__ = failure.__context__ = None
        # Not inside `except`: errors of clients hold the request and with it the key.
        raise failure

    def _answer(
        self,
        asked: list[dict[str, str]],
        schema: Mapping[str, Any] | None,
        max_tokens: int | None,
    ) -> Iterator[str]:
        """Return the pieces of the answer, as they come."""
        if schema is not None and not self._model.supports_schema:
            asked, schema = without_schema(asked, schema), None
        options = self._options
        if max_tokens is not None:
            options = {**self._length_option(max_tokens), **options}
        conversation, history, system, prompt = _conversation(self._model, asked)
        response = conversation.prompt(
            prompt,
            system=system or None,
            messages=history,
            schema=None if schema is None else dict(schema),
            stream=bool(self._model.can_stream),
            key=self._key,
            options=dict(options),
        )
        return iter(response)

    def _length_option(self, max_tokens: int) -> dict[str, int]:
        """Return the option that limits an answer's length, empty if there is none."""
        known = self._model.Options.model_fields
        return dict.fromkeys([one for one in LENGTH_OPTIONS if one in known][:1], max_tokens)


def _found(name: str) -> Any:
    try:
        import llm
    except ImportError as error:
        raise missing("llm", error) from error
    try:
        return llm.get_model(name)
    except llm.UnknownModelError as error:
        raise InvalidInput(
            f"llm has no model {name!r}: `llm models` lists them; plugins add more "
            "(`llm install llm-ollama`)"
        ) from error


def _conversation(
    model: Any, asked: list[dict[str, str]]
) -> tuple[Any, list[Any], str, str | None]:
    """
    Return a conversation before its last turn, history, system prompt and prompt.

    The history is there twice, for plugins that read `prompt.messages` (llm
    0.32 and later) and for those that read `conversation.responses`. Turns of
    the same role become one: many models refuse two user turns in a row.
    """
    import llm

    system = "\n\n".join(one["content"] for one in asked if one["role"] == "system")
    turns: list[tuple[str, str]] = []
    for one in asked:
        if one["role"] == "system":
            continue
        if turns and turns[-1][0] == one["role"]:
            turns[-1] = (one["role"], f"{turns[-1][1]}\n\n{one['content']}")
        else:
            turns.append((one["role"], one["content"]))
    if not getattr(model, "supports_conversation", True) and len(turns) > 1:
        turns = [("user", "\n\n".join(f"{role.capitalize()}: {text}" for role, text in turns))]
    prompt = turns.pop()[1] if turns and turns[-1][0] == "user" else None
    conversation = model.conversation()
    history = [llm.system(system)] if system else []
    said_by_user = ""
    for role, text in turns:
        if role == "user":
            history.append(llm.user(text))
            said_by_user = text
        else:
            history.append(llm.assistant(text))
            _record(conversation, system, said_by_user, text)
            said_by_user = ""
    return conversation, history, system, prompt


def _record(conversation: Any, system: str, prompt: str, answer: str) -> None:
    """Add a finished turn to *conversation*, through a model that only says *answer*."""
    import llm

    class Said(llm.Model):  # type: ignore[misc]  # mypy does not follow llm
        """Repeats an answer that was given long ago."""

        model_id = "memdb-said"

        def execute(self, *_args: object, **_options: object) -> Iterator[str]:
            """Yield the answer."""
            yield answer

    model = Said()
    said = llm.Prompt(prompt, model=model, system=system or None)
    llm.Response(said, model, stream=False, conversation=conversation).text()
