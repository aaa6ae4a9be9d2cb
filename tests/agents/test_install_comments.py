"""`memdb agent install`: what a user writes into settings survives it, wherever it stands."""

from __future__ import annotations

import hashlib
import os
import random
import re
import tomllib
from pathlib import Path

import pytest
from cases import each

from memdb.agents import json_text
from memdb.agents.install import apply, plan_install, plan_uninstall
from memdb.agents.programs import PROGRAMS
from memdb.errors import FileError, InvalidInput

JSON_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"|//[^\n]*\n|/\*.*?\*/|[\[\]{},:]|[^\s\[\]{},:"/]+|\s+', re.DOTALL
)
JSON_BEFORE = [
    None,
    "",
    "{}\n",
    '{"a": 1}',
    '{\n  "a": 1\n}\n',
    '{\r\n\t"a": 1,\r\n\t"hooks": {\r\n\t\t"x": []\r\n\t},\r\n}\r\n',
    (
        '{\n  "hooks": {\n    "Stop": [\n      {"hooks": [{"command": "say //x"}]}\n    ]\n  },\n'
        '  "mcpServers": {\n    "x": {"command": "/* y */, "}\n  }\n}\n'
    ),
]
TOML_BEFORE = [
    None,
    "",
    "a = 1",
    'model = "x # y"\n\n[mcp_servers.x]\ncommand = "y"\n',
    '[mcp_servers]\nx = {command = "y"}\r\n[z]\r\nq = """\n[mcp_servers.memdb]\n# no\n"""\n',
    "list = [\n  1,\n  2,\n]\n[[h]]\nx = 1\n\n\n",
]


class Writer:
    """A user who puts comments, blank lines and tables into settings; no comment is there twice."""

    def __init__(self, seed: int) -> None:
        """Choose the places by a seed."""
        self.random = random.Random(seed)
        self.written: list[str] = []

    def note(self) -> str:
        """Return the words of the next comment; a comma and brackets must not confuse."""
        self.written.append(f"u{len(self.written)}, [mcp_servers] {{")
        return self.written[-1]

    def sprinkle_json(self, text: str) -> str:
        """Return JSON with comments and blank lines between any of its tokens."""
        done = ""
        for token in JSON_TOKEN.findall(text or "{}"):
            if self.random.random() < 0.15:
                form = self.random.choice(["/* NOTE */", "// NOTE\n", "\n\n"])
                done += form.replace("NOTE", self.note()) if "NOTE" in form else form
            done += token
        return done

    def sprinkle_toml(self, text: str) -> str:
        """Return TOML with comments behind and between its lines, and tables before others."""
        done, in_text = "", False
        for line in text.splitlines(keepends=True):
            is_outside = not in_text and '"""' not in line
            in_text ^= line.count('"""') % 2 == 1
            if is_outside and self.random.random() < 0.2:
                done += f"  # {self.note()}\n" if self.random.random() < 0.5 else "\n"
            if is_outside and line.startswith("[") and self.random.random() < 0.3:
                done += f"[user{len(self.written)}]\nk = '{self.note()}'\n"
            if is_outside and self.random.random() < 0.3:
                done += f"{line.rstrip()} # {self.note()}\n"
            elif is_outside and line.startswith("args = [") and self.random.random() < 0.5:
                done += line.replace("[", f"[ # {self.note()}\n", 1)
            else:
                done += line
        return done if self.random.random() < 0.5 else f"{done}# {self.note()}"


def run(name: str, file: str | None = None, *, uninstall: bool = False) -> None:
    """Install or uninstall in the user's settings."""
    apply(plan_uninstall(name, None) if uninstall else plan_install(name, None, file))


def value_of(path: Path, text: str) -> object:
    """Return what settings say, without what is empty."""
    if path.suffix == ".toml":
        return full(tomllib.loads(text))
    node = json_text.parse(text)
    return full({} if node is None else node.value)


def full(value: object) -> object:
    """Return a value without empty lists and objects in it."""
    if isinstance(value, dict):
        kept = {key: full(one) for key, one in value.items()}
        return {key: one for key, one in kept.items() if one not in ({}, [])}
    if isinstance(value, list):
        return [full(one) for one in value]
    return value


@pytest.mark.parametrize(
    "seeds", [range(8), pytest.param(range(8, 25), marks=pytest.mark.slow)], ids=["some", "more"]
)
@each("program", PROGRAMS)
def test_what_a_user_writes_survives(home: Path, program: str, seeds: range) -> None:
    """Every comment is there after installing, again with another file, and uninstalling."""
    for seed in seeds:
        install_between(program, seed)


def install_between(program: str, seed: int) -> None:
    """Install and uninstall while a user writes, and fail if anything of the user is lost."""
    user = Writer(seed)
    paths = [one.path for one in plan_install(program, None, None)]
    for path in paths:
        path.unlink(missing_ok=True)
    for path in paths:
        is_toml = path.suffix == ".toml"
        before = user.random.choice(TOML_BEFORE if is_toml else JSON_BEFORE)
        if before is not None:
            sprinkled = user.sprinkle_toml(before) if is_toml else user.sprinkle_json(before)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(sprinkled.encode())
    values = {
        path: value_of(path, path.read_bytes().decode()) if path.exists() else {} for path in paths
    }
    run(program)
    for path in paths:
        text = path.read_bytes().decode()
        sprinkled = user.sprinkle_toml(text) if path.suffix == ".toml" else user.sprinkle_json(text)
        path.write_bytes(sprinkled.encode())
        values[path] = {**values[path], **tables_in(path, sprinkled)}
    if seed % 2:
        run(program, "other.db")
    run(program, uninstall=True)
    left = "".join(path.read_bytes().decode() for path in paths if path.exists())
    assert [one for one in user.written if one not in left] == []
    for path in paths:
        text = path.read_bytes().decode() if path.exists() else ""
        value = value_of(path, text)
        if program == "cursor" and isinstance(value, dict):
            value.pop("version", None)  # is not taken out of a file that holds more
        assert value == values[path]
        assert "agent" not in text


