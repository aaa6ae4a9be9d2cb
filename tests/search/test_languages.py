"""
Recall in other languages: a small set of our own for each.

By words alone every exact word is found, also glued to another script. The vector arm of the
built-in table is English: it takes part where no word was found, and says so where it cannot help.
"""

from collections.abc import Iterator

import pytest
from cases import each

import memdb
from memdb import MemDB

SAID = {
    "chinese": ["我们周五飞往奥斯陆。", "她对花生过敏。", "会议改到三点了", "手机iPhone15坏了"],
    "japanese": [
        "来週の金曜日に東京へ行きます",
        "ピーナッツのアレルギーがあります",
        "PythonでAPIを書く",
    ],
    "korean": ["우리는 금요일에 오슬로로 갑니다", "그녀는 땅콩 알레르기가 있다", "서울에서 만나요"],
    "accents": ["Crème brûlée à Orléans", "Il a oublié son résumé", "Łódź is nice", "Çiçek aldım"],
    "german": [
        "Die Straße ist gesperrt.",
        "Der Flug für Jürgen geht am Freitag.",
        "Grüße aus Köln",
    ],
    "arabic": [
        "نسافر إلى أوسلو يوم الجمعة",
        "لديها حساسية من الفول السوداني",
        "الكتاب على الطاولة",
    ],
    "hebrew": ["אנחנו טסים לאוסלו ביום שישי", "היא אלרגית לבוטנים", "אמרתי שָׁלוֹם"],
    "russian": ["Мы летим в Осло в пятницу", "У неё аллергия на арахис", "Ёлка стоит в углу"],
    "greek": ["Πετάμε στο Όσλο την Παρασκευή", "Έχει αλλεργία στα φιστίκια", "Καλημέρα"],
    "hindi": ["हम शुक्रवार को ओस्लो जा रहे हैं", "उसे मूंगफली से एलर्जी है", "किताब मेज़ पर है"],
    "thai": ["เราจะบินไปออสโลวันศุกร์", "เธอแพ้ถั่วลิสง", "หนังสืออยู่บนโต๊ะ"],
    "emoji": [
        "party 🎉 tonight",
        "no 🥜 for me",
        "👩‍👩‍👧 at home",
        "we fly to 🇳🇴",
        "👍🏽 done",
        "❤️ it",
    ],
    "mixed": ["東京trip2024の計画", "Приветworld", "caféбар", "日本語English한국어", "σχέδιοplanβ"],
}

# Language, query, place of the one message that holds its word.
EXACT = [
    ("chinese", "花生", 2),
    ("chinese", "奥斯陆", 1),
    ("chinese", "iPhone15", 4),
    ("japanese", "東京", 1),
    ("japanese", "アレルギー", 2),
    ("japanese", "python", 3),
    ("japanese", "api", 3),
    ("korean", "오슬로", 1),
    ("korean", "땅콩", 2),
    ("accents", "creme brulee", 1),
    ("accents", "ORLÉANS", 1),
    ("accents", "resume", 2),
    ("accents", "Lodz", 3),
    ("accents", "cicek", 4),
    ("german", "Strasse", 1),
    ("german", "STRASSE", 1),
    ("german", "fuer Juergen", 2),
    ("german", "Gruesse", 3),
    ("arabic", "أوسلو", 1),
    ("arabic", "اوسلو", 1),
    ("arabic", "كتاب", 3),
    ("arabic", "الكِتَابُ", 3),
    ("hebrew", "אוסלו", 1),
    ("hebrew", "אלרגית", 2),
    ("hebrew", "שלום", 3),
    ("russian", "осло", 1),
    ("russian", "арахис", 2),
    ("russian", "елка", 3),
    ("greek", "Οσλο", 1),
    ("greek", "ΑΛΛΕΡΓΙΑ", 2),
    ("hindi", "ओस्लो", 1),
    ("hindi", "मूंगफली", 2),
    ("thai", "ออสโล", 1),
    ("thai", "ถั่วลิสง", 2),
    ("emoji", "🎉", 1),
    ("emoji", "who said 🥜?", 2),
    ("emoji", "👧", 3),
    ("emoji", "👩‍👩‍👧", 3),
    ("emoji", "🇳🇴", 4),
    ("emoji", "👍", 5),
    ("emoji", "👍🏿", 5),
    ("emoji", "❤", 6),
    ("mixed", "trip2024", 1),
    ("mixed", "計画", 1),
    ("mixed", "world", 2),
    ("mixed", "привет", 2),
    ("mixed", "cafe", 3),
    ("mixed", "бар", 3),
    ("mixed", "English", 4),
    ("mixed", "한국어", 4),
    ("mixed", "plan", 5),
]


