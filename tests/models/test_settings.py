"""Settings are checked field by field, kept in the file, and work for every opener."""

import asyncio
import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases import each

import memdb
from memdb import Category, InvalidInput, MemDB, Settings
from memdb.api._container import Services, by_settings

# A value of each field that differs from its default, as a program gives it.
OTHER: dict[str, Any] = {
    "categories": (Category("recipes", "dishes", None, ttl_days=2, shared=True, merge="words"),),
    "entry_quota": 500,
    "entry_decay_percent": 100,
    "secrets_in_entries": "redact",
    "secrets_in_extraction": "allow",
    "secrets_in_messages": "refuse",
    "secrets_by_entropy": True,
    "summary_messages": 12,
    "summary_condense_at": 8,
    "summary_group": 4,
    "summary_max_depth": 2,
    "summary_prompt": 'Condense to {limit} tokens, "tersely".',
    "extract": True,
    "extract_by_model": False,
    "extract_categories": ("events",),
    "extract_messages": 9,
    "extract_chars": 20_000,
    "extract_context": 0,
    "extract_max_facts": 3,
    "extract_every": 2,
    "extract_idle_ms": 0,
    "extract_prompt": "Note at most {most} facts.\nNothing else.",
    "compare_prompt": "Compare.",
    "entry_inactive_ms": 86_400_000,
    "session_max_age_ms": 1,
    "session_max_idle_ms": 2,
    "session_max_count": 3,
    "session_retention": "forget",
    "session_archive_at": 1_000,
    "session_archive_keep": 100,
    "context_messages": 12,
    "context_images": 0,
    "context_media_bytes": 0,
    "image_tokens": 85,
    "page_tokens": 258,
    "sound_tokens": 10,
    "context_tail_percent": 50,
    "context_recall_percent": 0,
    "context_known_tokens": 20,
    "context_entries": 5,
    "context_categories": ("events", "recipes"),
    "context_flagged": False,
    "context_log_days": 7,
    "window_tokens": 900,
    "counter": "gpt-4o",
}
WRONG = {
    "categories": [
        "recipes",
        7,
        ("x",),
        (Category(""),),
        (Category("a"), Category("a")),
        (Category("a", merge="no"),),
    ],
    "entry_quota": [0, 1_000_001, 1.5, None, "9", True],
    "entry_decay_percent": [-1, 101, None],
    "secrets_in_entries": ["burn", None, 7],
    "secrets_in_extraction": ["burn", None],
    "secrets_in_messages": ["burn", None],
    "secrets_by_entropy": [1, None, "yes"],
    "summary_messages": [1, 1_001, None],
    "summary_condense_at": [2, 101, None],
    "summary_group": [1, 51, None],
    "summary_max_depth": [-1, 32, None],
    "summary_prompt": ["", " ", "x" * 20_001, 7, "a\0b"],
    "extract": [1, "yes"],
    "extract_by_model": [1, None],
    "extract_categories": ["events", ("",), (7,)],
    "extract_messages": [0, 201, None],
    "extract_chars": [499, 1_000_001, None],
    "extract_context": [-1, 201, None],
    "extract_max_facts": [0, 65, None],
    "extract_every": [0, 201, None],
    "extract_idle_ms": [-1, None],
    "extract_prompt": ["", 7],
    "compare_prompt": ["", 7],
    "entry_inactive_ms": [-1, 1.5],
    "session_max_age_ms": [-1, "1"],
    "session_max_idle_ms": [-1, "1"],
    "session_max_count": [-1, "1"],
    "session_retention": ["burn", None],
    "session_archive_at": [1, "1"],
    "session_archive_keep": [-1, None],
    "context_messages": [0, "12"],
    "context_images": [-1, 10_001, None],
    "context_media_bytes": [-1, 1_000_000_001, None],
    "image_tokens": [-1, 1_000_001, "85"],
    "page_tokens": [-1, None],
    "sound_tokens": [-1, None],
    "context_tail_percent": [0, 100, None],
    "context_recall_percent": [-1, 91, None],
    "context_known_tokens": [-1, 1_000_001, None],
    "context_entries": [-1, 1_001, None],
    "context_categories": ["events", ("",), (7,)],
    "context_flagged": [1, "no", None],
    "context_log_days": [-1, 36_501, None],
    "window_tokens": [0, None],
    "counter": ["llama-4", "", 7],
}


