"""
What three people say in a year, made by a seed: facts, changes, repeats, paraphrases.

The phrasings were written before the rules that have to understand them were
tuned, and every family has some in `HELD_OUT` that were never looked at while
tuning: `bench/year.py` reports both groups apart.
"""

from __future__ import annotations

import random
from typing import NamedTuple

DAY_MS = 86_400_000


class Told(NamedTuple):
    """
    One statement of the year.

    Attributes:
        fact: What it is about: equal for all statements of one fact.
        value: What it says of that.
        kind: "new", "repeat", "paraphrase" or "change".
        held_out: Whether the phrasing, or that of what it repeats or changes,
            was kept out of tuning.
        changed: Whether the fact had another value before.
    """

    day: int
    user: str
    fact: str
    value: str
    text: str
    key: str | None
    kind: str
    held_out: bool
    changed: bool = False


CITIES = (
    "Oslo Bergen Lyon Porto Turin Graz Ghent Leeds Krakow Malmo Cork Vilnius Tartu Basel".split()
)
FIRMS = "Acme|Globex|Initech|Umbrella Health|Northwind|Contoso|Stark Solar|Wayne Freight".split("|")
ROLES = "data engineer|nurse|product manager|teacher|backend developer|architect|chef".split("|")
COLOURS = "blue green red yellow purple orange teal".split()
DRINKS = "green tea|black coffee|oat milk latte|mint tea|sparkling water|cocoa".split("|")
EDITORS = "Vim|Emacs|VS Code|Sublime Text|PyCharm|Helix|Zed".split("|")
BANDS = "Radiohead|The Knife|Sigur Ros|Portishead|Kraftwerk|Beirut|Daft Punk".split("|")
DAYS = "Monday Tuesday Wednesday Thursday Friday".split()
MONTHS = "January February March April May June July August September October".split()
CARS = "Toyota Yaris|Skoda Octavia|Volvo V60|Renault Zoe|Fiat Panda|Tesla Model 3".split("|")
PHONES = "Pixel 8|iPhone 15|Galaxy S24|Fairphone 5|Xperia 1".split("|")
SPORTS = "climbing|rowing|tennis|yoga|fencing|badminton|bouldering".split("|")
BANKS = "Revolut|DNB|Monzo|N26|Nordea|Swedbank".split("|")
TIMES = ["9:00", "10:30", "13:15", "8:45", "15:00", "11:00"]
LANGUAGES = "Python Rust Go Kotlin Elixir TypeScript Haskell".split()
CLOUDS = "AWS|Hetzner|Azure|Fly.io|OVH|DigitalOcean".split("|")

