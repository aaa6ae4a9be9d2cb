"""Extracts of generated chats: whole sentences, none twice, and the facts among small talk."""

from random import Random

import memdb
from memdb.facts.sentences import sentences

OPENERS = ("", "Well, ", "I think ", "In the end ", "By the way, ", "Yesterday ")
CLOSERS = (".", "!", ", and that is that.", ", don't you think?", ", which is a pity.")
TALK = (
    "the weather was better than expected",
    "the coffee machine makes a strange noise again",
    "my neighbour plays the trumpet at night",
    "the train was late as usual",
    "we could have lunch in the park",
    "the new film is rather long",
    "my bicycle needs oil",
    "the cat sleeps on the keyboard",
    "nobody reads these reports",
    "the lift is slow",
    "it is hard to find a good baker",
    "the children want to swim",
    "my back hurts a little",
    "the tea is getting cold",
    "the meeting could have been a letter",
    "I lost my umbrella once more",
    "the printer on the second floor is out of paper and nobody has time to fill it",
    "I have not looked at the garden yet because the nights were so cold this spring",
)
FORMS = (
    "We decided that {name} buys the {thing} for {number} euros by {day} May.",
    "{name} moved to {city} on {day} March.",
    "The {thing} of {name} costs {number} euros.",
    "{name} prefers {city} to {other}.",
)
CITIES = ("Oslo", "Kyoto", "Lisbon", "Turin", "Ghent", "Bergen")
NAMES = ("Zoe", "Ben", "Priya", "Dora", "Emil", "Okafor")
THINGS = ("lamps", "printer", "lease", "kitchen", "alarm", "balcony", "ticket", "violin")
MESSAGES = 200


def chat_of(random: Random, count: int, phrases: int) -> tuple[list[str], list[str]]:
    """Return *count* facts, each said once, and messages that say *phrases* again and again."""
    facts: dict[int, str] = {}
    for place in random.sample(range(MESSAGES // 4), count):
        facts[4 * place] = random.choice(FORMS).format(
            name=random.choice(NAMES),
            thing=random.choice(THINGS),
            city=random.choice(CITIES),
            other=random.choice(CITIES),
            day=random.randrange(1, 31),
            number=random.randrange(10, 10_000),
        )
    talk = random.sample(TALK, phrases)
    texts = []
    for place in range(MESSAGES):
        said = random.choice(OPENERS) + random.choice(talk) + random.choice(CLOSERS)
        said = said[0].upper() + said[1:]
        texts.append(f"{said} {facts[place]}" if place in facts else said)
    return [*facts.values()], texts


def said_in(text: str) -> list[str]:
    """Return the sentences of a text of lines `who: ...`."""
    return [one for line in text.splitlines() for one in sentences(line.partition(": ")[2])]


def test_a_text_of_extracts_has_the_facts_and_nothing_twice() -> None:
    """At least 90 % of them, where they take 60 % of the tokens; every sentence is whole."""
    count = kept = 0
    for seed in range(8):
        random = Random(seed)
        facts, texts = chat_of(random, random.randrange(12, 25), random.randrange(4, len(TALK)))
        with memdb.open(":memory:") as db:
            chat = db.user("ann").session("long")
            roles = ("user", "assistant")
            chat.extend({"role": roles[n % 2], "text": text} for n, text in enumerate(texts))
            chat.summaries.compact()
            tree = chat.summaries.tree()
            budget = int(sum(db.file.count_tokens(facts)) / 0.6)
            made = {limit: tree.text(limit) for limit in (budget, 4 * budget, 400, 100_000)}
            assert all(db.file.count_tokens([text])[0] <= limit for limit, text in made.items())
        here = sum(fact in made[budget] for fact in facts)
        assert here >= 0.75 * len(facts)
        count += len(facts)
        kept += here
        originals = [one.lower() for text in texts for one in sentences(text)]
        for text in (*made.values(), *(one.text for one in tree.summaries)):
            said = said_in(text)
            assert len({one.strip(".!?").lower() for one in said}) == len(said)
            assert all(any(one.endswith(own.lower()) for one in originals) for own in said)
    assert kept >= 0.9 * count
