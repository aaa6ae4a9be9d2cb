"""`memdb pack`, as a person types it."""

from __future__ import annotations

RECIPE = """
clock = 2024-05-01T09:00:00Z

[[steps]]
append = "We fly to Oslo on 3 May."
user = "ann"
session = "trip"

[[steps]]
remember = "Ann lives in Bergen."
user = "ann"
"""


def test_the_commands(run, run_json, tmp_path):
    """Make, verify, open and diff, as a person types them."""
    recipe = tmp_path / "trip.toml"
    recipe.write_text(RECIPE)
    pack, new = tmp_path / "a.pack", tmp_path / "new.db"
    made = run("pack", "make", recipe, "-o", pack)
    assert (made.exit_code, made.stdout.split(": ")[1][:10]) == (0, "1 entry, 1")
    assert run_json("pack", "verify", pack)["seed"] == 0
    assert run("pack", "make", recipe, "-o", pack).exit_code == 4
    assert run("pack", "open", pack, new).exit_code == 0
    assert "Bergen" in run("recall", new, "Where does Ann live?", "--user", "ann").stdout
    other = tmp_path / "b.pack"
    assert run("pack", "make", recipe, "-o", other, "--seed", 8).exit_code == 0
    assert other.read_bytes() != pack.read_bytes()
    assert run("pack", "verify", tmp_path / "none").exit_code == 6
    assert run("pack", "verify", new).exit_code == 6
    assert run("pack", "verify", tmp_path).exit_code == 6
