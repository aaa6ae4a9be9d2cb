"""
What may be believed of what a person says, as patterns: the sieve of the rule extractor.

Questions, ideas, jokes, quotes, what others say, and values that say nothing
by themselves. English; see `fact_patterns.py` for what is taken.
"""

# ruff: noqa: E501 (a pattern is broken where its meaning is, not at a column)

from __future__ import annotations

import re

# A message that hands over a text to work on says nothing about who sent it.
MATERIAL = re.compile(
    r"\s*(?:(?:can|could|would|will) you |please |help me )*(?:translate|rewrite|rephrase|proofread"
    r"|paraphrase|summari[sz]e|edit|improve|fix|draft|write|pretend|imagine|act as|role-?play"
    r"|correct)\b[^\n]*[:\n\"\u201c]",
    re.IGNORECASE,
)
QUOTED_LINE = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
QUOTE = re.compile(
    r"[\"\u201c\u201d\u00ab][^\"\u201c\u201d\u00bb]*\b(?:I|I'm|my|we)\b[^\"\u201c\u201d\u00bb]*[\"\u201c\u201d\u00bb]?"
)
REPORTED = re.compile(
    r"\b(?:he|she|they|who|everyone|people|(?-i:[A-Z][a-z]+)|(?:my|the|a) \w+)"
    r"(?: (?:just|always|often|once))? (?:said|says|say|told me|tells me|asked|claims?|thinks?"
    r"|wrote|texted|thought|goes|was like)\b",
    re.IGNORECASE,
)
# What makes a clause an idea, a guess or a joke instead of a fact.
HEDGE = re.compile(
    r"\b(?:if|would(?:n't)?|could(?:n't)?|might|maybe|perhaps|probably|possibly|imagine|imagining"
    r"|suppos(?:e|ed|ing)|pretend(?:ing)?|wish(?:ed)?|hypothetical(?:ly)?|let's say|unless|consider"
    r"(?:ed|ing)?|thinking|thought about|not sure|wonder(?:ing)?|almost|nearly|as though|like I"
    r"|guess|I think|I feel like|dreamed|dreamt|used to think|I'd|hope(?:fully)?|hoping|should"
    r"|when I (?:grow|get)|in the (?:game|novel|movie|book|story)|just kidding|kidding|jk|lol"
    r"|yeah right|as if|sarcas\w*|example|e\.g\.)\b|\bI may\b|\bwe may\b|\s/s\b",
    re.IGNORECASE,
)
TAUNT = re.compile(r"^(?:oh,? )?(?:great|sure|fantastic|lovely|perfect|wonderful),", re.IGNORECASE)
ASKS = re.compile(
    r"^(?:who|what|which|when|where|why|how|do|does|did|is|are|can|could|should|would|will|have|has)"
    r"\b",
    re.IGNORECASE,
)
CORRECTION = re.compile(
    r"^(?:(?:oh|no|wait|sorry|oops|hmm)[,.!\u2026-]* +)*(?:actually|sorry|correction|i mean|i meant"
    r"|no|scratch that|wait)\b[,:;.!-]* *(?:to say )?",
    re.IGNORECASE,
)
LEAD = re.compile(
    r"^(?:(?:and|but|so|also|plus|because|since|while|oh|well|yes|yeah|yep|hi|hello|hey|ok|okay|fyi"
    r"|btw|by the way|anyways?|honestly|actually|to be honest|for the record|these days|nowadays"
    r"|right now|now|currently|personally|just so you know|in fact|as you know|luckily|sadly"
    r"|unfortunately|fortunately|finally|recently|lately|guess what|good news|big news|i should"
    r" mention|you should know|please remember|remember|note|please note|don't forget|keep in mind"
    r"|i (?:wanted|want) to (?:tell|let) you(?: know)?|i must say|i have to say|let me tell you"
    r"|turns out|thanks)(?: that\b)?[,:;!.\u2026-]* +)+",
    re.IGNORECASE,
)
SPLIT = re.compile(
    r"(?:[,;:]|\s[-\u2013\u2014]+|\s?\u2014)?\s+(?:(?:and|but|so|because|since|while|plus|although"
    r"|though)\s+)?(?=(?:I|I'm|I've|I'll|my|we|we're|we've)\b)",
    re.IGNORECASE,
)
CLAUSE_START = re.compile(
    r"(?:[,;:]|\s[-\u2013\u2014]+|\u2014|\b(?:and|but|so|because|plus))\s*$", re.IGNORECASE
)
REVISES = re.compile(
    r"^(?:it's|it is|that's|make that|i meant|not \w+, (?:but )?|rather)\s+(?P<v>[\w' -]{2,40}?)"
    r"(?:,? (?:and )?not (?P<old>[\w' -]{2,40}))?[.!]*$",
    re.IGNORECASE,
)
AHEAD = re.compile(
    r"\b(?:will|i'll|we'll|going to|planning|plan|tomorrow|flying|moving|travell?ing|upcoming|visiting"
    r"|starting|leaving|getting|scheduled|next|fly|leave|depart|meeting|heading|deadline|due|have an?"
    r"|running|attending|hosting)\b",
    re.IGNORECASE,
)
BEHIND = re.compile(
    r"\b(?:\w{2,}ed|went|got|had|was|were|bought|sold|met|ran|took|saw|came|made|won|lost|left|quit"
    r"|did|began|broke|wrote|built|ate|flew|drove|found|last|ago|yesterday)\b",
    re.IGNORECASE,
)
FIRST_PART = re.compile(
    r"\s*(?:$|[,;:!?(]|\.(?!\w)|\s[-\u2013\u2014]+\s"
    r"| (?:and|but|so|because|which|where|who) (?:it|it's|I|my|we|they|that|was|were|he|she|is)\b)",
    re.IGNORECASE,
)
# A value that points elsewhere says nothing by itself.
POINTS = re.compile(
    r"^(?:it|this|that|these|those|them|him|her|you|your\w*|how|what|when|where|why|who|every(?:thing|one)"
    r"|something|someone|some|one|so|too|here|there|being|both|all|us|to (?:hear|see|say|tell|admit|think)"
    r"|hearing|seeing you|having you|the (?:way|idea|thought|fact|sound|look|one|same|feeling|colou?rs?)"
    r"|such|any(?:thing)?|nothing|more|another|much|my way|part|and|or|of|not|a (?:lot|bit|few|couple|ton)"
    r"|lots|stuff|things?|sure|out|up|off|no|talking|chatting|catching|their|his|its|like|as|enough)\b",
    re.IGNORECASE,
)
OTHERS = re.compile(
    r"\b(?:you|your|yours|yourself|I|I'm|I've|I'd|he|she|they|it|this|that|those|these|them|here"
    r"|there|him)\b",
    re.IGNORECASE,
)
# Said of every day and every game: nothing to remember.
EMPTY = re.compile(
    r"^(?:to|(?:an?|my|the|our)(?: \w+)? (?:project|thing|idea|blast|break|chance|moment)"
    r"|an? (?:[\w-]+ )*(?:time|day|week|weekend|experience|feeling|one|start|game|chat|talk|look)"
    r"(?: out| off)?)$",
    re.IGNORECASE,
)
HANGS = re.compile(r"\b(?:to|of|in|at|for|with|an?|the|and|on|from|about|into|by)$", re.IGNORECASE)
# Cut off in the middle of a row of adjectives or nouns.
CUT_OFF = re.compile(r"(?:^|\b(?:an?|the|my|their|some|such|\w+ing)) ?[\w-]+$", re.IGNORECASE)
ROW = re.compile(
    r"\s*, (?!and I|but|so|which|who|it|they|he|she|we|I|the|'?cause|because|especially|though|with"
    r"|like|thanks|as|when|while|not|my|or)\w+"
    r"|\s+and (?!(?:I|it|it's|my|we|they|he|she|that|this|have|has|had|was|is|are|am|also|now|then"
    r"|so|want|would|will|can|got|just)\b)\w+",
    re.IGNORECASE,
)
MORE = re.compile(
    r"(?:,? (?:[\w'-]+(?: [\w'-]+)?),)*,? and (?!(?:i|i'm|my|we|it|its|it's|the|that|this|he|she|they|you|is"
    r"|are|am|was|were|have|has|had|do|don't|did|will|would|can|love|like|hate|want|need|think|go|get"
    r"|now|then|also|so|just|even|if|not|there|how|what|feel|feels|can't|really|always|usually|see"
    r"|hope|try|make|take|got|went|started|ended|met|saw|took|made|her|his|their|our|your)\b)"
    r"[\w'-]+(?: (?:with|of|for|from|in|about) [\w'-]+(?: [\w'-]+)?| (?!and\b)[\w'-]+)?"
    r"(?=\s*(?:$|[,.;!?)]|\s[-\u2013\u2014]|(?: (?:on|in|since) [\w ]*\d{4})))",
    re.IGNORECASE,
)
# "The freedom" of what? "The Beatles" need no more words.
THE = re.compile(r"the [a-z]")
