"""
The words that `grammar` knows: slots, synonyms, words that say nothing.

Data only. A pattern has the groups s (whom it is about), a (the attribute, where
the slot is a family of them) and v (the value). The first that fits counts.
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
meeting meetup
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
SYNONYMS |= {"daily": "day", "yearly": "year", "annual": "year", "annually": "year"}

# Words of which two exclude each other.
_OPPOSITES = """
like dislik
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

_PERSON = (
    r"(?:(?:my|our|his|her|their|the user's|[\w-]+'s) )?(?:older |younger |big |little |best |ex-)?"
    r"(?:i|he|she|they|we|you|user|the user|[a-z][\w-]+)"
)
_MOVED = r"(?:moved?|moves|moving|relocated?|relocates|relocating)"
_BE = r"(?:is|are|was|were|am|be|been|being)"
_HAVE = r"(?:(?:has|have|had|is|are|am|was|were|will be|will|would|got|going to|about to) )*"
_SET = (
    r"(?:(?:has|have|had|is|are|was|were|been|being|will be|got|gets) ?(?:been |being )?"
    r"(?:set|changed|moved|pushed|pushed back|postponed|delayed|shifted|rescheduled|bumped|raised|"
    r"lowered|increased|reduced|cut|switched|updated|renamed|upgraded|migrated|brought forward|"
    r"extended|due)(?: up| down| back| out| forward)?(?: from .+?)? (?:to|for|on|at|until|till|as)|"
    r"(?:changed|moved|shifted|slipped|went|rose|fell|dropped|grew|switched|goes)"
    r"(?: up| down| back)?(?: from .+?)? to|"
    r"(?:ends|starts|begins|runs|closes|opens|happens|falls|lands|takes place|costs|weighs|points|"
    r"listens|lives|sits)(?: up)?(?: on| at| in| to| until)?|equals|means|"
    r"is|are|was|were|remains?|became|becomes)"
)

