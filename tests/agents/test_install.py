"""`memdb agent install`: merging, twice the same, and back to the same bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from memdb.agents.hooks import EVENTS
from memdb.agents.programs import PROGRAMS
from memdb.cli import cli

ALL = pytest.mark.parametrize("program", PROGRAMS)

# What stands in each settings file before, as the programs and people write them.
SETTINGS = {
    ".claude.json": '{\n  "numStartups": 5,\n  "mcpServers": {\n    "x": {"command": "y"}\n  },\n'
    '  "oauthAccount": {"emailAddress": "a@b.c"}\n}',
    ".claude/settings.json": '{\n\t"permissions": {"allow": []},\n\t"hooks": {\n\t\t"Stop": [\n'
    '\t\t\t{"hooks": [{"type": "command", "command": "say done"}]}\n\t\t]\n\t}\n}\n',
    ".codex/config.toml": 'model = "gpt-5.6-codex" # mine\n\n[mcp_servers.x]\ncommand = "y"\n'
    '[projects."/home/ann"]\ntrust_level = "trusted"',
    ".codex/hooks.json": '{"hooks": {}}',
    ".cursor/mcp.json": '{\r\n    "mcpServers": {}\r\n}\r\n',
    ".cursor/hooks.json": '{\n  "version": 1,\n  "hooks": {"stop": [{"command": "./a.sh"}]}\n}\n',
    ".gemini/settings.json": '// mine\n{\n  "theme": "GitHub", // dark\n  "tools": {"sandbox": true,},\n}\n',
}


def run(*args: str, fails: int = 0) -> str:
    """Return what a command prints."""
    ran = CliRunner().invoke(cli, ["agent", *args], prog_name="memdb")
    assert ran.exit_code == fails, ran.output
    return ran.output


def files_of(home: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {
        str(one.relative_to(home)): one.read_bytes() for one in home.rglob("*") if one.is_file()
    }


def fill(folder: Path, only: str = "") -> None:
    """Write the settings that are there before."""
    for name, text in SETTINGS.items():
        if name.startswith(only):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(text.encode())


@ALL
@pytest.mark.parametrize("place", ["--user", "--project"])
@pytest.mark.parametrize("filled", [True, False])
def test_twice_installed_then_uninstalled(
    home: Path, program: str, place: str, filled: bool
) -> None:
    """Every file and folder is what it was, byte for byte; what was absent is absent."""
    if filled:
        fill(home if place == "--user" else Path.cwd())
    before, folders = files_of(home), sorted(home.rglob("*"))
    run("install", program, place)
    once = files_of(home)
    assert once != before
    run("install", program, place)
    assert files_of(home) == once
    run("install", program, place, "--uninstall")
    assert files_of(home) == before
    assert sorted(home.rglob("*")) == folders
    run("install", program, place, "--uninstall")
    assert files_of(home) == before


def test_a_hook_at_each_prompt(home: Path) -> None:
    """It is there for who asks for it, goes with the rest, and is refused where none can answer."""
    for program in ("claude-code", "codex", "gemini-cli"):
        before = files_of(home)
        run("install", program)
        run("install", program, "--recall")
        found = [text.decode() for text in files_of(home).values()]
        assert sum("agent hook prompt" in text for text in found) == 1, program
        run("install", program)
        run("install", program, "--uninstall")
        assert files_of(home) == before
    assert "has no hook" in run("install", "cursor", "--recall", fails=5)


def test_what_happens_next_is_said(home: Path) -> None:
    """The file, and how to undo it."""
    said = run("install", "claude-code")
    assert ("agents.db" in said, "--uninstall" in said) == (True, True)


def test_a_plugin(home: Path) -> None:
    """It holds what install writes and a skill, names no path of this machine, and runs."""
    for program, folder in (("claude-code", ".claude-plugin"), ("codex", ".codex-plugin")):
        root = home / program
        run("package", program, str(root), "--recall")
        files = files_of(root)
        assert sorted(files) == sorted(
            [".mcp.json", f"{folder}/plugin.json", "hooks/hooks.json", "skills/memdb/SKILL.md"]
        )
        manifest = json.loads(files[f"{folder}/plugin.json"])
        assert manifest["name"] == "memdb"
        named = [root / one for one in manifest.values() if one.startswith("./")]
        assert all(one.exists() for one in named), named
        hooks = json.loads(files["hooks/hooks.json"])["hooks"]
        assert hooks.keys() == {*PROGRAMS[program].hooks, "UserPromptSubmit"}
        commands = [one["command"] for (group,) in hooks.values() for one in group["hooks"]]
        assert all(one.startswith("memdb agent hook ") for one in commands)
        assert json.loads(files[".mcp.json"])["mcpServers"]["memdb"]["command"] == "memdb"
        assert "exists" in run("package", program, str(root), fails=4)
    assert "takes no plugins" in run("package", "cursor", str(home / "c"), fails=5)


@ALL
def test_what_stood_there_stays(home: Path, program: str) -> None:
    """Only pieces are put in: taking the new lines away leaves the old text in its order."""
    fill(home)
    before = files_of(home)
    run("install", program)
    for name, data in files_of(home).items():
        rest = iter(data.decode())
        assert all(letter in rest for letter in before.get(name, b"").decode())
    for name, text in SETTINGS.items():
        if name.endswith(".json") and "//" not in text:
            old, new = json.loads(text), json.loads((home / name).read_text())
            assert old == {key: new[key] for key in old} or "hooks" in old or "mcpServers" in old


def test_the_settings_of_claude_code(home: Path) -> None:
    """The server in ~/.claude.json, the hooks in settings.json beside those that are there."""
    fill(home)
    run("install", "claude-code", "--file", "work.db")
    servers = json.loads((home / ".claude.json").read_text())["mcpServers"]
    assert servers["x"] == {"command": "y"}
    assert servers["memdb"]["args"][-4:] == ["agent", "mcp", "--file", str(Path.cwd() / "work.db")]
    hooks = json.loads((home / ".claude" / "settings.json").read_text())["hooks"]
    assert hooks["Stop"][0] == {"hooks": [{"type": "command", "command": "say done"}]}
    (added,) = hooks["Stop"][1]["hooks"]
    assert added["type"] == "command"
    assert added["timeout"] == 5
    assert " agent hook stop --program claude-code --file " in added["command"]
    assert sorted(hooks) == ["PreCompact", "SessionEnd", "SessionStart", "Stop", "SubagentStop"]


def test_the_settings_of_codex(home: Path) -> None:
    """A table in config.toml, hooks in hooks.json."""
    fill(home)
    run("install", "codex")
    config = tomllib.loads((home / ".codex" / "config.toml").read_text())
    assert config["mcp_servers"]["memdb"]["args"][-2:] == ["agent", "mcp"]
    assert config["mcp_servers"]["x"] == {"command": "y"}
    assert config["projects"]["/home/ann"] == {"trust_level": "trusted"}
    hooks = json.loads((home / ".codex" / "hooks.json").read_text())["hooks"]
    assert sorted(hooks) == ["PreCompact", "SessionStart", "Stop", "SubagentStop"]


def test_the_settings_of_cursor_and_gemini(home: Path) -> None:
    """Cursor's hooks have no groups, and Gemini's wait for milliseconds."""
    run("install", "cursor")
    cursor = json.loads((home / ".cursor" / "hooks.json").read_text())
    assert cursor["version"] == 1
    assert [sorted(one) for one in cursor["hooks"]["stop"]] == [["command", "timeout"]]
    run("install", "gemini-cli")
    gemini = json.loads((home / ".gemini" / "settings.json").read_text())
    assert gemini["hooks"]["AfterAgent"][0]["hooks"][0]["timeout"] == 5000
    assert gemini["mcpServers"]["memdb"]["args"][-2:] == ["agent", "mcp"]


def test_the_settings_of_a_project_name_no_path_of_this_machine(home: Path) -> None:
    """They are shared: the command is memdb."""
    for program in PROGRAMS:
        run("install", program, "--project")
    for name, data in files_of(Path.cwd()).items():
        assert str(home) not in data.decode(), name
        assert sys.executable not in data.decode()
    assert json.loads(Path(".mcp.json").read_text())["mcpServers"]["memdb"]["command"] == "memdb"


@ALL
def test_a_file_that_was_changed_since(home: Path, program: str) -> None:
    """Uninstalling takes out what is memdb's, and leaves what came after it."""
    fill(home)
    run("install", program)
    for name in SETTINGS:
        path = home / name
        if (
            path.suffix == ".json"
            and b"memdb" in path.read_bytes()
            and b"//" not in path.read_bytes()
        ):
            value = {"first": 1, **json.loads(path.read_text()), "later": [1]}
            path.write_text(json.dumps(value, indent=7))
        elif b"memdb" in path.read_bytes():
            text = path.read_text()
            path.write_text(
                text.replace("// mine", "// mine too")
                if "//" in text
                else text + "[later]\na = 1\n"
            )
    run("install", program)  # it is there: nothing to do
    run("install", program, "--uninstall")
    for name, text in SETTINGS.items():
        now = (home / name).read_text()
        assert "memdb" not in now, name
        if text.startswith("{") and "later" in now:
            value = json.loads(now)
            assert (value.pop("first"), value.pop("later")) == (1, [1])
            assert {**json.loads(text), **value} == json.loads(text)
    assert not [one for one in files_of(home) if "installed" in one]


