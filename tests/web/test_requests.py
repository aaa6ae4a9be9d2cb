"""Requests and answers of the API: types, pages, versions, idempotency, files, errors."""

from __future__ import annotations

import csv
import io
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from cases import each
from web_site import TOKEN, Site, opened, served

import memdb
from memdb.errors import InvalidInput
from memdb.formats.documents import BEFORE_FORMULA, FORMULA
from memdb.web.errors import CODES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ANN = {"user": "ann"}
TRIP = {"user": "ann", "session": "trip"}


@each(
    "noun, query, field",
    [
        ("messages", {"user": "ann"}, "session"),
        ("messages", {**TRIP, "limit": "x"}, "limit"),
        ("messages", {**TRIP, "limit": "0"}, "limit"),
        ("messages", {**TRIP, "limit": "501"}, "limit"),
        ("messages", {**TRIP, "limit": "1.0"}, "limit"),
        ("messages", {**TRIP, "limit": ["1", "2"]}, "limit"),
        ("messages", {**TRIP, "after": "x"}, "after"),
        ("messages", {**TRIP, "first_seq": "0"}, "first_seq"),
        ("messages", {**TRIP, "first_seq": "9" * 17}, "first_seq"),
        ("messages", {**TRIP, "first_seq": "9" * 25}, "first_seq"),
        ("messages", {**TRIP, "format": "xml"}, "format"),
        ("recall", {**ANN, "query": "a", "kinds": "x"}, "kinds"),
        ("recall", {**ANN, "query": "a", "explain": "yes"}, "explain"),
        ("recall", {**ANN, "query": "a", "where": "[]"}, "where"),
        ("recall", {**ANN, "query": "a", "where": "{"}, "where"),
        ("recall", {**ANN, "query": "a", "where": '{"a": 1, "a": 2}'}, "where"),
        ("recall", {**ANN, "query": "a", "since": "someday"}, "since"),
        ("recall", {**ANN, "query": "a", "min_score": "nan"}, "min_score"),
        ("recall", {**ANN, "query": "a", "count_use": "true"}, "count_use"),
        ("recall", {**ANN, "query": "a", "__proto__": "1"}, "__proto__"),
        ("entry", {**ANN, "id": "1e3"}, "id"),
        ("scopes", {"user": "ann"}, "user"),
    ],
)
def test_a_wrong_parameter_is_named(
    reading_site: Site, noun: str, query: dict[str, Any], field: str
) -> None:
    """422, with the field and what to give."""
    answer = reading_site.ask("GET", noun, query)

    assert answer.status == 422, answer
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"type", "status", "code", "detail", "todo"} <= answer.json.keys()
    assert answer.json["detail"].startswith(field)
    assert answer.json["field"] == field


def test_a_parameter_in_the_wrong_place_is_told_the_right_one(reading_site: Site) -> None:
    """Each one of each verb, in the query and in the body."""
    for methods in reading_site.app.api.routes.values():
        for route in methods.values():
            for one in route.parameters:
                is_query = one.place == "query"
                other = "body" if is_query else "query"
                query = "" if is_query else f"{one.name}=1"
                body = json.dumps({one.name: 1}).encode() if is_query else b""
                with pytest.raises(InvalidInput) as caught:
                    route.read(query, body)
                expected = f"{one.name} is not a parameter in the {other} here: it belongs in the"
                assert str(caught.value) == f"{expected} {one.place}"