# Attributes that hold one value at a time: the key a careful host would give, the
# values, and ways to say it: for the first time, again, and when it changed.
SINGLE: dict[str, tuple[list[str], list[str], list[str]]] = {
    "home_city": (
        CITIES,
        [
            "I live in {v}.",
            "My home is in {v}.",
            "I'm based in {v}.",
            "I've been living in {v} for a while.",
            "My apartment is in {v}.",
            "{v} is where I live.",
        ],
        [
            "I moved to {v}.",
            "I no longer live in {old}, I'm in {v} now.",
            "I've relocated from {old} to {v}.",
            "We packed everything and settled in {v}.",
            "I live in {v} these days.",
            "My new address is in {v}.",
        ],
    ),
    "employer": (
        FIRMS,
        [
            "I work at {v}.",
            "I'm employed by {v}.",
            "My employer is {v}.",
            "I work for {v}.",
            "I have a job at {v}.",
            "{v} pays my salary.",
        ],
        [
            "I left {old} and joined {v}.",
            "I started a new job at {v}.",
            "I work at {v} now.",
            "I quit {old}; {v} hired me.",
            "As of this month I'm with {v}.",
            "My new employer is {v}.",
        ],
    ),
    "role": (
        ROLES,
        [
            "I work as a {v}.",
            "I'm a {v}.",
            "My job title is {v}.",
            "By profession I am a {v}.",
        ],
        [
            "I'm now a {v}.",
            "I was promoted to {v}.",
            "I've switched careers and work as a {v}.",
            "My role changed to {v}.",
        ],
    ),
    "favourite_colour": (
        COLOURS,
        [
            "My favourite colour is {v}.",
            "{v} is my favorite color.",
            "The colour I like best is {v}.",
            "My preferred colour is {v}.",
        ],
        [
            "My favourite colour is {v} now.",
            "My favorite color changed from {old} to {v}.",
            "I've gone off {old}; {v} is my favourite colour.",
            "These days my favourite colour is {v}.",
        ],
    ),
    "favourite_band": (
        BANDS,
        [
            "My favourite band is {v}.",
            "{v} is my favourite band.",
            "No band beats {v} for me.",
            "The band I love most is {v}.",
        ],
        [
            "My favourite band is now {v}.",
            "{v} has replaced {old} as my favourite band.",
            "My favourite band used to be {old}, now it's {v}.",
            "My favorite band these days is {v}.",
        ],
    ),
    "editor": (
        EDITORS,
        [
            "My editor is {v}.",
            "I write all my code in {v}.",
            "I use {v} as my editor.",
            "{v} is the editor I use.",
        ],
        [
            "I switched from {old} to {v}.",
            "My editor is {v} now.",
            "I dropped {old} in favour of {v} as my editor.",
            "I use {v} as my editor now.",
        ],
    ),
    "car": (
        CARS,
        ["I drive a {v}.", "My car is a {v}.", "The car I own is a {v}.", "I've got a {v}."],
        [
            "I sold the {old} and bought a {v}.",
            "My car is a {v} now.",
            "I traded my {old} for a {v}.",
            "I drive a {v} now.",
        ],
    ),
    "phone": (
        PHONES,
        ["My phone is a {v}.", "I use a {v} as my phone.", "I carry a {v}.", "I own a {v} phone."],
        [
            "I replaced my {old} with a {v}.",
            "My phone is a {v} now.",
            "My new phone is a {v}.",
            "I switched phones from the {old} to the {v}.",
        ],
    ),
    "bank": (
        BANKS,
        [
            "I bank with {v}.",
            "My bank is {v}.",
            "My account is at {v}.",
            "My main account is with {v}.",
        ],
        [
            "I moved my account from {old} to {v}.",
            "My bank is now {v}.",
            "I closed my {old} account and opened one at {v}.",
            "I bank with {v} now.",
        ],
    ),
    "standup_time": (
        TIMES,
        [
            "The daily standup is at {v}.",
            "Our standup starts at {v}.",
            "Standup: {v}.",
            "We have our daily standup at {v}.",
        ],
        [
            "The daily standup was moved to {v}.",
            "Standup is at {v} from now on.",
            "The standup now starts at {v} instead of {old}.",
            "We shifted the daily standup from {old} to {v}.",
        ],
    ),
    "deadline": (
        [f"{day} {month}" for day in (3, 12, 27) for month in MONTHS[:5]],
        [
            "The deadline of the project is {v}.",
            "The project is due on {v}.",
            "We have to deliver the project by {v}.",
            "The project deadline is {v}.",
        ],
        [
            "The project deadline was postponed to {v}.",
            "The deadline of the project is now {v}.",
            "The project deadline slipped from {old} to {v}.",
            "The project is now due on {v}.",
        ],
    ),
    "day_off": (
        DAYS,
        [
            "My day off is {v}.",
            "I don't work on {v}s.",
            "{v} is my day off.",
            "I always take {v} off.",
        ],
        [
            "My day off is {v} now.",
            "My day off changed from {old} to {v}.",
            "I take {v} off now instead of {old}.",
            "I swapped my day off from {old} to {v}.",
        ],
    ),
    "running_distance": (
        ["5", "8", "10", "12", "15", "21"],
        [
            "I run {v} km every morning.",
            "Every morning I run {v} km.",
            "My morning run is {v} km.",
            "I jog {v} km each morning.",
        ],
        [
            "I run {v} km every morning now.",
            "My morning run is now {v} km instead of {old}.",
            "I went from {old} to {v} km on my morning run.",
            "Now I run {v} km every morning.",
        ],
    ),
    "age": (
        [str(age) for age in range(28, 60)],
        ["I am {v} years old.", "I'm {v}.", "My age is {v}.", "I'm {v} years of age."],
        [
            "I turned {v}.",
            "I'm {v} now.",
            "I just had my birthday, I'm {v} years old.",
            "I am {v} years old now.",
        ],
    ),
    "relationship": (
        ["single", "engaged", "married", "divorced"],
        ["I am {v}.", "I'm {v}.", "My relationship status is {v}.", "My marital status: {v}."],
        [
            "I got {v}.",
            "I'm {v} now.",
            "I'm not {old} any more, I'm {v}.",
            "My relationship status changed to {v}.",
        ],
    ),
    "cloud": (
        CLOUDS,
        [
            "Our servers run on {v}.",
            "We host everything on {v}.",
            "Our hosting provider is {v}.",
            "The servers are hosted at {v}.",
        ],
        [
            "We migrated our servers from {old} to {v}.",
            "Our servers run on {v} now.",
            "Our hosting provider changed to {v}.",
            "We left {old}; the servers are hosted at {v} now.",
        ],
    ),
    "main_language": (
        LANGUAGES,
        [
            "The backend is written in {v}.",
            "Our backend language is {v}.",
            "We write the backend in {v}.",
            "The language of the backend is {v}.",
        ],
        [
            "We rewrote the backend in {v}.",
            "Our backend language is {v} now.",
            "The backend was ported from {old} to {v}.",
            "The backend is written in {v} now, not in {old}.",
        ],
    ),
}