def test_another_file_takes_the_place_of_the_first(home: Path) -> None:
    """Installing with another --file changes memdb's entries only, and can be undone."""
    fill(home)
    before = files_of(home)
    run("install", "claude-code", "--file", "a.db")
    run("install", "claude-code", "--file", "b.db")
    text = (home / ".claude" / "settings.json").read_text()
    assert "a.db" not in text
    assert text.count("b.db") == 5
    run("install", "claude-code", "--uninstall")
    assert files_of(home) == before


def test_without_what_was_kept_to_undo_it(home: Path) -> None:
    """The settings say the same as before, if not in the same bytes."""
    fill(home, ".claude")
    run("install", "claude-code")
    (home / ".local" / "share" / "memdb" / "agent-installed.json").unlink()
    run("install", "claude-code", "--uninstall")
    for name in (".claude.json", ".claude/settings.json"):
        assert json.loads((home / name).read_text()) == json.loads(SETTINGS[name])


def test_what_is_kept_to_undo_it_holds_no_settings(home: Path) -> None:
    """Settings hold tokens: only places and a digest are kept, for the user alone."""
    fill(home)
    run("install", "claude-code")
    path = home / ".local" / "share" / "memdb" / "agent-installed.json"
    assert "a@b.c" not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


@ALL
def test_a_dry_run_writes_nothing(home: Path, program: str) -> None:
    """It prints what would be added."""
    fill(home)
    before = files_of(home)
    shown = run("install", program, "--dry-run")
    assert "+" in shown
    assert "agent" in shown
    assert files_of(home) == before
    run("install", program)
    installed = files_of(home)
    run("install", program, "--uninstall", "--dry-run")
    assert files_of(home) == installed