@each(
    "body, word",
    [
        (b"{", "JSON"),
        (b"[]", "object"),
        (b'"text"', "object"),
        (b'{"text": 1}', "text"),
        (b'{"text": null}', "text"),
        (b'{"text": "a", "nothing": 1}', "nothing"),
        (b'{"text": "a", "text": "b"}', "twice"),
        (b'{"text": "a", "metadata": {"a": 1, "a": 2}}', "twice"),
        (b'{"text": "a", "importance": 1.5}', "importance"),
        (b'{"text": "a", "importance": true}', "importance"),
        (b'{"text": "a", "importance": 9223372036854775808}', "importance"),
        (b'{"text": "a", "keywords": "b"}', "keywords"),
        (b'{"text": "a", "keywords": [1]}', "keywords"),
        (b'{"text": "a", "metadata": NaN}', "JSON"),
        (b'{"text": "a", "metadata": ' + b'{"a":' * 70 + b"1" + b"}" * 71, "nested"),
        (b"\xff\xfe", "JSON"),
        (b"", "text"),
    ],
)
def test_a_wrong_body_is_refused(reading_site: Site, body: bytes, word: str) -> None:
    """By what is wrong with it; nothing is stored."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    before = reading_site.ask("GET", "entries", ANN).json
    answer = reading_site.send("POST", "/api/v1/entries?user=ann", body, headers)

    assert answer.status == 422, answer
    assert word in answer.json["detail"]
    assert reading_site.ask("GET", "entries", ANN).json == before


@each("noun", ["messages", "entries", "sessions", "artifacts", "items"])
@each("limit", [1, 2, 5])
def test_pages_together_are_the_list(reading_site: Site, noun: str, limit: int) -> None:
    """Each row once, in order; the last page says that it is complete."""
    query: dict[str, Any] = TRIP if noun == "messages" else ANN
    whole = reading_site.ask("GET", noun, query).json
    assert whole["complete"]
    assert whole["next"] is None
    rows: list[Any] = []
    after: dict[str, Any] = {}
    while True:
        page = reading_site.ask("GET", noun, {**query, "limit": limit, **after}).json
        rows += page["items"]
        assert page["complete"] == (page["next"] is None)
        if page["complete"]:
            break
        assert len(page["items"]) == limit
        after = {"after": page["next"]}

    assert rows == whole["items"]
    assert len(rows) > 1


@pytest.mark.parametrize("order", ["updated", "created"])
def test_pages_by_time(reading_site: Site, order: str) -> None:
    """The order is part of the filter that a cursor is bound to."""
    first = reading_site.ask("GET", "entries", {**ANN, "limit": 1, "order": order}).json
    rest = {**ANN, "limit": 1, "order": order, "after": first["next"]}
    second = reading_site.ask("GET", "entries", rest).json

    whole = reading_site.ask("GET", "entries", {**ANN, "order": order}).json
    assert first["items"] + second["items"] == whole["items"][:2]
    assert reading_site.ask("GET", "entries", {**rest, "order": "id"}).status == 422


def test_a_cursor_is_of_one_list_filter_and_server(site: Site, tmp_path: Path) -> None:
    """Any other is refused, and says to begin anew."""
    cursor = site.ask("GET", "messages", {**TRIP, "limit": 1}).json["next"]
    assert site.ask("GET", "messages", {**TRIP, "after": cursor, "limit": 9}).status == 200
    wrong = [
        ("messages", {"user": "ann", "session": "old"}, cursor),
        ("messages", {**TRIP, "first_seq": 2}, cursor),
        ("sessions", ANN, cursor),
        ("messages", TRIP, cursor[:-2]),
        ("messages", TRIP, ("B" if cursor[0] == "A" else "A") + cursor[1:]),
        ("messages", TRIP, ""),
        ("messages", TRIP, "é"),
        ("messages", TRIP, "A" * 5000),
    ]
    for noun, query, after in wrong:
        answer = site.ask("GET", noun, {**query, "after": after})
        assert answer.status == 422
        assert "first page" in answer.json["detail"]
    with opened(tmp_path / "trip.db") as db, served(db) as other:
        assert other.ask("GET", "messages", {**TRIP, "after": cursor}).status == 422


def entry_of(site: Site) -> tuple[dict[str, Any], str]:
    entry = site.app.db.scope("ann").entries.find("home")
    assert entry is not None
    query = {**ANN, "id": entry.id}
    return query, site.ask("GET", "entry", query).headers["etag"]


def test_a_write_needs_the_version_that_it_changes(site: Site) -> None:
    """428 without it, 412 for another, and the new ETag in the answer."""
    query, tag = entry_of(site)
    change = {"importance": 9}

    assert site.ask("PATCH", "entry", query, change).status == 428
    assert site.ask("PATCH", "entry", query, change, If_Match='"x-1"').status == 412
    assert site.ask("PATCH", "entry", query, change, If_None_Match="*").status == 412
    assert site.ask("PATCH", "entry", query, change, If_Match=f"W/{tag}").status == 412
    done = site.ask("PATCH", "entry", query, change, If_Match=tag)
    assert done.status == 200
    assert done.headers["etag"] != tag
    stale = site.ask("PATCH", "entry", query, {"importance": 1}, If_Match=tag)
    assert stale.status == 412
    assert stale.headers["etag"] == done.headers["etag"]
    assert site.ask("DELETE", "entry", query, If_Match=tag).status == 412
    assert site.ask("DELETE", "entry", query, If_Match="*").json == {"value": True}
    assert site.ask("PATCH", "entry", query, change, If_Match=tag).status == 404


def test_a_session_changes_by_what_it_says(site: Site) -> None:
    """Its ETag is of title and metadata: messages that come in meanwhile are no conflict."""
    read = site.ask("GET", "session", TRIP)
    tag, change = read.headers["etag"], {"title": "Bergen"}
    assert site.ask("PATCH", "session", TRIP, change).status == 428
    assert site.ask("PATCH", "session", TRIP, change, If_Match='"x"').status == 412
    site.app.db.scope("ann").session("trip").append("user", "More.")
    done = site.ask("PATCH", "session", TRIP, change, If_Match=tag)
    assert (done.status, done.json["title"]) == (200, "Bergen")
    assert site.ask("GET", "session", TRIP).headers["etag"] == done.headers["etag"]
    stale = site.ask("PATCH", "session", TRIP, {"metadata": {"a": 1}}, If_Match=tag)
    assert (stale.status, stale.headers["etag"]) == (412, done.headers["etag"])
    missing = {**TRIP, "session": "none"}
    assert site.ask("PATCH", "session", missing, change, If_Match="*").status == 404


def test_of_two_titles_at_once_one_wins(site: Site) -> None:
    """Each has read the same head."""
    tag = site.ask("GET", "session", TRIP).headers["etag"]
    statuses: list[int] = []

    def change(title: str) -> None:
        answer = site.ask("PATCH", "session", TRIP, {"title": title}, If_Match=tag)
        statuses.append(answer.status)

    threads = [threading.Thread(target=change, args=(f"Title {one}",)) for one in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert sorted(statuses) == [200, 412, 412, 412, 412]


@pytest.mark.parametrize(
    ("noun", "query", "fields"),
    [
        ("item", {**ANN, "namespace": ["new"], "key": "k"}, {"value": 1}),
        ("state/value", {**TRIP, "key": "new"}, {"value": 1}),
        ("artifact", {**TRIP, "name": "new.md"}, {"text": "a"}),
    ],
)
def test_what_must_be_new(site: Site, noun: str, query: dict[str, Any], fields: Any) -> None:
    """`If-None-Match: *` makes it, and refuses what is there."""
    assert site.ask("PUT", noun, query, fields).status == 428
    assert site.ask("PUT", noun, query, fields, If_Match="*").status == 404
    made = site.ask("PUT", noun, query, fields, If_None_Match="*")
    assert made.status == 200
    assert site.ask("PUT", noun, query, fields, If_None_Match="*").status == 412
    again = site.ask("PUT", noun, query, {**fields}, If_Match=made.headers["etag"])
    assert again.status == 200
    read = site.ask("GET", noun, query)
    assert read.headers["etag"] == again.headers["etag"]


@pytest.mark.parametrize(
    ("noun", "query", "fields"),
    [
        ("item", {**ANN, "namespace": ["new"], "key": "k"}, {"value": 1}),
        ("state/value", {**TRIP, "key": "new"}, {"value": 1}),
    ],
)
def test_what_was_made_again_is_another(
    site: Site, noun: str, query: dict[str, Any], fields: Any
) -> None:
    """Whoever read what was deleted since does not change what somebody else put there."""
    old = site.ask("PUT", noun, query, fields, If_None_Match="*").headers["etag"]
    assert site.ask("DELETE", noun, query, If_Match=old).status == 200
    site.ask("PUT", noun, query, {"value": "of somebody else"}, If_None_Match="*")

    assert site.ask("PUT", noun, query, fields, If_Match=old).status == 412
    assert site.ask("GET", noun, query).json["value"] == "of somebody else"


def test_a_list_of_etags(site: Site) -> None:
    """One of them has to be the one (RFC 9110, 13.1.1); a read that names it is not sent again."""
    query, tag = entry_of(site)
    unchanged = site.ask("GET", "entry", query, If_None_Match=f'"x-1", {tag}')
    assert (unchanged.status, unchanged.headers["etag"]) == (304, tag)
    assert site.ask("GET", "entry", query, If_None_Match='"x-1"').status == 200
    done = site.ask("PATCH", "entry", query, {"importance": 9}, If_Match=f'"x-1", {tag}')
    assert done.status == 200


def test_a_value_of_a_query_is_one_of_sql(reading_site: Site) -> None:
    """An object is none: it would be bound as the list of its names."""
    for values in ([{"a": 1}], {"x": {"a": 1}}, [[{"a": 1}]]):
        answer = reading_site.ask("POST", "query", {}, {"sql": "SELECT ?", "values": values})
        assert (answer.status, answer.json["field"]) == (422, "values")


@pytest.mark.parametrize(
    ("method", "noun", "fields"),
    [
        ("POST", "entry/revert", {"version": 1}),
    ],
)
def test_every_change_of_an_entry_needs_its_version(
    site: Site, method: str, noun: str, fields: dict[str, Any]
) -> None:
    """An undo of a page too: nothing is lost that another has written since."""
    query, tag = entry_of(site)
    changed = site.ask("PATCH", "entry", query, {"importance": 9}, If_Match=tag)

    assert site.ask(method, noun, query, fields).status == 428
    assert site.ask(method, noun, query, fields, If_Match=tag).status == 412
    assert site.ask(method, noun, query, fields, If_Match=changed.headers["etag"]).status == 200


def test_of_writers_at_once_one_wins(site: Site) -> None:
    """Each has read the same version."""
    query, tag = entry_of(site)
    statuses: list[int] = []

    def change(importance: int) -> None:
        answer = site.ask("PATCH", "entry", query, {"importance": importance}, If_Match=tag)
        statuses.append(answer.status)

    threads = [threading.Thread(target=change, args=(one,)) for one in (1, 2, 3, 4, 6, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert sorted(statuses) == [200, 412, 412, 412, 412, 412]


def test_a_request_with_a_key_is_done_once(site: Site) -> None:
    """The first answer comes again; with another body the key is refused."""
    said = {"role": "user", "text": "Once."}
    first = site.ask("POST", "message", TRIP, said, Idempotency_Key="k1")
    second = site.ask("POST", "message", TRIP, said, Idempotency_Key="k1")

    assert first.body == second.body
    assert second.headers["idempotency-replayed"] == "true"
    texts = [one.text for one in site.app.db.scope("ann").session("trip").messages()]
    assert texts.count("Once.") == 1
    other = site.ask("POST", "message", TRIP, {**said, "text": "Two."}, Idempotency_Key="k1")
    assert other.status == 422
    assert site.ask("POST", "message", TRIP, said, Idempotency_Key="k" * 201).status == 422
    failed = site.ask("POST", "message", TRIP, {"role": "x"}, Idempotency_Key="k2")
    assert failed.status == 422
    assert site.ask("POST", "message", TRIP, said, Idempotency_Key="k2").status == 200


def test_requests_with_one_key_at_once(site: Site) -> None:
    """All get the answer of the one that is done."""
    bodies: list[bytes] = []

    def say() -> None:
        said = {"role": "user", "text": "At once."}
        bodies.append(site.ask("POST", "message", TRIP, said, Idempotency_Key="k").body)

    threads = [threading.Thread(target=say) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len({*bodies}) == 1
    assert json.loads(bodies[0])["text"] == "At once."


@pytest.mark.parametrize("noun", ["messages", "entries", "sessions", "artifacts", "items"])
def test_a_list_as_a_file(reading_site: Site, noun: str) -> None:
    """JSON lines hold what the list holds; CSV and Markdown say that they are complete."""
    query: dict[str, Any] = TRIP if noun == "messages" else ANN
    rows = reading_site.ask("GET", noun, query).json["items"]
    lines = reading_site.ask("GET", noun, {**query, "format": "jsonl"})
    table = reading_site.ask("GET", noun, {**query, "format": "csv"})
    text = reading_site.ask("GET", noun, {**query, "format": "md"})

    *found, end = map(json.loads, lines.body.splitlines())
    assert found == rows
    assert end == {"kind": "end", "complete": True, "lines": len(rows)}
    head, *cells, last = csv.reader(io.StringIO(table.body.decode()))
    assert head == list(rows[0])
    assert len(cells) == len(rows)
    assert last == [f"# complete: {len(rows)}"]
    assert text.body.decode().rstrip().endswith(f"<!-- complete: {len(rows)} -->")
    assert f'filename="{noun}.md"' in text.headers["content-disposition"]


def test_a_file_of_a_list_has_every_row(site: Site) -> None:
    """More than a page of them, from a place on too; a formula is no formula."""
    many = site.app.db.scope("ann").session("many")
    many.extend([{"role": "user", "text": f"=1+{n}\n<b>#"} for n in range(1201)])
    query = {**ANN, "session": "many"}

    table = site.ask("GET", "messages", {**query, "format": "csv"}).body.decode()
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [row["text"] for row in rows[:-1]] == [f"'=1+{n}\n<b>#" for n in range(1201)]
    cursor = site.ask("GET", "messages", {**query, "limit": 500}).json["next"]
    rest = site.ask("GET", "messages", {**query, "after": cursor, "format": "jsonl"}).body
    assert len(rest.splitlines()) == 702
    text = site.ask("GET", "messages", {**query, "format": "md"}).body.decode()
    assert "<b>" not in text.replace("\\<b\\>", "")


def test_no_cell_of_a_file_of_a_list_is_a_formula(site: Site) -> None:
    """In full width and behind blanks too, as in an export."""
    texts = [f"{before}{sign}1" for sign in FORMULA for before in ("", *BEFORE_FORMULA)]
    site.app.db.scope("ann").session("signs").extend([{"role": "user", "text": t} for t in texts])
    query = {**ANN, "session": "signs", "format": "csv"}

    table = site.ask("GET", "messages", query).body.decode()
    rows = [*csv.DictReader(io.StringIO(table, newline=""))][:-1]
    assert [row["text"] for row in rows] == [f"'{text}" for text in texts]


def test_an_export_ends_when_the_client_goes(site: Site) -> None:
    """The place of its stream is free again; others wait for none."""
    many = site.app.db.scope("ann").session("many")
    many.extend([{"role": "user", "text": "word " * 2000} for _ in range(1000)])
    for _ in range(8):
        connection = site.begin("GET", "/api/v1/export?user=ann")
        assert connection.recv(1000)
        connection.close()
    for _ in range(400):
        answer = site.ask("GET", "export", {**ANN, "embeddings": "false"})
        if answer.status == 200:
            break
        assert answer.headers["retry-after"] == "1"
    *lines, end = answer.body.splitlines()
    assert json.loads(end)["lines"] == len(lines) > 1000


def test_an_import_takes_what_was_exported(reading_site: Site, tmp_path: Path) -> None:
    """The last line is passed over."""
    place = tmp_path / "export.jsonl"
    place.write_bytes(reading_site.ask("GET", "export", ANN).body)
    with memdb.open(tmp_path / "copy.db") as db:
        report = db.import_file(place)

    assert report.messages_added == 14
    assert report.left_out == ()
    place.write_text('{"kind":"memdb","export":1}\n{"kind":"end","complete":false}\n')
    with memdb.open(tmp_path / "copy.db") as db, pytest.raises(memdb.InvalidInput, match="cut"):
        db.import_file(place)


def test_what_was_previewed_is_what_goes(site: Site) -> None:
    """A row that came since makes the digest another: 409, and nothing is removed."""
    chosen = {"query": "Oslo"}
    trip = site.app.db.scope("ann").session("trip")
    page = site.ask("POST", "forget/preview", ANN, chosen).json
    assert page["rows"]
    trip.append("user", "Oslo again.")
    refused = site.ask("POST", "forget", ANN, {**chosen, "expected": page["digest"]})
    assert refused.status == 409
    assert trip.get(1).text == "We fly to Oslo on 3 May."

    page = site.ask("POST", "forget/preview", ANN, chosen).json
    done = site.ask("POST", "forget", ANN, {**chosen, "expected": page["digest"]})
    assert done.status == 200
    assert done.json["removed"]["messages"] == sum(one["kind"] == "message" for one in page["rows"])


def test_a_plain_page(site: Site) -> None:
    """A session as text, to read, find and print, without a script; typed or followed."""
    hostile = "<script>alert(1)</script>\u202e\u200b\x00 end".replace("\x00", "\x01")
    site.app.db.scope("ann").session("trip").append("user", hostile)
    cookie = {"Cookie": site.sign_in()}
    for origin in ("same-origin", "none"):
        headers = {**cookie, "Sec-Fetch-Site": origin}
        answer = site.send("GET", f"{site.base}read?user=ann&session=trip", None, headers)
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        text = answer.body.decode()
        assert text.startswith("Oslo\n")
        assert "We fly to Oslo on 3 May." in text
        assert "</script>\u25a1\u25a1\u25a1 end" in text
    missing = site.send("GET", f"{site.base}read?user=ann&session=none", None, headers)
    assert missing.status == 404
    assert site.send("GET", f"{site.base}read?user=ann&session=trip").status == 401


def test_a_file_that_was_replaced(site: Site, tmp_path: Path) -> None:
    """Said with what to do, by reads and by writes."""
    path = tmp_path / "trip.db"
    with memdb.open(tmp_path / "other.db") as db:
        db.scope("bob").remember("Bob skis.")
    path.rename(tmp_path / "kept.db")
    (tmp_path / "other.db").rename(path)
    said = {"role": "user", "text": "hi"}
    answer = site.ask("POST", "message", TRIP, said)

    assert answer.status == 410
    assert "start the server again" in answer.json["todo"]


def test_reads_do_not_wait_for_a_writer(tmp_path: Path, filled: Any) -> None:
    """While another process writes, every read answers; a write is told to come again."""
    path = filled.put(tmp_path / "trip.db")
    said = {"role": "user", "text": "hi"}
    with opened(path, busy_timeout_s=0.1) as db, served(db) as site, memdb.open(path) as other:
        before = site.ask("GET", "entries", ANN).json["items"]
        with other.transaction():
            other.scope("ann").remember("Ann skis.")
            refused = site.ask("POST", "message", TRIP, said)
            assert refused.status == 503
            assert refused.headers["retry-after"] == "1"
            assert refused.json["code"] == "busy"
            assert site.ask("GET", "entries", ANN).json["items"] == before
            assert site.ask("GET", "recall", {**ANN, "query": "Oslo"}).json["hits"]
        assert site.ask("POST", "message", TRIP, said).status == 200


def test_a_head_is_a_get_without_its_body(reading_site: Site) -> None:
    """Also of what is streamed."""
    for noun, query in (("scopes", {}), ("export", ANN), ("message", {**TRIP, "seq": 1})):
        answer = reading_site.ask("HEAD", noun, query)
        assert answer.status == 200
        assert answer.body == b""
    assert reading_site.ask("HEAD", "nothing").status == 404


def test_errors_have_advice() -> None:
    """Each row is a status of HTTP, and a sentence."""
    for status, todo in CODES.values():
        assert 400 <= status < 600
        assert todo.endswith(".")


def test_looking_changes_nothing(
    make_site: Callable[..., Site], dump: Callable[[str], list[Any]], databases: Any
) -> None:
    """Every read of the table leaves each row of the file as it was."""
    from test_verbs import VERBS, call, changes_of

    no_backup = 200 if databases is None else 501

    site = make_site()
    db = site.app.db
    before = dump(db.path)
    for verb in VERBS:
        if not verb.writes:
            expected = no_backup if verb.noun == "backup" else 200
            assert call(site, verb, **changes_of(verb, db)).status == expected

    assert dump(db.path) == before