FOODS = "sushi|olives|blue cheese|mushrooms|tofu|lamb|oysters|beetroot|rhubarb|anchovies".split("|")
HOBBIES = "pottery|chess|birdwatching|gardening|origami|sailing|archery|knitting|stargazing".split(
    "|"
)

# What can turn into its opposite.
FLIPS: dict[str, tuple[list[str], list[str], list[str]]] = {
    "likes": (
        [*FOODS, *BANDS, *DRINKS],
        [
            "I like {v}.",
            "I love {v}.",
            "I really enjoy {v}.",
            "I'm fond of {v}.",
            "{v} is something I enjoy.",
        ],
        [
            "I don't like {v} any more.",
            "I no longer like {v}.",
            "I can't stand {v} any more.",
            "I've stopped liking {v}.",
            "I hate {v} now.",
        ],
    ),
    "does": (
        [*HOBBIES, *SPORTS],
        [
            "I do {v} in my free time.",
            "My hobby is {v}.",
            "I'm into {v}.",
            "I spend my weekends on {v}.",
        ],
        ["I gave up {v}.", "I quit {v}.", "I don't do {v} any more.", "I stopped doing {v}."],
    ),
    "eats": (
        ["meat", "fish", "gluten", "dairy", "eggs", "nuts", "sugar", "pork"],
        ["I eat {v}.", "{v} is part of my diet.", "I have no problem eating {v}."],
        [
            "I no longer eat {v}.",
            "I stopped eating {v}.",
            "I don't eat {v} any more.",
            "I've cut out {v}.",
        ],
    ),
}

NAMES = "Nina Omar Petra Quentin Rosa Sami Tilde Uri Vera Walt Xenia Yann Zoe Amir Bela Carla Dina Emil".split()
PLACES = "Rome Athens Riga Seville Dublin Naples Zagreb Tbilisi Lisbon Hamburg Antwerp Bilbao Trieste".split()
THINGS = "printer|router|bike|laptop|boiler|dishwasher|camera|drone|piano|telescope|sofa".split("|")
BOOKS = (
    "Dune|Emma|Ulysses|Middlemarch|Solaris|Neuromancer|Persuasion|Beloved|Kindred|Hyperion".split(
        "|"
    )
)
TASKS = "billing export|login page|nightly backup|search index|invoice parser|PDF renderer".split(
    "|"
)
CAUSES = (
    "a full disk|an expired certificate|a race condition|a wrong time zone|a missing index".split(
        "|"
    )
)