def test_the_tables_here_name_every_field() -> None:
    """So that a new field gets its place in each test below."""
    assert list(OTHER) == list(WRONG) == list(Settings._fields)
    assert [name for name in OTHER if OTHER[name] == getattr(Settings(), name)] == []


@pytest.mark.parametrize("field", OTHER)
def test_a_field_is_kept_for_the_next_opener(
    path: str, open_db: Callable[..., MemDB], field: str
) -> None:
    """Given as a dict at opening; the others keep their defaults."""
    open_db(path, settings={field: OTHER[field]}).close()

    assert open_db(path).settings.get() == Settings(**{field: OTHER[field]})


def test_a_whole_record_takes_the_place_of_all(path: str, open_db: Callable[..., MemDB]) -> None:
    """A dict changes its fields only."""
    open_db(path, settings=Settings(**OTHER)).close()
    db = open_db(path, settings={"entry_quota": 7})

    assert db.settings.get() == Settings(**{**OTHER, "entry_quota": 7})
    assert db.settings.update(Settings()) == Settings()
    db.close()
    assert open_db(path).settings.get() == Settings()


@each("field, value", [(field, value) for field in WRONG for value in WRONG[field]])
def test_a_wrong_value_is_refused_before_a_file_is_made(
    tmp_path: Path, field: str, value: Any
) -> None:
    """Whether it comes in a record or in a dict; the error names the field."""
    for settings in (Settings(**{field: value}), {field: value}):
        with pytest.raises(InvalidInput, match="categor" if field == "categories" else field):
            memdb.open(tmp_path / "new.db", settings=settings)

    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("settings", [True, 7, [("extract", True)], {"extrakt": True}])
def test_what_are_no_settings_is_refused(tmp_path: Path, settings: Any) -> None:
    """The error says what to give."""
    with pytest.raises(InvalidInput, match=r"settings .*(memdb\.Settings)"):
        memdb.open(tmp_path / "new.db", settings=settings)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"session_archive_at": 100, "session_archive_keep": 100}, "session_archive_at is 100"),
    ],
)
def test_a_limit_is_above_what_it_leaves(tmp_path: Path, fields: Any, why: str) -> None:
    """Else the work would begin again at once."""
    with pytest.raises(InvalidInput, match=f"{why}: give more than"):
        memdb.open(tmp_path / "new.db", settings=fields)


def test_fields_that_do_not_go_together_are_refused(db: MemDB) -> None:
    """Against what the file keeps, and nothing changes."""
    db.settings.update(summary_condense_at=5)

    with pytest.raises(InvalidInput, match=r"summary_condense_at is 5: give more than"):
        db.settings.update(summary_group=5, entry_quota=7)
    with pytest.raises(InvalidInput, match="contradict"):
        db.settings.update(Settings(), entry_quota=7)

    assert db.settings.get() == Settings(summary_condense_at=5)


def test_json_of_a_record_can_be_given_back(open_db: Callable[..., MemDB]) -> None:
    """What `to_dict` gives is taken, lists for tuples and dicts for categories."""
    plain = json.loads(json.dumps(Settings(**OTHER).to_dict()))

    assert open_db(":memory:", settings=plain).settings.get() == Settings(**OTHER)


def test_type_checkers_know_every_field() -> None:
    """A call takes lists where the record has tuples, and categories as objects too."""
    known = {
        name: kind.__forward_arg__.replace("Sequence[str]", "tuple[str, ...]")
        for name, kind in memdb.SettingsFields.__annotations__.items()
    }
    wider = {"categories": "Sequence[Any]"}

    assert known == {**Settings.__annotations__, **wider}


