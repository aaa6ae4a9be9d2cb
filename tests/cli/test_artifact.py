"""`memdb artifact`: named bytes in versions."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_save_golden(run_json, path, tmp_path):
    """--json gives what is known of the new version."""
    (tmp_path / "menu.md").write_text("soup\n")

    saved = run_json("artifact", "save", path, "menu.md", tmp_path / "menu.md", "--user", "ann")

    assert saved == {
        "name": "user:menu.md",
        "version": 1,
        "session": None,
        "size_bytes": 5,
        "mime": "text/markdown",
        "metadata": None,
        "message_session": None,
        "message_seq": None,
        "sha256": "f78e98c990bdf53d43ad2c2e988943af1c5aabd2fe677a65e09909dbf576d65d",
        "created_ms": 1_700_000_000_000,
        "uid": "00000000-0000-7000-8000-000000000003",
        "message_branch": None,
        "writer": "cli",
    }


@pytest.mark.parametrize("dash", [("-",), ()], ids=["dash", "none"])
def test_save_reads_standard_input(run, path, dash):
    """PATH "-", or none, is standard input, byte for byte."""
    done = run("artifact", "save", path, "x", *dash, "--user", "ann", input=b"\0\xff\r\n")

    assert done.stdout == "user:x@1 (4 B, application/octet-stream)\n"
    assert run("artifact", "load", path, "x").stdout_bytes == b"\0\xff\r\n"


def test_save_the_next_version(run, run_json, trip):
    """Saving a name again makes its next version, and --seq names what made it."""
    done = run(
        *("artifact", "save", trip, "menu.md", "--session", "trip", "--seq", 2),
        *("--mime", "text/plain"),
        input="bread",
    )

    assert done.stdout == "menu.md@3 in trip (5 B, text/plain)\n"
    told = run_json("artifact", "versions", trip, "menu.md", "--session", "trip")
    assert (told[0]["message_session"], told[0]["message_seq"]) == ("trip", 2)


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (("x", "nowhere.txt"), 6),
        (("x", "."), 6),
        (("user:", "-"), 5),
        (("x", "-", "--session", "trip", "--seq", "9"), 3),
        (("x", "-", "--seq", "1"), 5),
    ],
    ids=str,
)
def test_save_refuses(run, trip, tmp_path, monkeypatch, words, exit_code):
    """What cannot be read or stored is refused with the exit code of its kind."""
    monkeypatch.chdir(tmp_path)

    assert run("artifact", "save", trip, *words, input="x").exit_code == exit_code


def test_save_a_missing_path_makes_no_file(run, path, tmp_path):
    """PATH is looked for before FILE is made."""
    done = run("artifact", "save", path, "x", tmp_path / "nowhere", "--user", "ann")

    assert done.stderr == f"Error: {tmp_path / 'nowhere'}: No such file or directory\n"
    assert not Path(path).exists()


def test_save_does_not_wait_for_typing(in_terminal, trip):
    """On a terminal nothing is read from the keyboard: the command says what to give."""
    code, said = in_terminal("artifact", "save", trip, "x")

    assert code == 2
    assert "Nothing to save: give PATH, or pipe the bytes into the command." in said


@pytest.mark.parametrize(("version", "data"), [((), b"fish"), (("--version", 1), b"soup")])
def test_load_to_standard_output(run, trip, version, data):
    """The bytes of the newest version, or of the one named, and nothing else."""
    done = run("artifact", "load", trip, "menu.md", "--session", "trip", *version)

    assert (done.stdout_bytes, done.stderr) == (data, "")


def test_load_to_a_file(run, trip, tmp_path):
    """--output writes the bytes to a file, and says so beside."""
    out = tmp_path / "out.md"
    done = run("artifact", "load", trip, "menu.md", "--session", "trip", "--output", out)

    assert out.read_bytes() == b"fish"
    assert (done.stdout, done.stderr) == ("", f"menu.md@2 in trip (4 B) -> {out}\n")


def test_load_does_not_write_over_a_file(run, trip, tmp_path):
    """A file that is there stays, exit 4; --replace writes over it."""
    out = tmp_path / "out.md"
    out.write_text("mine")

    refused = run("artifact", "load", trip, "photo.bin", "-o", out)

    assert (refused.exit_code, out.read_text()) == (4, "mine")
    assert run("artifact", "load", trip, "photo.bin", "-o", out, "--replace").exit_code == 0
    assert out.read_bytes() == b"\0\1\2"
    assert sorted(tmp_path.glob("out*")) == [out]


def test_load_json(run, run_json, trip, tmp_path):
    """--json describes what was written to --output, and needs one."""
    told = run_json("artifact", "load", trip, "photo.bin", "-o", tmp_path / "photo.bin")

    assert (told["name"], told["version"], told["size_bytes"]) == ("user:photo.bin", 1, 3)
    assert run("artifact", "load", trip, "photo.bin", "--json").exit_code == 2


def test_load_keeps_bytes_from_the_terminal(in_terminal, trip):
    """On a terminal, bytes that are no text are refused; text is shown."""
    code, said = in_terminal("artifact", "load", trip, "photo.bin")
    shown = in_terminal("artifact", "load", trip, "menu.md", "--session", "trip")

    assert code == 2
    assert "give --output PATH, or pipe the output" in said
    assert shown == (0, "fish")


def test_load_is_whole_without_buffers(start, path, tmp_path):
    """With PYTHONUNBUFFERED=1 large bytes come out whole too."""
    data = bytes(range(256)) * 12_000
    start("artifact", "save", path, "large", "--user", "ann").communicate(data)

    out, _ = start("artifact", "load", path, "large", env={"PYTHONUNBUFFERED": "1"}).communicate()

    assert out == data


@pytest.mark.parametrize("verb", ["load", "versions", "delete"])
@pytest.mark.parametrize("name", ["nothing.md", "menu.md"])
def test_an_unknown_name_is_not_found(run, trip, verb, name):
    """A name that does not exist, or belongs to a session that was not given, exits 3."""
    assert run("artifact", verb, trip, name).exit_code == 3


def test_a_forgotten_session_is_named(run, trip):
    """If the name belongs to a session, a note says to which."""
    done = run("artifact", "load", trip, "menu.md")

    assert done.stderr.startswith("menu.md is in --session trip.\nError: no artifact 'menu.md'")


def test_an_unknown_version_is_not_found(run, trip):
    """A version that does not exist exits 3."""
    done = run("artifact", "load", trip, "menu.md", "--session", "trip", "--version", 9)

    assert done.exit_code == 3
    assert "menu.md@9" in done.stderr


def test_list_piped(run, trip):
    """Without a terminal an artifact is one line: name, session, version, size, type, time."""
    assert run("artifact", "list", trip).stdout == (
        "user:photo.bin  -     1  3 B  application/octet-stream  2023-11-14 22:13  -\n"
        "menu.md         trip  2  4 B  text/markdown             2023-11-14 22:13  -\n"
    )


def test_list_on_a_terminal(run, trip, terminal):
    """On a terminal the type is shortened before a line is too long."""
    assert run("artifact", "list", trip).stdout == (
        "NAME      SESSION  VERSION  SIZE  TYPE      SAVED\n"
        "user:ph…                 1   3 B  applica…  2023-11-14 22:13\n"
        "menu.md   trip           2   4 B  text/ma…  2023-11-14 22:13\n"
    )


def test_list_of_a_session(run_json, trip):
    """--session lists its names and the shared ones."""
    names = [one["name"] for one in run_json("artifact", "list", trip, "--session", "other")]

    assert names == ["user:photo.bin"]


def test_versions(run, run_json, trip):
    """Versions stand newest first, with the beginning of their hash."""
    lines = run("artifact", "versions", trip, "menu.md", "--session", "trip").stdout.splitlines()
    told = run_json("artifact", "versions", trip, "menu.md", "--session", "trip")

    assert [line[0] for line in lines] == ["2", "1"]
    assert lines[0].endswith(told[0]["sha256"][:12])
    assert [one["version"] for one in told] == [2, 1]


def test_delete_one_version(run, run_json, trip):
    """--version removes that one; the others stay, and its number does not come back."""
    done = run(
        *("artifact", "delete", trip, "menu.md", "--session", "trip", "--version", 2, "--yes")
    )

    assert done.stdout == "Deleted menu.md@2 in trip.\n"
    told = run_json("artifact", "versions", trip, "menu.md", "--session", "trip")
    assert [one["version"] for one in told] == [1]
    saved = run_json("artifact", "save", trip, "menu.md", "--session", "trip", input="x")
    assert saved["version"] == 3


def test_delete_dry_run(run_json, trip):
    """--dry-run lists the versions that would go, and keeps them."""
    told = run_json("artifact", "delete", trip, "menu.md", "--session", "trip", "--dry-run")

    assert (told["deleted"], told["dry_run"]) == (False, True)
    assert [one["version"] for one in told["versions"]] == [2, 1]
    assert len(run_json("artifact", "list", trip)) == 2


def test_delete_without_a_terminal_needs_yes(run, run_json, trip):
    """Nobody can be asked: exit 2, and nothing is deleted."""
    assert run("artifact", "delete", trip, "photo.bin").exit_code == 2
    assert len(run_json("artifact", "list", trip)) == 2


@pytest.mark.parametrize(("typed", "exit_code", "left"), [("y\n", 0, 1), ("n\n", 1, 2)])
def test_delete_asks_on_a_terminal(in_terminal, run_json, trip, typed, exit_code, left):
    """On a terminal the versions are named, and only "y" deletes them."""
    code, said = in_terminal("artifact", "delete", trip, "photo.bin", prompt="[y/N]:", typed=typed)

    assert code == exit_code
    assert "Delete user:photo.bin@1? [y/N]:" in said
    assert len(run_json("artifact", "list", trip)) == left


def test_rename(run, trip):
    """Every version goes along; a name that is taken or absent is refused."""
    of = ("--session", "trip")
    done = run("artifact", "rename", trip, "menu.md", "card.md", *of)

    assert done.stdout == "is called card.md@2 in trip\n"
    assert run("artifact", "versions", trip, "menu.md", *of).exit_code == 3
    assert "card.md" in run("artifact", "list", trip, "--prefix", "card").stdout
    assert "card.md" not in run("artifact", "list", trip, "--prefix", "menu").stdout
    run("artifact", "save", trip, "other.md", *of, input="x")
    assert run("artifact", "rename", trip, "card.md", "other.md", *of).exit_code == 4
    assert run("artifact", "rename", trip, "gone.md", "x.md", *of).exit_code == 3