# Facts that each stand by themselves: no two of them contradict, however alike they sound.
SINGLES: dict[str, tuple[list[str], list[list[str]]]] = {
    "met": (
        ["I met {0} in {1}.", "{0} and I met in {1}.", "It was in {1} that I met {0}."],
        [NAMES, PLACES],
    ),
    "sister": (
        ["{0} is a cousin of mine who lives in {1}.", "My cousin {0} lives in {1}."],
        [NAMES, CITIES],
    ),
    "read": (["I read {0} in {1}.", "In {1} I read {0}."], [BOOKS, MONTHS]),
    "visited": (
        ["I visited {0} in {1}.", "In {1} I went to see {0}."],
        [PLACES, [f"{m} 2023" for m in MONTHS]],
    ),
    "bought": (["I bought a {0} in {1}.", "I got myself a {0} in {1}."], [THINGS, MONTHS]),
    "gift": (["{0} gave me a {1}.", "I was given a {1} by {0}."], [NAMES, THINGS]),
    "fixed": (["The {0} failed because of {1}.", "{1} broke the {0}."], [TASKS, CAUSES]),
    "friend_work": (
        ["My friend {0} works at {1}.", "{0}, a friend of mine, is employed by {1}."],
        [NAMES, FIRMS],
    ),
    "allergic": (["{0} is allergic to {1}.", "{0} has an allergy to {1}."], [NAMES, FOODS]),
    "lent": (["I lent my {1} to {0}.", "{0} borrowed my {1}."], [NAMES, THINGS]),
    "course": (
        ["I took a course on {0} in {1}.", "In {1} I attended a {0} class."],
        [HOBBIES, MONTHS],
    ),
    "recommended": (["{0} recommended {1} to me.", "I should read {1}, {0} said."], [NAMES, BOOKS]),
}

# Families whose second part follows from the first, or they would contradict themselves.
STEADY = ("sister", "friend_work")

USERS = ("ann", "bob", "eve")


