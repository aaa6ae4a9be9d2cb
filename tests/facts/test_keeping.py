"""What is learnt from a message."""

from __future__ import annotations

import random
import re
from itertools import permutations

from cases import each

from memdb.facts import keeping
from memdb.facts.keeping import category_of, learn
from memdb.facts.sentences import sentences


def learnt(text: str, role: str = "user") -> list[str]:
    """Return the sentences that are kept."""
    return [one.text for one in learn(text, role=role)]


FRAMES = (
    "A reader of our paper writes:\n\n{}\n\nShorten it, please.",
    "Text: {}",
    "Translate into German: {}",
    "```\n{}\n```",
    "<letter>{}</letter>",
    'He said "{}" and left.',
    "> {}",
    "From: otto@example.org\nSubject: hello\n\nCan you answer this mail:\n\n{}",
    "Otto: {}\nMira: hi",
    "2026-03-04 10:12:44 INFO {}",
)
FACTS = (
    "My name is Otto and I work at Vetra.",
    "I live in Graz.",
    "I'm allergic to peanuts.",
    "Ich wohne in Wien.",
    "Me llamo Otto y vivo en Graz.",
)


def test_material_teaches_nothing() -> None:
    """What was pasted, quoted, logged or tagged is not the user's, in every frame."""
    taught = [
        (frame, fact)
        for frame in FRAMES
        for fact in FACTS
        if any(fact[:12] in one for one in learnt(frame.format(fact)))
    ]

    assert taught == []


CUT = (
    'I live in Graz and my favourite film is "The Grand Budapest Hotel".',
    "I'm allergic to <b>peanuts</b> and I live in Oslo.",
    "La dame devant moi à la caisse : « J'ai dix chats et pas un mari ! » J'étais pliée.",
    "Mein Bruder wohnt in Graz und sagt immer „Wer rastet, der rostet“ zu mir.",
    "私は東京に住んでいて、母は「早く帰ってきなさい」と言います。",
    "我住在上海，门口写着「请勿在此停放车辆」的牌子。",
)


def test_what_is_learnt_was_said() -> None:
    """Nothing is learnt of a sentence out of which a quotation or a tagged part was cut."""
    assert [one for text in CUT for one in learnt(text) if one not in text] == []


def test_two_fragments_are_no_fact() -> None:
    """A fragment needs a sentence before it, and another fragment is none."""
    assert learnt("A\ri") == []


@each(
    "text",
    [
        "Remember that my bike lock code is 4711.",
        "Merk dir, dass ich Max heiße.",
        "记住:我对花生过敏。",
    ],
)
def test_an_order_to_remember_is_always_kept(text: str) -> None:
    """It is kept verbatim from the user, and not from an assistant or a tool."""
    assert learnt(text) == [text]
    assert learnt(text, "tool") == []


ORDERS = """
    Forget what I said about the piano. Delete what you know about my job. Stop remembering my address.
    Vergiss das mit den Nüssen. Olvida lo de las nueces. Oublie ce que j'ai dit sur les noix.
    忘掉核桃的事。把我的地址删掉。くるみの話は忘れて。私の住所を消して。
"""


def test_an_order_to_the_memory_is_no_fact() -> None:
    """What it has to forget says nothing of the user, in any language."""
    orders = sentences(ORDERS)

    assert len(orders) == 10
    assert [order for order in orders if learnt(order)] == []


def test_a_question_is_not_kept() -> None:
    """A question never is a fact, also behind an order."""
    assert learnt("Do you remember that I live in Graz?") == []


def test_a_greeting_opens_no_story() -> None:
    """What follows a word or two is read."""
    greetings = ("Hi!", "Hello!", "Hey.", "Hallo!", "Salut !", "Yes!", "Ok.", "lol.")

    assert [learnt(f"{one} Remember that I live in Oslo.") for one in greetings] == [
        ["Remember that I live in Oslo."]
    ] * len(greetings)


