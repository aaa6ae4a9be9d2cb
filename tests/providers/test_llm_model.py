"""LLMModel: the real llm library, with llm-echo and with plugins of our own."""

import copy
import json
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import llm
import pytest

from memdb.api._resolve import model_by_name
from memdb.errors import InvalidInput, PortError, Unavailable
from memdb.models.protocols import Model
from memdb.providers.llm import LLMModel

SAY_HI = [{"role": "user", "content": "hi"}]
TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "one"},
    {"role": "user", "content": "two"},
    {"role": "assistant", "content": "three"},
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "four"},
]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
SECRET = "sk-verysecret123"


class Scripted(llm.Model):
    """A plugin's model; the class attribute `script` makes its answer of a prompt."""

    model_id = "scripted"
    can_stream = True
    supports_schema = True
    script: Callable[..., Iterator[str]]

    class Options(llm.Options):
        """As of OpenAI's models."""

        max_tokens: int | None = None

    def execute(self, prompt, stream, response, conversation):
        """Yield the answer."""
        yield from type(self).script(prompt)


class NoSchema(Scripted):
    """Knows neither schemas, options nor streams."""

    model_id = "no-schema"
    supports_schema = False
    can_stream = False

    class Options(llm.Options):
        """None."""


class Keyed(llm.KeyModel):
    """Repeats its key in its error."""

    model_id = "keyed"
    needs_key = "keyed"
    key_env_var = "KEYED_KEY"

    def execute(self, prompt, stream, response, conversation, key):
        """Fail."""
        raise llm.ModelError(f"the key {key} is bad")
        yield ""


class Plugin:
    """Registers the models above."""

    __name__ = "memdb-tests"

    @llm.hookimpl
    def register_models(self, register):
        """Register them."""
        for model in (Scripted(), NoSchema(), Keyed()):
            register(model)


@pytest.fixture(autouse=True)
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let llm know the models above, and touch no home folder."""
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    plugin = Plugin()
    llm.pm.register(plugin)
    yield
    llm.pm.unregister(plugin)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., object]], None]:
    """Return a function that sets how the scripted models answer."""

    def use(answer: Callable[..., object]) -> None:
        monkeypatch.setattr(Scripted, "script", staticmethod(answer), raising=False)

    return use


def seen(prompt: object) -> Iterator[str]:
    """Answer with what the model was given, as JSON."""
    said = [
        [message.role, "".join(part.text for part in message.parts)] for message in prompt.messages
    ]
    yield json.dumps({"said": said, "system": prompt.system, "schema": prompt.schema})


def test_it_is_a_model() -> None:
    """The port's names are all there, and the name can be given to model_by_name again."""
    model = LLMModel("echo")

    assert isinstance(model, Model)
    assert model_by_name(model.name).name == "llm:echo"


def test_a_plugin_gets_a_system_prompt_and_one_prompt(script: Callable[..., None]) -> None:
    """Several speakers are a transcript; memdb itself asks as one."""
    script(seen)
    said = {
        count: json.loads(LLMModel("scripted").complete(TALK[:count]))["said"] for count in (3, 6)
    }

    assert said == {
        3: [["system", "Be brief."], ["user", "one\n\ntwo"]],
        6: [
            ["system", "Be brief.\n\nBe kind."],
            ["user", "User: one\n\nUser: two\n\nAssistant: three\n\nUser: four"],
        ],
    }


def test_a_schema_is_given(script: Callable[..., None]) -> None:
    """As llm's own schema."""
    script(seen)

    assert json.loads(LLMModel("scripted").complete(SAY_HI, schema=SCHEMA))["schema"] == SCHEMA


def test_without_schemas_the_prompt_asks_for_json(script: Callable[..., None]) -> None:
    """The schema stands in the system prompt of a model that takes none."""
    script(seen)

    answer = json.loads(LLMModel("no-schema").complete(TALK, schema=SCHEMA))

    assert answer["schema"] is None
    assert answer["system"].startswith("Be brief.\n\nAnswer with JSON only")
    assert json.dumps(SCHEMA) in answer["system"]


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [("scripted", {}, 7), ("scripted", {"max_tokens": 9}, 9), ("no-schema", {}, None)],
    ids=["known", "own option wins", "unknown"],
)
def test_max_tokens_is_an_option_where_there_is_one(
    script: Callable[..., None], name: str, options: dict[str, int], expected: int | None
) -> None:
    """A model that has no such option is asked without."""
    script(lambda prompt: [str(getattr(prompt.options, "max_tokens", None))])

    assert LLMModel(name, options=options).complete(SAY_HI, max_tokens=7) == str(expected)


def test_a_stuck_call_is_given_up(script: Callable[..., None]) -> None:
    """After its time, with the thread left behind."""
    release = threading.Event()
    script(lambda _: iter([str(release.wait(3600))]))  # longer than a test may take

    with pytest.raises(PortError, match=r"llm:scripted failed: no answer within 0\.05 s"):
        LLMModel("scripted").complete(SAY_HI, timeout_s=0.05)

    release.set()


STUCK = """
import llm, time
from memdb.providers.llm import LLMModel

class Stuck(llm.Model):
    model_id = "stuck"
    def execute(self, prompt, stream, response, conversation):
        time.sleep(3600)
        yield ""

class Plugin:
    __name__ = "stuck"
    @llm.hookimpl
    def register_models(self, register):
        register(Stuck())

llm.pm.register(Plugin())
try:
    LLMModel("stuck").complete([{"role": "user", "content": "hi"}], timeout_s=0.01)
except Exception as error:
    print(error)
"""