def tables_in(path: Path, text: str) -> dict[str, object]:
    """Return the tables that the user added to settings in TOML."""
    if path.suffix != ".toml":
        return {}
    return {key: one for key, one in tomllib.loads(text).items() if key.startswith("user")}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("comment", ["# mine\n", "// mine\n"])
def test_a_file_that_holds_a_comment_is_not_removed(home: Path, program: str, comment: str) -> None:
    """A file that install made goes only if nothing but memdb's own text is in it."""
    run(program)
    paths = [one.path for one in plan_install(program, None, None)]
    for path in paths:
        text = path.read_text()
        if (path.suffix == ".toml") == (comment[0] == "#"):
            path.write_text(text + comment)
        else:
            path.write_text(text + "\n\n")
    run(program, uninstall=True)
    for path in paths:
        assert path.exists() == ((path.suffix == ".toml") == (comment[0] == "#"))
        if path.exists():
            assert comment in path.read_text()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{\n  "a": 1 // note\n}\n', '{\n  "a": 2 // note\n}\n'),
        ('{\n  "a": 1, // note\n}\n', '{\n  "a": 2, // note\n}\n'),
        ('{"a": 1}', '{"a": 2}'),
        ('{\n  "a": 1,\n  "hooks": {}\n}\n', '{\n  "a": 2,\n  "hooks": {}\n}\n'),
        ('{\n\n  // one\n  "a": 1\n\n  // two\n}\n', '{\n\n  // one\n  "a": 2\n\n  // two\n}\n'),
    ],
)
def test_a_changed_file_keeps_every_byte_of_the_user(home: Path, before: str, after: str) -> None:
    """Where a value was changed since, all but memdb's text is as the user left it."""
    path = home / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text(before)
    run("gemini-cli")
    path.write_text(path.read_text().replace('"a": 1', '"a": 2'))
    run("gemini-cli", "/tmp/x.db")
    run("gemini-cli", uninstall=True)
    assert path.read_text() == after


def test_tables_behind_memdbs_keep_their_comments(home: Path) -> None:
    """A commented-out table and blank lines stay, byte for byte."""
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text("a = 1\n")
    run("codex")
    more = '\n# [profiles.old]\n# model = "keep me"\n\n# --- work ---\n[profiles.x]\nm = 1\n'
    path.write_text(path.read_text() + more)
    run("codex", "/tmp/x.db")
    run("codex", uninstall=True)
    assert path.read_text() == "a = 1\n" + more


PLACES = [
    ("claude-code", ".claude/settings.json", '{"hooks": null}', ": hooks is not a JSON object"),
    ("claude-code", ".claude/settings.json", '{"hooks": []}', ": hooks is not a JSON object"),
    ("codex", ".codex/hooks.json", "[]", ": the file is not a JSON object"),
    ("codex", ".codex/hooks.json", "null", ": the file is not a JSON object"),
    ("codex", ".codex/hooks.json", '{"hooks": {"Stop": {}}}', ": hooks.Stop is not a JSON list"),
    ("cursor", ".cursor/mcp.json", '{"mcpServers": 5}', ": mcpServers is not a JSON object"),
]


@pytest.mark.parametrize(("program", "name", "text", "message"), PLACES)
def test_an_error_names_what_is_wrong(
    home: Path, program: str, name: str, text: str, message: str
) -> None:
    """The place is that of the value, not of what memdb wanted to put there."""
    (home / name).parent.mkdir()
    (home / name).write_text(text)
    with pytest.raises(InvalidInput, match=re.escape(name + message)):
        run(program)
    assert (home / name).read_text() == text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
@pytest.mark.parametrize("is_own", [True, False])
def test_a_pipe_is_not_waited_for(home: Path, is_own: bool) -> None:
    """In the place of settings it is an error, in that of memdb's own data as good as nothing."""
    own = home / ".local" / "share" / "memdb" / "agent-installed.json"
    path = own if is_own else home / ".claude.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    if is_own:
        run("claude-code")
        assert own.is_file()
    else:
        with pytest.raises(FileError, match=r"claude\.json is not a regular file"):
            run("claude-code")


RECEIPT = (
    '{"PATH": {"created": true, "sha256": "SHA", "clean_sha256": "x", "ranges": [RANGE], '
    '"containers": [], "folders": []}}'
)
DAMAGED = [
    "5",
    "[]",
    "nul",
    "[" * 100_000,
    '{"PATH": 5}',
    '{"PATH": {}, "": 3}',
    RECEIPT.replace("RANGE", "[0, 9]"),
    RECEIPT.replace("RANGE", "[-4]"),
    RECEIPT.replace("RANGE", "[0, 1e999]"),
    RECEIPT.replace("RANGE", "").replace('"x"', "null"),
]


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_data_of_memdb_costs_no_text_of_the_user(home: Path, text: str) -> None:
    """The entries are then found in the settings; no byte goes that memdb cannot prove its own."""
    path = home / ".claude.json"
    path.write_text('{"a": 1, // mine\n "mcpServers": {"x": {}}}')
    run("claude-code")
    own = home / ".local" / "share" / "memdb" / "agent-installed.json"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    own.write_text(text.replace("PATH", str(path)).replace("SHA", digest))
    run("claude-code", uninstall=True)
    assert path.read_text() == '{"a": 1, // mine\n "mcpServers": {"x": {}}}'
    assert not own.exists()
