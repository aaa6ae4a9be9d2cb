"""`memdb copy`: what it says when it is stopped, and that it goes on."""

from __future__ import annotations

import signal

import pytest

import memdb

SIGNALS = pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)


@pytest.fixture
def source(tmp_path):
    """Return the path of a file with the messages of two users."""
    path = tmp_path / "source.db"
    with memdb.open(path, embedder=None) as db:
        for user in ("ann", "bob"):
            talk = [{"role": "user", "text": f"No {number} of {user}"} for number in range(50)]
            db.scope(user).session("s").extend(talk)
    return path


@SIGNALS
def test_a_stopped_copy_leaves_nothing_and_goes_on(
    run, run_json, path, source, monkeypatch, number, code
):
    """By Ctrl-C and by SIGTERM; until all is there TARGET shows nothing of it."""
    with monkeypatch.context() as patch:
        patch.setattr("memdb.cli.output.Line.to", lambda *_: signal.raise_signal(number))
        stopped = run("copy", source, path)
    with memdb.open(path, embedder=None) as db:
        shown = db.scopes()
    told = run_json("copy", source, path)

    assert stopped.exit_code == code
    assert f"Stopped. Nothing is in {path}." in stopped.stderr
    assert shown == []
    assert told["rows"]["messages"] == 100


@SIGNALS
def test_a_copy_that_is_stopped_at_its_end_says_that_all_is_there(
    run, path, source, monkeypatch, number, code
):
    """The same command is refused then."""

    def stop_last(_bar, done, total):
        if done == total:
            signal.raise_signal(number)

    with monkeypatch.context() as patch:
        patch.setattr("memdb.cli.output.Line.to", stop_last)
        stopped = run("copy", source, path)
    assert stopped.exit_code == code
    assert f"Stopped. All is in {path}." in stopped.stderr
    assert run("copy", source, path).exit_code == 4