def test_no_service_that_stays_is_made_of_the_settings() -> None:
    """Nor of a service that is made of them, unless it asks for that each time."""
    services = {
        name: service for name, service in vars(Services).items() if hasattr(service, "func")
    }
    made_again = [name for name, one in services.items() if isinstance(one, by_settings)]
    wrong = [
        (name, other)
        for name in services.keys() - {*made_again}
        for other in ("settings", *made_again)
        if re.search(rf"(?<!lambda: )self\.{other}\b", inspect.getsource(services[name].func))
    ]

    assert {"indexer", "context_log"} <= services.keys() - {*made_again}
    assert wrong == []


def test_an_open_handle_works_by_what_it_changed(db: MemDB) -> None:
    """Services made before the change are made anew."""
    ann = db.scope("ann")
    key = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    with pytest.raises(memdb.SecretFound):
        ann.remember(f"The key is {key}.")

    db.settings.update(secrets_in_entries="redact", secrets_in_messages="redact", entry_quota=1)

    assert key not in ann.remember(f"The key is {key}.").entry.text
    assert key not in ann.session("s").append("user", key).text
    ann.remember("Ann likes tea.")
    assert len([*ann.entries.list()]) == 1


def test_equal_settings_write_nothing(
    path: str, open_db: Callable[..., MemDB], stored_bytes: Callable[[str], bytes]
) -> None:
    """A program that gives the same at each start leaves the database as it is."""
    open_db(path, settings={"entry_quota": 7}).close()
    before = stored_bytes(path)
    open_db(path, settings={"entry_quota": 7}).close()

    assert stored_bytes(path) == before


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("dream", "true", "dream"),
        ("entry_quota", "0", "entry_quota"),
        ("categories", '[{"name": "x", "colour": 1}]', "colour"),
        ("summary_group", "6", "summary_condense_at"),
    ],
)
def test_settings_of_a_newer_memdb_are_refused(
    path: str, open_db: Callable[..., MemDB], run_sql: Any, name: str, value: str, why: str
) -> None:
    """The file stays as it is, and the error says how to go on."""
    open_db(path, settings={"extract": True}).close()
    run_sql(path, "DELETE FROM settings WHERE name = ?", name)
    run_sql(path, "INSERT INTO settings (name, value, updated_ms) VALUES (?, ?, 1)", name, value)

    with pytest.raises(memdb.SettingsTooNew, match=rf"{why}.*upgrade"):
        memdb.open(path)


@pytest.mark.parametrize("value", ["{", "", "[[[", "nan,"])
def test_damaged_settings_are_called_damaged(
    path: str, open_db: Callable[..., MemDB], run_sql: Any, value: str
) -> None:
    """No upgrade helps where no memdb wrote that."""
    open_db(path, settings={"extract": True}).close()
    sql = "INSERT INTO settings (name, value, updated_ms) VALUES ('entry_quota', ?, 1)"
    run_sql(path, sql, value)

    with pytest.raises(memdb.Corrupt, match=r"settings.*damaged.*recover"):
        memdb.open(path)


def test_the_awaited_handle_has_them_too(path: str) -> None:
    """Reading does not wait, changing does."""

    async def change() -> None:
        async with memdb.aio.open(path) as db:
            assert await db.settings.update(entry_quota=7) == Settings(entry_quota=7)
            assert db.settings.get().entry_quota == 7
            assert db.settings.categories()[0].name == "identity"

    asyncio.run(change())


def test_a_toml_file_is_read_and_written(tmp_path: Path, open_db: Callable[..., MemDB]) -> None:
    """What one file says, another takes; what is as by default stands behind a #."""
    from memdb.models.settings_file import to_toml

    lasting = Category("lasting", 'with "quotes" and \x7f', None, quota_percent=10)
    whole = Settings(**{**OTHER, "categories": (*OTHER["categories"], lasting)})
    (tmp_path / "all.toml").write_text(to_toml(whole), encoding="utf-8")
    (tmp_path / "none.toml").write_text(to_toml(Settings()), encoding="utf-8")

    assert open_db(":memory:", settings=tmp_path / "all.toml").settings.get() == whole
    assert open_db(":memory:", settings=str(tmp_path / "none.toml")).settings.get() == Settings()
    assert all(line.startswith("#") for line in to_toml(Settings()).splitlines())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"entry_quota = ", "is not TOML"),
        (b"\xff", "is not TOML"),
        (b"entry_quota = 0", "entry_quota"),
        (b"quota = 1", "no field 'quota'"),
        (b"[[categories]]\ncolour = 1", "colour"),
        (b"#" * (1 << 20) + b"#", "over 1 MB"),
        (None, "cannot be read"),
    ],
    ids=["syntax", "bytes", "range", "field", "category", "size", "absent"],
)
def test_a_wrong_toml_file_is_named(tmp_path: Path, text: bytes | None, why: str) -> None:
    """Before a file is made."""
    path = tmp_path / "settings.toml"
    if text is not None:
        path.write_bytes(text)

    with pytest.raises(InvalidInput, match=f"settings.toml.*{why}"):
        memdb.open(tmp_path / "new.db", settings=path)
    assert not (tmp_path / "new.db").exists()