SLOTS = (
    # Homes.
    (
        "home",
        True,
        (
            rf"^(?P<s>.*?) ?\b{_HAVE}{_MOVED}(?: (?:house|home|away|back|over|out|down|up|flat))*"
            r"(?: from .+?)? (?:to|into|in) (?!the next|a new|production|a different)(?P<v>.+?)"
            r"(?: from .+)?$"
        ),
    ),
    (
        "home",
        True,
        (
            rf"^(?P<s>.*?) ?\b{_HAVE}(?:lives?|living|lived|resides?|residing|dwells|based|settled|"
            r"settled down|staying|domiciled|located)(?: down)?(?: full-time| permanently)?"
            r"(?: out)? (?:in|at|near|outside|of) (?P<v>.+)$"
        ),
    ),
    (
        "home",
        True,
        (
            r"^(?P<s>.*?)'?s? ?\b(?:home(?: ?town| city)?|residence|place of residence|"
            r"(?:home |postal )?address|city of residence) (?:is|are|changed to|is in|is at) (?P<v>.+)$"
        ),
    ),
    ("home", True, r"^(?P<s>.*?) ?\bcalls? (?P<v>.+?) home$"),
    ("home", True, r"^(?P<v>.+?) is (?:where )?(?P<s>.*?)(?:'s)? ?\b(?:home|lives)$"),
    # Work.
    (
        "employer",
        True,
        (
            rf"^(?P<s>.*?) ?\b{_HAVE}(?:works?|working|worked|employed|job|position|hired|on the payroll|"
            r"started(?: working| work| a job| a new job)?|joined(?: the team| forces)?|signed on|"
            r"took a job|taken a job|new job) (?:for|at|by|with|of)(?: the company)? "
            r"(?!home|night|least|once|the moment|\d)(?P<v>.+?)(?: as .+)?$"
        ),
    ),
    ("employer", True, r"^(?P<s>.*?) ?\b(?:left|leaves|quit) .+? (?:for|to join) (?P<v>.+)$"),
    ("employer", True, rf"^(?P<s>.*?) ?\b{_HAVE}join(?:ed|s)? (?P<v>[\w& .-]+)$"),
    ("employer", True, r"^(?P<s>.*?)(?:'s)? ?\bemployer (?:is|changed to) (?P<v>.+)$"),
    (
        "role",
        True,
        (
            rf"^(?P<s>.*?) ?\b{_HAVE}(?:works?|working|worked|employed|promoted|made|serves|acts) "
            r"(?:as|to) (?:an? |the )?(?P<v>.+?)(?: (?:at|for|in) .+)?$"
        ),
    ),
    (
        "role",
        True,
        (
            r"^(?P<s>.*?)(?:'s)? ?\b(?:job|job title|title|role|profession|occupation) "
            r"(?:is|changed to|is now)(?: that of)? (?:an? )?(?P<v>.+)$"
        ),
    ),
    (
        "role",
        True,
        (
            rf"^(?P<s>{_PERSON}) (?:{_BE}|became|has become) (?:an? |the )?"
            r"(?P<v>(?:[\w-]+ ){0,3}(?:engineer|developer|designer|manager|teacher|nurse|doctor|lawyer|"
            r"analyst|scientist|researcher|director|consultant|accountant|architect|student|writer|"
            r"editor|chef|cook|pilot|librarian|electrician|plumber|carpenter|journalist|professor|"
            r"lecturer|administrator|programmer|founder|ceo|cto|cfo|lead|officer|technician|therapist|"
            r"physicist|chemist|biologist|translator|photographer|barista|waiter|mechanic|driver))$"
        ),
    ),
    # Persons.
    (
        "age",
        True,
        (
            rf"^(?P<s>.*?) ?\b(?:{_BE}|turned|turns|turning|aged|age is|age:|reached) "
            r"(?P<v>\d{1,3})(?: years)?(?: old| of age)?$"
        ),
    ),
    (
        "marital",
        True,
        (
            rf"^(?P<s>.*?) ?\b(?:{_BE}|got|get|became|gets) (?P<v>(?:un)?married|single|divorced|engaged|"
            r"widowed|separated)(?: to .+| with .+)?$"
        ),
    ),
    (
        "birthday",
        True,
        (
            r"^(?P<s>.*?)(?:'s)? ?\b(?:birthday is|birthday falls|birthday:|was born|born)"
            r" (?:on |in )?(?P<v>.+)$"
        ),
    ),
    (
        "attr",
        True,
        (
            r"^(?P<s>.*?) ?\b(?:goes by|is called|is named|was named|was renamed to|"
            r"(?P<a>name) is) (?P<v>.+)$"
        ),
    ),
    (
        "diet",
        True,
        (
            rf"^(?P<s>.*?) ?\b(?:{_BE}|became|went|has become|turned|eats) (?:an? )?(?P<v>vegetarian|vegan|"
            r"pescatarian|omnivore|omnivorous|carnivore|keto|flexitarian|gluten-free)$"
        ),
    ),
    # Preferences: of two things, or of a kind of thing.
    (
        "rather",
        False,
        (
            r"^(?P<s>.*?) ?\b(?:prefers?|preferred|would rather have|favou?rs|likes|picks|chooses) "
            r"(?P<v>.+?) (?:to|over|rather than|instead of|more than) .+$"
        ),
    ),
    (
        "attr",
        True,
        r"^(?P<v>.+?) (?:is|are) (?P<s>.*?) ?\b(?P<a>(?:favou?rite|preferred|go-to|default|usual) .+)$",
    ),
    (
        "attr",
        True,
        (
            rf"^(?P<s>(?:my|our|his|her|their|[\w-]+'s|the user's|the))? ?"
            rf"(?P<a>(?:favou?rite|preferred|go-to|default|usual|best) [\w -]+?) {_SET} (?P<v>.+)$"
        ),
    ),
    (
        "prefer",
        True,
        (
            r"^(?P<s>.*?) ?\b(?:prefers?|preferred|would rather (?:use|have)|wants) (?P<v>.+? )?"
            r"(?P<a>mode|themes?|format|notation|units?|style|layout|seats?|seating|mornings?|tone|"
            r"language|calls|meetings|answers|replies|responses|indentation|keyboard|font)\b.*$"
        ),
    ),
    # Things that were replaced by name.
    (
        "use",
        False,
        (
            rf"^(?P<s>.*?) ?\b{_HAVE}(?:uses?|using|used|runs on|running on|relies on|drives|driving|rides|"
            r"wears|plays|carries|subscribes to|banks with) (?P<v>.+)$"
        ),
    ),
    (
        "use",
        False,
        (
            rf"^(?P<s>.*?) ?\b{_HAVE}(?:switched|switches|switching|migrated|migrating|changed|converted|"
            r"upgraded|went over|defected)(?: over)?(?: from .+?)? to (?:using )?(?P<v>.+?)(?: from .+)?$"
        ),
    ),
    (
        "use",
        False,
        (
            r"^(?P<s>.*?) ?\b(?:replaced|swapped|traded|ditched|dropped|exchanged) .+? "
            r"(?:with|for|in favou?r of|by) (?P<v>.+)$"
        ),
    ),
    # Whatever has a name and a value.
    (
        "attr",
        True,
        rf"^(?P<s>my|our|his|her|their|[\w-]+'s|the user's) (?P<a>[\w' -]+?) {_SET} (?P<v>.+)$",
    ),
    ("attr", True, rf"^(?P<s>)(?:the|our|this) (?P<a>[\w' /-]+?) {_SET} (?P<v>.+)$"),
    (
        "attr",
        True,
        (
            rf"^(?P<s>)(?P<a>(?:[a-z][\w-]+ ){{0,3}}(?:deadline|budget|price|cost|rent|salary|"
            rf"port|version|limit|timeout|password policy|branch|release|meeting|standup|stand-up|demo|"
            rf"review|flight|appointment|weight|height|size|timezone|time zone|code ?name|number|rate|"
            rf"window|schedule|quota|score|goal|target)) {_SET} (?P<v>.+)$"
        ),
    ),
    ("attr", True, r"^(?P<s>)(?P<a>[a-z][\w -]{1,30}): (?P<v>.+)$"),
)
