"""`memdb item`: values under a namespace and a key."""

from __future__ import annotations

import pytest

LABELS = '["a/b", "c"]'


def test_put_get_list_delete(run, run_json, path):
    """What was put is printed, listed and deleted; --json gives every field."""
    put = run("item", "put", path, "notes/trip", "tent", '{"stars": 3}', "--user", "ann")
    assert put.stdout == "notes/trip/tent (version 1)\n"
    assert run_json("item", "get", path, "notes/trip", "tent") == {
        "id": run_json("item", "get", path, "notes/trip", "tent")["id"],
        "namespace": ["notes", "trip"],
        "key": "tent",
        "value": {"stars": 3},
        "version": 1,
        "metadata": None,
        "created_ms": 1_700_000_000_000,
        "updated_ms": 1_700_000_000_000,
        "ttl_ms": None,
        "expires_ms": None,
        "uid": run_json("item", "get", path, "notes/trip", "tent")["uid"],
        "writer": "cli",
    }
    assert run("item", "get", path, "notes/trip", "tent").stdout == '{\n  "stars": 3\n}\n'
    listed = run("item", "list", path, "--prefix", "notes", "--where", "stars>=3").stdout
    assert "tent" in listed
    assert run("item", "list", path, "--where", "stars!=3").stdout == ""
    assert run("item", "namespaces", path).stdout == "notes/trip\n"
    assert run("item", "delete", path, "notes/trip", "tent", "--dry-run").exit_code == 0
    assert (
        run("item", "delete", path, "notes/trip", "tent", "--yes").stdout
        == "Deleted notes/trip/tent.\n"
    )
    assert run("item", "get", path, "notes/trip", "tent").exit_code == 3


def test_labels_may_hold_slashes(run, path):
    """A JSON list names any labels, and is how they are shown."""
    run("item", "put", path, LABELS, "k", "plain text", "--user", "ann")
    run("item", "put", path, "/", "root", "1", "--user", "ann")

    assert run("item", "namespaces", path).stdout == f"/\n{LABELS}\n"
    assert run("item", "get", path, LABELS, "k").stdout == '"plain text"\n'
    assert run("item", "get", path, "/", "root").stdout == "1\n"


def test_a_value_comes_from_standard_input(run, path):
    """`-` reads it; a version and a time to live are taken."""
    words = ("item", "put", path, "n", "k", "-", "--user", "ann")
    assert run(*words, "--expected", 0, "--ttl", "30d", input='{"a": 1}\n').exit_code == 0
    assert run(*words, "--expected", 0, input="2").exit_code == 4
    assert run(*words, "--expected", 1, "--no-index", input="2").exit_code == 0
    assert (
        run("item", "list", path, "--order", "updated", "--descending", "--limit", 1).exit_code == 0
    )


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (("get", "n", "absent"), 3),
        (("delete", "n", "absent", "--yes"), 3),
        (("put", '["a"', "k", "1", "--user", "ann"), 2),
        (("put", "[1]", "k", "1", "--user", "ann"), 5),
        (("put", "n", "", "1", "--user", "ann"), 5),
        (("put", "n", "k", "1", "--ttl", "soon", "--user", "ann"), 5),
        (("list", "--where", "stars"), 2),
        (("list", "--where", "a..b=1"), 5),
        (("list", "--limit", "-1"), 5),
    ],
)
def test_refusals(run, path, words, exit_code):
    """Each mistake has its exit code."""
    run("item", "put", path, "n", "k", "1", "--user", "ann")
    verb, *rest = words
    assert run("item", verb, path, *rest).exit_code == exit_code