def test_never_takes_a_limit_away(db: MemDB) -> None:
    """For text files and commands, which have no None."""
    db.settings.update(session_max_count=3)

    assert db.settings.update(session_max_count="never").session_max_count is None
    with pytest.raises(InvalidInput, match="entry_quota"):
        db.settings.update(entry_quota="never")


def test_an_override_is_for_one_handle(path: str, open_db: Callable[..., MemDB]) -> None:
    """The file keeps its own, also for what is updated later; reading is enough."""
    db = open_db(path, settings={"entry_quota": 7})
    db.settings.update(keep=False, entry_quota=1, summary_group=2)

    assert db.settings.update(extract=True) == Settings(
        entry_quota=1, summary_group=2, extract=True
    )
    db.scope("ann").remember("Ann likes tea.")
    db.scope("ann").remember("Ann has a dog.")
    assert len([*db.scope("ann").entries.list()]) == 1
    assert open_db(path).settings.get() == Settings(entry_quota=7, extract=True)
    db.close()
    with memdb.open(path, mode="read", embedder=None) as reading:
        assert reading.settings.update(keep=False, entry_quota=2).entry_quota == 2
        with pytest.raises(memdb.ReadOnly):
            reading.settings.update(entry_quota=3)


def test_decay_weighs_as_much_as_the_settings_say(
    open_db: Callable[..., MemDB], clock: Any
) -> None:
    """After one half-life: half of the score, a tenth less, or nothing."""
    for percent, factor in ((100, 0.5), (20, 0.9), (0, 1.0)):
        db = open_db(":memory:", settings={"entry_decay_percent": percent})
        ann = db.scope("ann")
        ann.remember("The Kraken was released.", category="events")
        clock.advance(30 * 86_400_000)
        (hit,) = ann.recall("Kraken released", explain=True)
        assert hit.explanation["freshness"] == pytest.approx(factor, abs=0.001)


def test_a_built_in_category_takes_new_rules(db: MemDB) -> None:
    """Pinned: its entries stand in every prompt."""
    db.settings.update(categories=[{"name": "preferences", "pinned": True, "half_life_days": 45}])
    ann = db.scope("ann")
    ann.remember("Ann prefers tea.", category="preferences")

    assert "Ann prefers tea." in ann.profile(500).text
    assert next(c for c in db.settings.categories() if c.name == "preferences").half_life_days == 45


def test_contexts_show_the_categories_that_are_chosen(db: MemDB) -> None:
    """Pinned ones and those that match, in contexts and in profiles."""
    ann = db.scope("ann")
    ann.remember("Ann lives in Oslo.", category="identity")
    ann.remember("The trip to Oslo is in May.", category="events")
    chat = ann.session("s")
    chat.append("user", "hello")
    shown = {}
    for categories in (None, ("events",), ()):
        db.settings.update(keep=False, context_categories=categories)
        said = ann.profile(500, ["Oslo"]).text + str(chat.context(500, "Oslo").to("openai"))
        shown[categories] = ("lives in Oslo" in said, "trip to Oslo" in said)

    assert shown == {None: (True, True), ("events",): (False, True), (): (False, False)}