def _held_out(index: int, count: int) -> bool:
    """Say whether a phrasing is kept out of tuning: the last third of each family."""
    return index >= count - max(1, count // 3)


class Year:
    """Makes the statements of a year from a seed; `truth` holds what is current at the end."""

    def __init__(self, seed: int = 7, statements: int = 5_000, days: int = 365) -> None:
        """Prepare for so many statements of all users together."""
        self._random = random.Random(seed)
        self._days = days
        self._wanted = statements
        self._chosen: dict[tuple[str, str], str] = {}
        self._said: dict[tuple[str, str], list[str]] = {}
        self._hidden: dict[tuple[str, str], bool] = {}
        self.changes: set[tuple[str, str]] = set()
        self.keyed: set[tuple[str, str]] = set()

    def statements(self) -> list[Told]:
        """Return all statements, by day."""
        told: list[Told] = []
        per_day = self._wanted / self._days
        due = 0.0
        for day in range(self._days):
            due += per_day
            while due >= 1:
                due -= 1
                told.append(self._next(day, self._random.choice(USERS)))
        return told

    def _next(self, day: int, user: str) -> Told:
        draw = self._random.random()
        known = [one for one in self._chosen if one[0] == user]
        if known and draw < 0.35:
            return self._again(day, user, self._random.choice(known))
        if draw < 0.55:
            return self._single(day, user)
        if draw < 0.68:
            return self._flip(day, user)
        return self._standalone(day, user)

    def _again(self, day: int, user: str, known: tuple[str, str]) -> Told:
        """Repeat a fact in the same words, in other words, or with small differences."""
        value, said = self._chosen[known], self._said[known]
        if self._random.random() < 0.5:
            text = self._slightly(self._random.choice(said))
            kind, hidden = "repeat", self._hidden[known]
        else:
            text, hidden = self._phrase(known, value)
            kind, hidden = "paraphrase", hidden or self._hidden[known]
        self._said[known].append(text)
        self._hidden[known] = hidden
        key = known[1] if known in self.keyed else None
        return Told(day, user, known[1], value, text, key, kind, hidden, known in self.changes)

    def _slightly(self, text: str) -> str:
        """Return *text* as somebody types it again."""
        changed = [
            text,
            text.lower(),
            text.rstrip("."),
            f"By the way, {text[0].lower() + text[1:]}"
            if not text.startswith("I")
            else f"By the way, {text}",
            text.replace(".", "!"),
            f"  {text} ",
        ]
        return self._random.choice(changed)

    def _phrase(self, known: tuple[str, str], value: str) -> tuple[str, bool]:
        """Return a way to say what is known already, and whether it was held out."""
        name = known[1].split(":")[0]
        if name in SINGLE:
            forms = SINGLE[name][1]
            return self._pick(forms, v=value)
        if name in FLIPS:
            positive = value == "yes"
            forms = FLIPS[name][1] if positive else FLIPS[name][2]
            return self._pick(forms, v=known[1].split(":", 1)[1])
        forms = SINGLES[name][0]
        parts = known[1].split(":", 1)[1].split("|")
        index = self._random.randrange(len(forms))
        return _capital(forms[index].format(*parts)), _held_out(index, len(forms))

    def _pick(self, forms: list[str], **values: str) -> tuple[str, bool]:
        index = self._random.randrange(len(forms))
        return _capital(forms[index].format(**values)), _held_out(index, len(forms))

    def _single(self, day: int, user: str) -> Told:
        """State an attribute, or that it changed; half of them have a key."""
        name = self._random.choice(list(SINGLE))
        known = (user, name)
        values, firsts, changes = SINGLE[name]
        old = self._chosen.get(known)
        if old is None:
            value = self._random.choice(values)
            text, hidden = self._pick(firsts, v=value)
            if self._random.random() < 0.5:
                self.keyed.add(known)
            kind = "new"
        else:
            value = self._random.choice([one for one in values if one != old])
            text, hidden = self._pick(changes, v=value, old=old)
            kind = "change"
            self.changes.add(known)
            self._said[known] = []
            hidden = hidden or self._hidden[known]
        self._chosen[known] = value
        self._said.setdefault(known, []).append(text)
        self._hidden[known] = hidden
        key = name if known in self.keyed else None
        return Told(day, user, name, value, text, key, kind, hidden, known in self.changes)

    def _flip(self, day: int, user: str) -> Told:
        name = self._random.choice(list(FLIPS))
        values, firsts, changes = FLIPS[name]
        thing = self._random.choice(values)
        known = (user, f"{name}:{thing}")
        old = self._chosen.get(known)
        value = "no" if old == "yes" else "yes"
        text, hidden = self._pick(firsts if value == "yes" else changes, v=thing)
        kind = "new" if old is None else "change"
        if old is not None:
            self.changes.add(known)
            self._said[known] = []
            hidden = hidden or self._hidden[known]
        self._chosen[known] = value
        self._said.setdefault(known, []).append(text)
        self._hidden[known] = hidden
        return Told(day, user, known[1], value, text, None, kind, hidden, known in self.changes)

    def _standalone(self, day: int, user: str) -> Told:
        name = self._random.choice(list(SINGLES))
        forms, choices = SINGLES[name]
        parts = [self._random.choice(some) for some in choices]
        if name in STEADY:  # one home and one employer per person
            draw = random.Random(f"{user} {name} {parts[0]}")
            parts[1] = draw.choice(choices[1])
        known = (user, f"{name}:{'|'.join(parts)}")
        kind = "new" if known not in self._chosen else "paraphrase"
        index = self._random.randrange(len(forms))
        text = _capital(forms[index].format(*parts))
        hidden = _held_out(index, len(forms)) or self._hidden.get(known, False)
        self._chosen[known] = "yes"
        self._said.setdefault(known, []).append(text)
        self._hidden[known] = hidden
        return Told(day, user, known[1], "yes", text, None, kind, hidden)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