@pytest.fixture(scope="module", params=[None, "static"], ids=["words", "all arms"])
def spoken(request: pytest.FixtureRequest) -> Iterator[MemDB]:
    """Return a file in which each language is a scope with some unrelated sessions."""
    with memdb.open(":memory:", counter="estimate", embedder=request.param) as db:
        for language, texts in SAID.items():
            scope = db.scope(language)
            for name, said in (("s", texts), ("other", ["nothing here", "quiet day", "…"])):
                scope.session(name).extend([{"role": "user", "text": text} for text in said])
        yield db
        assert db.file.check() == []


@each("language, query, seq", EXACT)
def test_an_exact_word_is_found_first(spoken: MemDB, language: str, query: str, seq: int) -> None:
    """By words alone, and no worse with all arms."""
    hits = spoken.scope(language).recall(query)

    assert hits
    assert (hits[0].source.session, hits[0].source.seq) == ("s", seq)


@pytest.mark.parametrize(
    ("language", "query"),
    [
        ("chinese", "花生"),
        ("japanese", "アレルギー"),
        ("korean", "땅콩"),
        ("arabic", "أوسلو"),
        ("hebrew", "אלרגית"),
        ("russian", "арахис"),
        ("greek", "αλλεργία"),
        ("hindi", "मूंगफली"),
        ("thai", "ออสโล"),
        ("emoji", "🎉"),
    ],
)
def test_the_vector_arm_declares_that_it_cannot_help(language: str, query: str) -> None:
    """Where words answer and the table does not know them."""
    with memdb.open(":memory:", counter="estimate") as db:
        scope = db.scope("ann")
        scope.session("s").extend([{"role": "user", "text": text} for text in SAID[language]])

        hits = scope.recall(query)

    assert hits.arms == ("lexical",)
    assert "static-en-1" in hits.missing["vector"]
    assert hits.failure is None


FAR = [
    "Heute scheint die Sonne und wir gehen spazieren.",
    "Ich habe gestern ein Buch gelesen.",
    "Morgen kommt meine Schwester zu Besuch.",
    "Der Zug hatte wieder Verspätung.",
    "Abends trinke ich gern Tee.",
    "Wir haben lange nichts gehört.",
    "Das Wetter bleibt leider schlecht.",
    "Die Kinder spielen im Garten.",
]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Versicherung", "Die Kreuzfahrtversicherung ist teuer."),
        ("Kreuzfahrt", "Die Kreuzfahrtversicherung ist teuer."),
        ("Bahnhof", "Wir treffen uns am Bahnhofsplatz."),
        ("Rechnung", "Meine Zahnarztrechnung ist da."),
        ("Maschine", "Die Waschmaschine ist kaputt."),
    ],
)
def test_parts_of_a_german_compound_are_found_by_their_letters(query: str, text: str) -> None:
    """Words know nothing of them; the table's word pieces do."""
    with memdb.open(":memory:", counter="estimate") as db:
        scope = db.scope("ann")
        scope.session("s").append("user", text)
        scope.session("far").extend([{"role": "user", "text": one} for one in FAR])

        hits = scope.recall(query)

    assert text in [hit.text for hit in hits[:3]]
    assert "vector" in hits.arms


def test_an_inflected_word_of_another_script_is_found_by_its_letters() -> None:
    """No word is equal, so the text's own form is searched for."""
    with memdb.open(":memory:", counter="estimate") as db:
        scope = db.scope("ann")
        scope.session("s").extend([{"role": "user", "text": text} for text in SAID["russian"]])

        hits = scope.recall("аллергию")

    assert hits[0].source.seq == 2
    assert hits.certainty == "sure"


@pytest.mark.parametrize("kind", ["entry", "artifact"])
def test_entries_and_artifacts_are_found_by_other_spellings_too(kind: str) -> None:
    """The second column is that of every index; archived messages have it as well."""
    with memdb.open(":memory:", counter="estimate", embedder=None) as db:
        scope = db.scope("ann")
        scope.remember("Ёлка 🎄 in der Straße")
        scope.artifacts.save("user:note.md", "Ёлка 🎄 in der Straße")

        found = [scope.recall(query, kinds=[kind]) for query in ("елка", "🎄", "strasse")]

    assert [len(hits) for hits in found] == [1, 1, 1]