OPENED = {
    "Hi, {} Hello, {} Thanks! {} By the way, {} hey, quick thing - {}": (
        "I'm allergic to peanuts.",
        "my landlord is called Brandt.",
        "I live in Oslo.",
    ),
    "Hallo, {} Danke, {} Ach übrigens, {} Nur zur Info, {}": (
        "ich bin gegen Nüsse allergisch.",
        "ich wohne in Wien.",
    ),
    "Bonjour, {} Merci, {} Au fait, {}": ("je suis allergique aux noix.", "j'habite à Nantes."),
    "Hola, {} Gracias, {} Por cierto, {}": ("soy alérgico a las nueces.", "vivo en Madrid."),
    "你好，{} 对了，{} 谢谢，{}": ("我对花生过敏。",),
    "こんにちは、{} ちなみに、{}": ("私は東京に住んでいます。",),
}


def test_a_fact_behind_an_opening() -> None:
    """A greeting, thanks or "by the way" before a fact hides none, and makes none."""
    told = [
        (opening.strip().format(fact), learnt(fact))
        for line, facts in OPENED.items()
        for opening in re.findall(r"[^{}]+{}", line)
        for fact in facts
    ]
    asked = ("do I live in Oslo?", "write a note to my landlord.", "hope you are well.")

    assert sum(bool(alone) for _, alone in told) > 0.9 * len(told)
    assert [text for text, alone in told if alone and not learnt(text)] == []
    assert [learnt(f"Hi, {one}") for one in asked] == [[], [], []]


NOUNS = {
    "en": ("river", "bottle", "wagon", "folder", "match", "sector"),
    "de": ("Fluss", "Flasche", "Wagen", "Mappe", "Spiel", "Bereich"),
    "es": ("río", "botella", "vagón", "carpeta", "partido", "sector"),
    "fr": ("rivière", "bouteille", "wagon", "dossier", "match", "secteur"),
    "ja": ("川", "瓶", "車両", "フォルダ", "試合", "区画"),
    "zh": ("河流", "瓶子", "车厢", "文件夹", "比赛", "区域"),
}
COUNTED = (
    *("{one} {n} {other} {m}", "{one} {n}", "{one} {n}: {other} {m}", "{one} {n} / {other} {m}"),
    *("{one} {other}", "{one}, {other}", "{one} {one} {one}", "{one} {n} {m} {k}", "{n} {m}."),
)


def test_nouns_and_numbers_say_nothing() -> None:
    """What counts, names or lists things without a statement teaches nothing."""
    texts = [
        form.format(one=one, other=other, n=number, m=2 * number + 5, k=9)
        for nouns in NOUNS.values()
        for number, (one, other) in enumerate(permutations(nouns, 2), 1)
        for form in COUNTED
    ]

    assert [text for text in texts if learnt(text)] == []


PLAIN = """
    I'm allergic to peanuts. I am vegetarian. My name is Ann. I live in Oslo. I work as a nurse.
    My sister is called Ida. I have two cats. I drive a Volvo. We fly to Oslo on 3 May. I hate cilantro.
    My rent is 14 500 kroner a month. I take 2 pills of ibuprofen every morning. I wear glasses.
    My dentist appointment is on Friday at 9. My phone number ends in 4471. My shoe size is 43.
    I moved to Tampere last month. My son starts school in August. I use Debian on my server.
    I'm allergic to walnuts. I'm vegan. Ich bin allergisch gegen Nüsse. Je suis végétarien. Vivo en Madrid. 我对花生过敏。 私は東京に住んでいます。
"""


def test_a_plain_fact_is_learnt() -> None:
    """Short statements of a user, in six languages."""
    facts = sentences(PLAIN)

    assert len(facts) == 26
    assert [fact for fact in facts if learnt(fact) != [fact]] == []


def test_a_fact_before_a_question() -> None:
    """A fact that is learnt alone is learnt before a question too; a condition is not."""
    facts = (
        "My brother-in-law is a vet in Truro",
        "My sister lives in Graz",
        "I drink oat milk",
        "My daughter Ines studies law in Leuven",
        "I keep bees on the allotment",
        "Meine Schwester wohnt in Husum",
    )
    others = ("If I lived in Graz", "He said that he lives in Graz", "Suppose I were a vet")

    known = [fact for fact in facts if learnt(fact)]

    assert len(known) > 1
    assert [learnt(f"{fact}, what could I bring?") for fact in known] == [[one] for one in known]
    assert [learnt(f"{other}, what could I bring?") for other in others] == [[], [], []]


