r"""
Canonical spelling: one form for texts that differ only in how they are written.

Case, width, accents, hyphens, number words, amounts, units, times of day and dates are
written in one way, in English, German, Spanish, French, Chinese and Japanese; other
languages get what needs no words. Numbers become "N1200", dates "D2024-03-05", units
"Ukm": capital letters mark them, because words are in lower case. Used to compare facts.
Pure; about 50 µs for a sentence.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial

from memdb.facts.languages import LANGUAGES, Replacements, fold, replace_each, simplify

# Characters of a statement that are compared; some patterns take quadratic time.
MAX_CHARS = 600

_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"})

# Ways to write a unit, by its canonical name. Only after a number.
_UNITS = {
    "mg": "mg|milligram(?:m|mes|os)?|毫克|ミリグラム",
    "ml": "ml|millilit(?:er|re)s?|mililitros?|毫升|ミリリットル",
    "km": "km|kilomet(?:er|re)s?|kilometern|kilometros?|公里|千米|キロメートル|キロ(?!グ)",
    "kg": "kg|kilos?|kilogram(?:m|me|mes|s|o|os)?|公斤|千克|キログラム",
    "pct": r"%|percent|per\ cent|prozent|por\ ciento|pour\ ?cent|パーセント",
    "eur": "€|euros?|eur|欧元|ユーロ",
    "usd": r"\$|dollars?|dolares|usd|美元|ドル",
    "gbp": "£|pounds|gbp|英镑|ポンド",
    "jpy": "円|yen|jpy|日元",
    "cny": "元|块钱|块|yuan|rmb|cny|人民币",
    "h": "hours?|hrs?|stunden?|horas?|heures?|小时|個?時間",
    "min": "min|minutes?|mins?|minuten|minutos?|分钟",
    "gb": "gb|gigabytes?",
    "mb": "mb|megabytes?",
    "m2": r"m2|sqm|square\ met(?:er|re)s?|quadratmetern?|qm|metros\ cuadrados|metres\ carres"
    "|平米|平方米|平方メートル",
    "cm": "cm|centimet(?:er|re)s?|zentimeter|centimetros?|厘米|公分|センチ(?:メートル)?",
}
_UNIT = "|".join(f"(?P<u_{name}>{ways})" for name, ways in _UNITS.items())
_SIGNS = {"$": "usd", "€": "eur", "£": "gbp", "¥": "jpy"}

# Multipliers that stand after a number.
_SCALES = {
    **dict.fromkeys(("k", "mil", "mille", "tausend", "thousand"), 1_000),
    **dict.fromkeys(("million", "millions", "millionen", "millon", "millones", "mio"), 1_000_000),
    **dict.fromkeys(("billion", "milliarde", "milliarden"), 1_000_000_000),
    "千": 1_000,
    "万": 10_000,
    "萬": 10_000,
    "百万": 1_000_000,
    "亿": 10**8,
    "億": 10**8,
}
_SCALE = "|".join(sorted(_SCALES, key=len, reverse=True))

_MONTHS = {
    name: number
    for language in LANGUAGES.values()
    for number, name in enumerate(language.months, start=1)
}
_MONTHS |= {
    name[:3]: number for name, number in reversed(_MONTHS.items()) if name[:3] not in _MONTHS
}
_MONTHS |= {"sept": 9, "mrz": 3}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))

_DAY, _MON, _YEAR = r"(?:0?[1-9]|[12]\d|3[01])", r"(?:0?[1-9]|1[0-2])", r"(?:19|20)\d\d"
_DAYTIME = "manana|tarde|noche|matin|soir|morning|afternoon|evening|night"
_PART = rf"\ (?:de\ la|du|del?|in\ the|at)\ (?:{_DAYTIME})\b"
_ITEM = re.compile(
    rf"""(?=[\d$€£¥+(凌早上下中晚午夜百]|(?<![a-z])[jfmasondeag][aceinopublv])(?<![\d@])(?:
    (?P<y1>{_YEAR})\ ?[-/.年]\ ?(?P<m1>{_MON})\ ?[-/.月]\ ?(?P<d1>{_DAY})(?!\d)\ ?[日号號]?
  | (?P<m2>{_MON})\ ?月\ ?(?P<d2>{_DAY})\ ?[日号號]
  | (?P<d3>{_DAY})(?P<sep>[./-])(?P<m3>{_MON})(?P=sep)(?P<y3>{_YEAR})(?!\d)
  | (?:(?<=\bam\ )|(?<=\bel\ )|(?<=\ble\ )|(?<=\bdem\ )|(?<=\bden\ ))
    (?P<d4>{_DAY})(?:\.(?P<m4>{_MON})\.?|/(?P<m5>{_MON}))(?![\d:/])(?!\ ?uhr)
  | (?P<d6>{_DAY})(?:st|nd|rd|th|er|\.)?\ (?:of\ |de\ |du\ )?(?P<m6>{_MONTH})\b\.?
    (?:,?\ (?:de\ |del\ )?(?P<y6>{_YEAR})\b)?
  | \b(?P<m7>{_MONTH})\.?\ (?:the\ )?(?P<d7>{_DAY})(?:st|nd|rd|th)?\b(?![:.,]\d)
    (?:,?\ (?P<y7>{_YEAR})\b)?
  | (?P<half>凌晨|早上|上午|下午|晚上|中午|午前|午後|夜)?(?P<h1>[01]?\d|2[0-4])\ ?
    (?:(?:[:h点點時时]|\ ?uhr\ )(?P<i1>[0-5]\d)(?:分|\ ?uhr\b|\ ?h\b)?
      |(?P<clock>\ ?uhr\b|\ ?h\b|[点點](?P<i2>半)?|[時时](?!间|間|期|代)(?P<i3>半)?)
      |(?=\ ?[ap]\.?m\b)|(?={_PART}))
    (?:\ ?(?P<ap>[ap])\.?m\b\.?|(?P<part>{_PART}))?
  | (?:(?<=\bum\ )|(?<=\blas\ ))(?P<h2>[01]?\d|2[0-4])\.(?P<i4>[0-5]\d)(?:\ ?uhr\b|\ ?h\b)?
  | 百分之\ ?(?P<pct>\d+(?:\.\d+)?)
  | (?!\d{{1,3}}(?:[.,'\ ]\d{{3}})+(?!\d))(?P<phone>\+?\(?\d[\d\ ()./-]{{5,}}\d)(?!\d)(?<=\d)
  | (?P<sign>[$€£¥])?\ ?(?P<n>
      \d{{1,3}}(?:(?P<mark>[,.'\ ])\d{{3}})(?:(?P=mark)\d{{3}})*(?:[.,]\d\d?)?(?!\d)
      |\d+(?:[.,]\d+)*)
    (?:\ ?(?P<scale>{_SCALE})(?![a-z]))?
    (?:(?:st|nd|rd|th|er|eme|ere)\b|\ ?(?:de\ |d')?(?:{_UNIT})(?![a-z]))?
    )""",
    re.VERBOSE,
)
_HAS_NUMBER = re.compile(r"\d")
_NOON = 12
_PM = frozenset(
    ("p", "tarde", "noche", "soir", "afternoon", "evening", "night", "下午", "晚上", "午後", "夜")
)

_DIGITS = {letter: digit for digit, letter in enumerate("〇一二三四五六七八九")}
_DIGITS |= {"零": 0, "两": 2, "兩": 2}
_TENS = {"十": 10, "百": 100, "千": 1_000}
# Characters for numbers count only before what is counted: 一起 is no number.
_HAN_NUMBER = re.compile(
    "(?<=百分之)[〇零一二三四五六七八九十百]+|(?<=第)[一二三四五六七八九十]+"
    "|(?!百分之)[〇零一二三四五六七八九十百千两兩]+(?=[个個只隻匹头頭条條本册人名位岁歳歲月日号號年点點时時分秒元块円"
    "次回天周週间室階楼層层台辆杯瓶枚つ倍万萬亿億公米千斤]|分|キロ|か月)"
)
# Abbreviations whose point ends no sentence.
_TITLE = re.compile(r"\b(dr|mr|mrs|ms|st|prof|hr|fr|sr|sra|srta|str|nr)\.(?= )")
_MYRIADS = re.compile("(\\d+)[万萬](\\d)千")
_TOKEN = re.compile(r"[A-Z][^\s]*|[a-z\u0250-\u0fff\u1c80-\u1fff]+|[^\W_]")


def tokens_of(text: str, language: str) -> tuple[str, ...]:
    """
    Return the words of a canonical text; number words are numbers.

    Each character of a script without spaces is a word.

    >>> tokens_of("three e-mails, N12 Ukm", "en")
    ('N3', 'e', 'mails', 'N12', 'Ukm')
    """
    numbers, tens = LANGUAGES[language].numbers, LANGUAGES[language].tens
    found: list[str] = []
    ten = 0
    for word in (one.rstrip(".,;:!?)\"'") for one in _TOKEN.findall(text)):
        number = numbers.get(word) or tens.get(word)
        if number is None:
            # "thirty and five", "treinta y cinco"
            ten = ten if ten and word in ("y", "et", "and") else 0
            found.append(word)
        elif ten and number < _NOON - 2:
            while not is_value(found[-1]):
                del found[-1]
            found[-1], ten = f"N{ten + number}", 0
        else:
            found.append(f"N{number}")
            ten = number if word in tens else 0
    return tuple(found)


def key_of(tokens: tuple[str, ...]) -> str:
    """
    Return what texts that differ in spaces and hyphens have in common.

    >>> key_of(("e", "mail")) == key_of(("email",)), key_of(("N1", "N2")) == key_of(("N12",))
    (True, False)
    """
    return "".join(f" {one} " if is_value(one) else one for one in tokens)


def is_value(token: str) -> bool:
    """Return whether a token is a number, a date or a unit."""
    return token[0] in "NDU"


@lru_cache(maxsize=8_192)
def canonical(text: str, language: str, *, umlauts: bool = False) -> str:
    """
    Return the first 600 characters of *text* with its dates, times and amounts in one form.

    Args:
        umlauts: Whether "ä" is written "ae", not "a".

    >>> canonical("On March 5th at 7 PM, for $1.5k", "en").split()
    ['on', 'D03-05', 'at', 'N19,', 'for', 'N1500', 'Uusd']
    """
    text = text[:MAX_CHARS]
    text = _TITLE.sub(r"\1", fold(text.translate(_UMLAUTS) if umlauts else text))
    return _spell_out(simplify(text) if language == "zh" else text, language)


def _spell_out(text: str, language: str) -> str:
    """Return a folded text with its dates, times and amounts in canonical form."""
    if not text.isascii():
        text = _MYRIADS.sub(lambda match: str(int(match[1]) * 10_000 + int(match[2]) * 1_000), text)
        text = _HAN_NUMBER.sub(lambda match: str(_han_number(match[0])), text)
    text = replace_each(LANGUAGES[language].respell, text)
    text = replace_each(_clock_words(language), text)
    numbers = LANGUAGES[language].numbers
    text = LANGUAGES[language].measured.sub(lambda found: str(numbers[found[1]]), text)
    if not _HAS_NUMBER.search(text):
        return text
    text = _ITEM.sub(lambda match: f" {_item(match, language)} ", text).replace(" ,", ",")
    return " ".join(text.split())


@lru_cache
def _clock_words(language: str) -> Replacements:
    """Return how times that are said in words become digits."""
    return tuple(
        (pattern, partial(_clock, minutes, language))
        for pattern, minutes in LANGUAGES[language].clock
    )


def _clock(minutes: int, language: str, match: re.Match[str]) -> str:
    """Return a time that was said in words, in digits."""
    hour = match["h"]
    number = int(hour) if hour.isdigit() else LANGUAGES[language].numbers[hour]
    passed = (number * 60 + minutes) % (12 * 60 if number <= _NOON else 24 * 60)
    return f"{passed // 60 or _NOON}:{passed % 60:02}"


def _item(match: re.Match[str], language: str) -> str:
    """Return what an amount, a time or a date is in canonical form."""
    found = {name: value for name, value in match.groupdict().items() if value}
    for place in ("1", "2", "3", "4", "6", "7"):
        if day := found.get(f"d{place}"):
            month = found.get(f"m{place}") or found["m5"]
            if place == "3" and language == "en" and found["sep"] == "/" and int(day) <= _NOON:
                day, month = month, day
            year = found.get(f"y{place}")
            number = int(month) if month.isdigit() else _MONTHS[month]
            return f"D{year + '-' if year else ''}{number:02}-{int(day):02}"
    if hour := found.get("h1") or found.get("h2"):
        part = found.get("ap") or found.get("half") or found.get("part", "").rpartition(" ")[2]
        minute = (
            found.get("i1") or found.get("i4") or ("30" if "i2" in found or "i3" in found else "00")
        )
        late = int(hour) < _NOON and part in _PM
        early = hour == "12" and part == "a"
        shown = int(hour) + (12 if late else -12 if early else 0)
        return f"N{shown}" if minute == "00" else f"N{shown}:{minute}"
    if percent := found.get("pct"):
        return f"N{percent} Upct"
    if phone := found.get("phone"):
        return "N" + re.sub(r"[^\d+]", "", phone)
    unit = next(
        (name[2:] for name in found if name.startswith("u_")), _SIGNS.get(found.get("sign", ""))
    )
    amount = _amount(found["n"], found.get("scale"), language)
    return f"N{amount} U{unit}" if unit else f"N{amount}"


def _amount(written: str, scale: str | None, language: str) -> str:
    """Return a number without marks of thousands, with a decimal point."""
    last = re.search(r"[.,](\d+)$", written)
    thousands = re.fullmatch(r"\d{1,3}([,.' ])\d{3}(?:\1\d{3})*(?:[.,]\d\d?)?", written)
    if thousands and not (language == "en" and thousands[1] == "." and written.count(".") == 1):
        digits = written.replace(thousands[1], "")
    else:
        digits = written.replace(" ", "").replace("'", "")
        if last and digits.count(",") == 1 and "." not in digits:
            digits = digits.replace(",", ".")
    if scale:
        whole = (
            float(digits.replace(",", "").replace(".", "", digits.count(".") - 1)) * _SCALES[scale]
        )
        return f"{whole:.0f}" if whole == int(whole) else str(whole)
    return digits


def _han_number(written: str) -> int:
    """Return the value of a number in Chinese characters, below ten thousand."""
    if not any(letter in _TENS for letter in written):
        return int("".join(str(_DIGITS[letter]) for letter in written))
    total, digit = 0, None
    for letter in written:
        if letter in _TENS:
            total += (1 if digit is None else digit) * _TENS[letter]
            digit = None
        else:
            digit = _DIGITS[letter]
    return total + (digit or 0)