def test_a_stuck_call_does_not_keep_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_child: Callable[..., str]
) -> None:
    """The interpreter ends although a plugin is still in its call."""
    assert "no answer within 0.01 s" in run_child(STUCK)


def test_cancelling_is_seen_while_waiting(script: Callable[..., None]) -> None:
    """Also when the model says nothing at all."""
    release = threading.Event()
    script(lambda _: iter([str(release.wait(3600))]))
    asked = iter([False, True])

    with pytest.raises(PortError, match="cancelled"):
        LLMModel("scripted").complete(SAY_HI, cancelled=lambda: next(asked))

    release.set()


def test_a_given_up_answer_is_not_read_to_its_end(script: Callable[..., None]) -> None:
    """The plugin's stream is left at the next piece."""
    begun, left = threading.Event(), threading.Event()

    def drops(_prompt: object) -> Iterator[str]:
        begun.set()
        try:
            while True:
                time.sleep(0.005)
                yield "."
        finally:
            left.set()

    script(drops)
    for timeout_s in (0.03, 1, 10, 60):  # on a busy machine it may not begin in the first
        with pytest.raises(PortError, match="within"):
            LLMModel("scripted").complete(SAY_HI, timeout_s=timeout_s)
        if begun.is_set():
            break

    assert left.wait(60)


@pytest.mark.parametrize(
    ("error", "kind"),
    [(llm.ModelError("overloaded"), Unavailable), (KeyError("choices"), PortError)],
    ids=["passing", "lasting"],
)
def test_what_a_plugin_raises_is_a_port_error(
    script: Callable[..., None], error: Exception, kind: type[PortError]
) -> None:
    """It names the model, and tells whether asking again may help."""

    def fail(_prompt: object) -> Iterator[str]:
        raise error
        yield ""

    script(fail)

    with pytest.raises(PortError, match="llm:scripted failed") as caught:
        LLMModel("scripted").complete(SAY_HI)

    assert type(caught.value) is kind


@pytest.mark.parametrize("where", ["given", "environment", "keys.json"])
def test_no_key_is_in_an_error(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever llm had it from; the cause is left out, as it holds the key."""
    secret = "plainwordsecret"
    if where == "environment":
        monkeypatch.setenv("KEYED_KEY", secret)
    if where == "keys.json":
        (tmp_path / "keys.json").write_text(json.dumps({"keyed": secret}))
    model = LLMModel("keyed", key=secret if where == "given" else None)

    with pytest.raises(PortError) as caught:
        model.complete(SAY_HI)

    assert str(caught.value) == "llm:keyed failed: the key *** is bad"
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert secret not in repr(model)


def test_a_missing_key_says_where_to_put_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The advice of llm itself reaches the caller."""
    monkeypatch.delenv("KEYED_KEY", raising=False)

    with pytest.raises(PortError, match="llm keys set keyed"):
        LLMModel("keyed").complete(SAY_HI)


def test_no_copy_of_it_holds_a_key() -> None:
    """Neither a pickle nor a copy is made."""
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            duplicate(LLMModel("scripted", key=SECRET))


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: LLMModel("no such"), "llm has no model 'no such'"),
        (lambda: LLMModel("scripted", options={"heat": 1}), "it knows max_tokens"),
        (lambda: LLMModel("echo").complete([]), "no messages"),
        (lambda: LLMModel("echo").complete([{"role": "tool", "content": ""}]), "role of message 0"),
        (lambda: LLMModel("echo").complete([{"role": "user", "content": None}]), "content of"),
        (lambda: LLMModel("echo").complete(SAY_HI, timeout_s=0), "timeout_s is 0"),
        (lambda: model_by_name("gpt"), "use llm:NAME, openai:NAME or openai:NAME@http"),
        (lambda: model_by_name("llm:"), "no valid form"),
        (lambda: model_by_name("openai:@http://x/v1"), "no valid form"),
        (lambda: model_by_name("openia:m@http://u:hidden@h/v1"), r"'openia:m@http://\*\*\*@h/v1'"),
    ],
)
def test_what_cannot_be_used_is_refused(make: Callable[[], object], match: str) -> None:
    """With a sentence that says what can be."""
    with pytest.raises(InvalidInput, match=match):
        make()


@pytest.mark.parametrize("extra", ["llm", "openai"])
def test_a_missing_package_names_its_extra(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command can be copied."""
    monkeypatch.setitem(sys.modules, extra, None)

    with pytest.raises(InvalidInput) as caught:
        model_by_name(f"{extra}:some")

    assert f"pip install 'memdb-sqlite[{extra}]'" in str(caught.value)


def test_nothing_is_imported_before_a_model_is_made(run_child: Callable[..., str]) -> None:
    """Importing the adapters loads no client."""
    printed = run_child(
        "import sys, memdb.providers.llm, memdb.providers.openai\n"
        "print(sorted({'llm', 'openai', 'httpx', 'pydantic'} & set(sys.modules)))"
    )

    assert printed == "[]\n"


def test_llm_writes_nothing(tmp_path: Path) -> None:
    """No log database appears: what is said goes to memdb's file only."""
    LLMModel("echo").complete(SAY_HI)

    assert os.listdir(tmp_path) == []