NOTED = {
    "profile": """
        I'm allergic to peanuts. Ann is allergic to peanuts. The user is allergic to penicillin.
        Allergic to latex. The user lives in Oslo. She speaks Turkish.
        Der Nutzer ist allergisch gegen Nüsse. L'utilisateur habite à Lyon. Ana es alérgica al marisco.
        ユーザーはそばアレルギーです。 用户对花生过敏。
    """,
    "entities": "Ann's brother lives in Oslo. The user's dog is called Rex. 用户的狗叫旺财。",
    "preferences": "The user prefers tea to coffee. 用户喜欢喝茶。",
    "events": "Ann flies to Oslo on 3 May. The user has a dentist appointment on Friday.",
}


def test_a_category() -> None:
    """An allergy is no event, and the user of a note is who "I" is."""
    told = [(one, category) for category, text in NOTED.items() for one in sentences(text)]

    assert len(told) == 18
    assert [(one, category_of(one)) for one, wanted in told if category_of(one) != wanted] == []


# The same taste, said of oneself and noted about somebody.
TASTES = (
    ("I like {}.", "Ann likes {}.", "She likes {}.", "The user likes {}."),
    ("I love {}.", "Tom loves {}.", "He loves {}.", "The user loves {}."),
    ("I don't like {}.", "Ann doesn't like {}.", "She doesn't like {}."),
)
THINGS = "tea rice opera golf rain winter beer poetry cheese onions hiking museums horses camping"
TASTES_ELSEWHERE = (
    ("Ich mag Tee.", "Anna mag Tee."),
    ("Ich hasse Regen.", "Anna hasst Regen."),
    ("J'aime le th\u00e9.", "Anne aime le th\u00e9."),
    ("Me gusta el arroz.", "A Ana le gusta el arroz."),
    (
        "\u304a\u8336\u304c\u597d\u304d\u3067\u3059\u3002",
        "\u30a2\u30f3\u3055\u3093\u306f\u304a\u8336\u304c\u597d\u304d\u3067\u3059\u3002",
    ),
    ("\u6211\u559c\u6b22\u4e0b\u96e8\u3002", "\u5c0f\u5b89\u559c\u6b22\u4e0b\u96e8\u3002"),
)


def test_a_taste_has_one_category() -> None:
    """It is a preference, whoever notes it about whom: at least nine of ten."""
    said = [form.format(one) for forms in TASTES for form in forms for one in THINGS.split()]
    said += [one for pair in TASTES_ELSEWHERE for one in pair]

    wrong = [one for one in said if category_of(one) != "preferences"]

    assert len(wrong) <= len(said) / 10, wrong
    assert {"I like tea.", "Ann likes tea."}.isdisjoint(wrong)


def test_a_message_without_a_fact_is_read_to_its_first_paragraph() -> None:
    """What a message is for is found out only if there is something to keep."""
    empty = "Let me look at the tests.\n\n" + "\n\n".join(
        f"The function number {number} returns a list of {number} rows." for number in range(50)
    )
    for role in ("user", "assistant"):
        keeping.head_shares.cache_clear()
        assert learnt(empty, role) == []
        assert keeping.head_shares.cache_info().misses < 20


def test_the_frame_of_a_message_decides_as_if_it_was_found_first() -> None:
    """Looking at the sentences before the frame changes no answer."""
    draw = random.Random(1)
    frames = [frame.format(fact) for frame in FRAMES for fact in FACTS]
    stories = ["Write a story about Otto.", "Act as a pirate.", "Hi!", "The tests pass."]
    for _ in range(300):
        text = "\n\n".join(draw.sample([*FACTS * 9, *frames, *stories * 9], draw.randint(1, 4)))
        for role in ("user", "assistant"):
            frame = keeping._frame_of(text, role)
            assert learn(text, role=role) == keeping._worth_keeping(text, role, frame)
