"""
The words that `grammar` knows: synonyms, opposites, words that say nothing. Data only.
"""

from __future__ import annotations

CONTRACTIONS = (
    ("can't", "can not"),
    ("cannot", "can not"),
    ("won't", "will not"),
    ("n't", " not"),
    ("i'm", "i am"),
    ("it's", "it is"),
    ("he's", "he is"),
    ("she's", "she is"),
    ("that's", "that is"),
    ("'re", " are"),
    ("'ve", " have"),
    ("'ll", " will"),
    ("'d", " would"),
)

SELF = frozenset("i me my mine myself we our us user user's the".split())
PRONOUNS = frozenset("he she they him her his their it its this that there".split())

FILLERS = frozenset(
    """
    really very quite pretty also too actually basically simply mostly usually generally always
    often definitely absolutely certainly truly totally especially particularly sort kind bit lot
    lots please well ok okay currently now nowadays already just still today lately recently
    anymore longer more instead again then these days moment present time since officially
    """.split()
)
FUNCTION = frozenset(
    """
    a an the this that these those some any all each every both either of in on at to from for by
    with about as into onto over under up down out off than and or but if so because while when
    where who whom whose which what how am is are was were be been being do does did doing done
    have has had having can could will would shall should may might must i me my mine we us our
    you your he him his she her hers it its they them their there here not no nor never user
    's s t get got go goes going one's something someone
    """.split()
)

_DIGITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
_DIGITS += " fifteen sixteen seventeen eighteen nineteen twenty"
NUMBERS = {word: str(number) for number, word in enumerate(_DIGITS.split())}
NUMBERS |= {"thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "ninety": "90"}
NUMBERS |= {"once": "1", "twice": "2", "dozen": "12", "noon": "12", "midnight": "0"}

# Each line: words that count as the first of it, in the form that `stem` gives.
_SAME = """
like love enjoy ador fond keen fan relish appreciat crazy
dislik hat detest loath despis
live resid dwell
work employ
favorit favourit favourite favorite fave preferred preferr
color colour
big large huge
small little tiny
start begin commenc
finish end conclud
buy bought purchas acquir
movi film
car automobil
physician doctor
flat apartment
kid child children
mother mom mum mam
father dad papa
bike bicycl cycl
phon telephon cellphon mobil
mail email e-mail
job position occupat profess
boss supervisor manager
spous husband wife partner
meet met
fail broke broken break
give gave given
lend lent borrow
take took taken
write wrote written
visit visited
meeting meetup standup stand-up
cours class workshop
talk speak spoke spoken
allergy allergic allerg
vegetarian veggi
exercis workout train
run ran runn jog
eat ate eaten consum
drink drank drunk sip
avoid shun
plan intend
trip journey travel
deploy releas ship
database db
javascript js
typescript ts
kubernetes k8s
postgres postgresql
"""
SYNONYMS = {word: line.split()[0] for line in _SAME.strip().split("\n") for word in line.split()}
SYNONYMS |= {"likes": "like", "loves": "like", "loved": "like", "liked": "like", "hates": "dislik"}
SYNONYMS |= {"dislike": "dislik", "hate": "dislik", "monthly": "month", "weekly": "week"}
SYNONYMS |= {"liking": "like", "loving": "like", "enjoying": "like", "marry": "marri"}
SYNONYMS |= {"daily": "day", "yearly": "year", "annual": "year", "annually": "year"}

# Words of which two exclude each other.
_OPPOSITES = """
married single divorc
vegetarian vegan omnivor
morn even
night morn
light dark
enabl disabl
on off
open clos
tab spac
early late
hot cold
allow forbid
tru fals
yes no
public privat
always never
remote onsit
introvert extrovert
left right
up down
accept reject
approv reject
activ inactiv
win los
"""
OPPOSITES = [frozenset(line.split()) for line in _OPPOSITES.strip().split("\n")]

CALENDAR = frozenset(
    """
    januar january februar february march april maymonth jun july june july august september october
    november december monday tuesday wednesday thursday friday saturday sunday spring summer autumn
    winter morn even night noon weekend
    """.split()
)

# Verbs of which one side does what the other says the other way round.
BOTH_WAYS = frozenset("meet lend marri fail".split())

# Of these a person has several, so naming one says nothing of another.
SEVERAL = frozenset(
    """
    hobby interest friend cousin brother sister child aunt uncle colleagu pet cat dog goal plan idea
    favorit_thing skill book task neighbor neighbour
    """.split()
)