BROKEN = {
    "claude-code": (".claude/settings.json", '{"hooks": []}'),
    "codex": (".codex/config.toml", "mcp_servers = {x = {command = 'y'}}\n"),
    "cursor": (".cursor/mcp.json", '{"mcpServers": {'),
    "gemini-cli": (".gemini/settings.json", "\ud800"),
}


@pytest.mark.parametrize("program", BROKEN)
def test_settings_that_cannot_be_edited_are_left_alone(home: Path, program: str) -> None:
    """The error names the file, and no other file of the program is written either."""
    name, text = BROKEN[program]
    (home / name).parent.mkdir(parents=True)
    (home / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    before = files_of(home)
    assert name in run("install", program, fails=5)
    assert files_of(home) == before
    assert "status" not in run("status")


@ALL
def test_the_address_of_a_server_is_no_file(
    home: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its password would stand in settings; neither they nor an error repeat it."""
    address = "postgresql://ann:s3same@db.example/memory"
    before = files_of(home)
    by_option = run("install", program, "--file", address, fails=5)
    monkeypatch.setenv("MEMDB_AGENT_FILE", address)
    by_variable = run("status", fails=5)

    for said, field in ((by_option, "--file"), (by_variable, "MEMDB_AGENT_FILE")):
        assert f"{field} is an address" in said
        assert "s3same" not in said
    assert files_of(home) == before


def test_another_server_of_that_name_is_left_alone(home: Path) -> None:
    """It is the user's."""
    (home / ".claude.json").write_text('{"mcpServers": {"memdb": {"command": "mine"}}}')
    before = files_of(home)
    assert "already exists" in run("install", "claude-code", fails=4)
    run("install", "claude-code", "--uninstall")
    assert files_of(home) == before


def test_a_link_stays_a_link_and_rights_stay(home: Path) -> None:
    """People keep their settings in a repository of dotfiles."""
    dotfiles = home / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "claude.json").write_text("{}")
    (dotfiles / "claude.json").chmod(0o640)
    (home / ".claude.json").symlink_to(dotfiles / "claude.json")
    run("install", "claude-code")
    assert (home / ".claude.json").is_symlink()
    assert "memdb" in (dotfiles / "claude.json").read_text()
    assert (dotfiles / "claude.json").stat().st_mode & 0o777 == 0o640
    run("install", "claude-code", "--uninstall")
    assert (dotfiles / "claude.json").read_text() == "{}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_cannot_be_written(home: Path) -> None:
    """The error names it."""
    (home / ".claude").mkdir(mode=0o500)
    assert "settings.json" in run("install", "claude-code", fails=6)


def test_moved_settings_are_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the programs' own variables."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "c"))
    monkeypatch.setenv("CODEX_HOME", str(home / "x"))
    run("install", "claude-code")
    run("install", "codex")
    assert {"c/.claude.json", "c/settings.json", "x/config.toml", "x/hooks.json"} <= set(
        files_of(home)
    )


def test_the_command_of_every_hook_runs(home: Path) -> None:
    """As a shell runs it, with a path that holds a blank; it ends with 0 and prints nothing."""
    run("install", "claude-code", "--recall", "--file", str(home / "my memory.db"))
    hooks = json.loads((home / ".claude" / "settings.json").read_text())["hooks"]
    assert len(hooks) == len(EVENTS)
    command = hooks["Stop"][0]["hooks"][0]["command"]
    ran = subprocess.run(
        command, shell=True, input="{}", capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_status_tells_what_is_where(home: Path) -> None:
    """For a person and as JSON."""
    assert "Installed nowhere" in run("status")
    run("install", "codex")
    run("install", "cursor", "--project")
    found = json.loads(run("status", "--json"))
    states = {(one["program"], one["scope"]): one["state"] for one in found["settings"]}
    assert states["codex", "user"] == states["cursor", "project"] == "installed"
    assert states["codex", "project"] == states["claude-code", "user"] == "absent"
    assert found["file"].endswith("agents.db")
    assert found["app"] == str(Path.cwd())
    shown = run("status")
    assert "codex (user): installed" in shown
    (home / ".codex" / "hooks.json").write_text(
        '{"hooks": {"Stop": [{"hooks": [{"command": "memdb agent hook stop"}]}]}}'
    )
    assert "codex (user): partly" in run("status")


def test_a_hook_that_was_added_to_memdbs_group_stays(home: Path) -> None:
    """Only memdb's own command is taken out of the group."""
    run("install", "claude-code")
    path = home / ".claude" / "settings.json"
    value = json.loads(path.read_text())
    mine = {"type": "command", "command": "say done"}
    value["hooks"]["Stop"][0]["hooks"].append(mine)
    path.write_text(json.dumps(value, indent=2))
    run("install", "claude-code")
    assert json.loads(path.read_text()) == value
    run("install", "claude-code", "--file", "other.db")
    hooks = json.loads(path.read_text())["hooks"]["Stop"]
    assert hooks[0] == {"hooks": [mine]}
    assert "other.db" in hooks[1]["hooks"][0]["command"]
    run("install", "claude-code", "--uninstall")
    assert json.loads(path.read_text()) == {"hooks": {"Stop": [{"hooks": [mine]}]}}


def test_a_hook_with_a_matcher_of_the_users_stays(home: Path) -> None:
    """Groups of others are no business of memdb."""
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    groups = [
        {"matcher": "startup", "hooks": [{"type": "command", "command": "./a.sh"}]},
        {"hooks": []},
        "odd",
        {"hooks": [5, {"type": "prompt", "prompt": "memdb agent hook"}]},
    ]
    path.write_text(json.dumps({"hooks": {"SessionStart": groups}}))
    before = path.read_bytes()
    run("install", "claude-code")
    assert json.loads(path.read_text())["hooks"]["SessionStart"][:4] == groups
    run("install", "claude-code", "--uninstall")
    assert path.read_bytes() == before


def test_large_settings(home: Path) -> None:
    """Claude Code keeps the history of every project in its settings."""
    projects = {
        f"/home/ann/p{number}": {
            "history": [{"display": "do it " * 10, "pastedContents": {}}] * 20,
            "mcpServers": {},
        }
        for number in range(500)
    }
    text = json.dumps({"projects": projects, "mcpServers": {"x": {"command": "y"}}}, indent=2)
    (home / ".claude.json").write_text(text)
    run("install", "claude-code")
    assert json.loads((home / ".claude.json").read_text())["projects"] == projects
    run("install", "claude-code", "--uninstall")
    assert (home / ".claude.json").read_text() == text


def test_status_of_a_memory_that_cannot_be_read(home: Path) -> None:
    """It says so, and the rest too."""
    path = home / "bad.db"
    path.write_text("mine")
    shown = run("status", "--file", str(path))
    assert "cannot be read" in shown
    assert json.loads(run("status", "--file", str(path), "--json"))["problem"]
    assert path.read_text() == "mine"


def test_status_shows_what_is_held_and_what_failed(home: Path) -> None:
    """Projects, sessions of this one, the last capture, the newest errors."""
    from agent_samples import CLAUDE, CODEX

    run("import", "claude-code", str(CLAUDE), "--app", str(Path.cwd()))
    run("import", "codex", str(CODEX))
    ran = CliRunner().invoke(cli, ["agent", "hook", "stop"], input="no json")
    assert (ran.exit_code, ran.output) == (0, "")
    found = json.loads(run("status", "--json"))
    assert (found["projects"], found["sessions"]) == (2, 1)
    assert found["captured_ms"] > 0
    assert found["errors"][-1]["event"] == "stop"
    assert "JSONDecodeError" in run("status")


def test_the_server_serves_the_project_of_its_folder(home: Path) -> None:
    """What another agent of the project said is recalled through it."""
    import asyncio

    mcp = pytest.importorskip("mcp")
    from agent_samples import CODEX

    run("import", "codex", str(CODEX), "--app", str(Path.cwd()))

    async def ask() -> str:
        words = ["-m", "memdb", "agent", "mcp"]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        server = mcp.StdioServerParameters(command=sys.executable, args=words, env=env)
        async with mcp.Client(server) as client:
            answer = await client.call_tool("recall", {"query": "how long does the ferry take?"})
            return str(answer)

    assert "Three hours." in asyncio.run(ask())


def test_what_a_program_adds_to_memdbs_entry(home: Path) -> None:
    """Codex keeps approvals below a server: they stay until memdb is taken out."""
    run("install", "codex")
    path = home / ".codex" / "config.toml"
    more = path.read_text() + '\n[mcp_servers.memdb.tools.recall]\napproval_mode = "approve"\n'
    path.write_text(more)
    run("install", "codex")
    assert path.read_text() == more
    run("install", "codex", "--uninstall")
    assert not path.exists() or "memdb" not in path.read_text()
    (home / ".claude.json").write_text("{}")
    run("install", "claude-code")
    value = json.loads((home / ".claude.json").read_text())
    value["mcpServers"]["memdb"]["env"] = {"MEMDB_USER": "ann"}
    (home / ".claude.json").write_text(json.dumps(value))
    run("install", "claude-code")
    assert json.loads((home / ".claude.json").read_text()) == value