def test_context_shares_follow_the_settings(db: MemDB) -> None:
    """The tail has its share; without a share for recall nothing is recalled."""
    chat = db.scope("ann").session("s")
    for number in range(200):
        chat.append("user", f"message number {number} about flights, hotels and boats")

    def pieces(**fields: Any) -> dict[str, int]:
        db.settings.update(keep=False, **fields)
        counts: dict[str, int] = {}
        for piece in chat.context(1000, "flights and hotels").pieces:
            counts[piece.kind] = counts.get(piece.kind, 0) + piece.tokens
        return counts

    narrow = pieces(context_recall_percent=60)
    wide = pieces(context_recall_percent=0)
    assert wide["message"] > 2 * narrow["message"]
    assert sum(wide.values()) <= 1000
    assert "excerpt" not in wide or wide["excerpt"] < narrow["excerpt"]


def test_a_long_session_archives_its_oldest(db: MemDB) -> None:
    """From the limit on, once, and all is still read."""
    chat = db.scope("ann").session("s")
    chat.extend([{"role": "user", "text": f"number {number}"} for number in range(30)])
    db.settings.update(session_archive_at=31, session_archive_keep=10)
    db.jobs.run(due=True)
    before = db.file.info().archived_messages
    chat.append("user", "one more")
    db.settings.update(session_archive_at=31)
    db.file.info()
    from memdb.deletion.service import retain_sessions

    services = db._services
    parts = (db._db, services.conversations, services.archivist, services.deletion)
    changed = retain_sessions(*parts, db.settings.get())

    assert (before, changed) == (0, [("default", "ann", "s")])
    assert db.file.info().archived_messages == 21
    assert [message.seq for message in chat.messages()] == [*range(1, 32)]
    assert retain_sessions(*parts, db.settings.get()) == []


@pytest.mark.parametrize(("size", "count"), [(3, 6), (4, 4), (4, 9)])
def test_small_summaries_are_made_in_time(db: MemDB, size: int, count: int) -> None:
    """With three messages per summary, six give two; nobody waits for ten."""
    db.settings.update(summary_messages=size)
    chat = db.scope("ann").session("s")
    for number in range(count):
        chat.append("user", f"thing number {number}")
    db.jobs.run()

    assert len(chat.summaries.tree().summaries) == count // size


def test_prompts_are_those_of_the_settings(open_db: Callable[..., MemDB]) -> None:
    """What marks the material and the form of the answer is added to each."""
    asked: list[str] = []

    class Model:
        name = "m"

        def complete(self, messages: Any, **_: object) -> str:
            asked.append(messages[0]["content"])
            return '{"memories": []}'

    texts = {
        "summary_prompt": "Condense, {limit} tokens.",
        "extract_prompt": "Note {most} facts of {chars} characters.",
    }
    db = open_db(":memory:", model=Model(), settings=texts)
    chat = db.scope("ann").session("s")
    for number in range(10):
        chat.append("user", f"I moved to city number {number}.")
    chat.extract()
    chat.summaries.compact()

    assert asked[0].startswith("Note 16 facts of 500 characters.\n\nWhat stands between")
    assert '{"memories": [{"category"' in asked[0]
    assert any(text.startswith("Condense, ") and "tokens. What stands" in text for text in asked)


def test_the_counter_of_the_file_counts(path: str, open_db: Callable[..., MemDB]) -> None:
    """A model's name means its encoding; what `open` is given goes before."""
    with memdb.open(path, embedder=None, settings={"counter": "gpt-4o"}) as db:
        assert db.scope("ann").session("s").append("user", "hello").counter == "o200k_base"
    with memdb.open(path, embedder=None) as db:
        assert db.scope("ann").session("s").append("user", "hello").counter == "o200k_base"
    with memdb.open(path, embedder=None, counter="estimate") as db:
        assert db.scope("ann").session("s").append("user", "hello").counter == "estimate"


def test_each_setting_is_in_one_of_five_groups() -> None:
    """`groups` holds every field once, with its value."""
    groups = Settings(entry_quota=500).groups()
    fields = [name for group in groups.values() for name in group]

    assert (len(groups), sorted(fields)) == (5, sorted(Settings().to_dict()))
    assert groups["entries"]["entry_quota"] == 500
