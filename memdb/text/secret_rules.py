"""
Formats of credentials: one rule per format, with what distinguishes it from prose.

A rule is only applied if one of its hints occurs in the lower-case text. So an ordinary text costs
a few substring searches. `LOOSE_PATTERNS` are only for redaction: they also match words that merely
look like a key. Every repetition is limited or cannot fail once it has begun, so no text makes a
rule slower than linear.

Source: docs/seeds/koopa.md (classes and gaps), formats as the services document
them. The patterns are our own.
"""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64decode
from typing import TYPE_CHECKING

from memdb.models.record import Record
from memdb.text.resources import compiled

if TYPE_CHECKING:
    from collections.abc import Callable

    Check = Callable[[re.Match[str]], bool]

# What stands in the place of a secret begins so; it is never found again.
PLACEHOLDER = "[REDACTED"

_START = r"(?<![A-Za-z0-9])"
_QUOTES = "\"'`"

# What people write where a secret belongs.
_DUMMY = frozenset("xX*.-_0#?…•")
_DUMMY_WORDS = """
    changeme example optional password placeholder redacted required undefined yourpassword
""".split()


# An example says in its value what it is: "test_password1", "your-token".
_OF_EXAMPLES = r"[a-z_-]*(?:password|your[_-])[a-z_-]*[0-9]{0,3}"

# What manuals write there.
_OF_MANUALS = ("pass", "passwd", "password", "pw", "pwd", "secret", "user", "token")

MIN_IBAN, MAX_IBAN = 15, 34
MAX_PIN_CODE = 5  # longer ones after "PIN code" are those of the Indian post
SEED_WORDS = (12, 15, 18, 21, 24)
MIN_SEED_WORDS = 6  # different ones
MAX_CONTEXT = 40  # characters before a number that say what it is
_TELEPHONE = r"(?i)\b(?:phone|call|tel|mobile|cell|fax|dial|text|ring)\w*\b"


class Rule(Record):
    """
    A format of secrets.

    Attributes:
        kind: Its name in findings.
        hints: Lower-case texts; every match contains one, or begins as *sign* says.
        reach: Most characters of a match before its hint.
        sign: A case-sensitive pattern that matches where a match begins, unless that is at the
            start of the text. A rule without hints and sign is for texts that contain a run of
            base64.
        pattern: The secret is its group `v`, or without that group the whole match.
        check: Returns whether a match really is a secret.
        exact: Whether the case of letters matters.
    """

    kind: str
    hints: tuple[str, ...]
    pattern: str
    check: Check | None = None
    exact: bool = False
    reach: int = 0
    sign: str = ""


def is_dummy(value: str) -> bool:
    """Return whether *value* is a placeholder for a secret: `xxxx`, `<key>`, `$KEY`, `changeme`."""
    if set(value) <= _DUMMY or value.startswith((PLACEHOLDER, "<", "${", "{{", "$(", "%(", "***")):
        return True
    bare = value.strip("_-*.[](){}<>$%")
    return (
        bare.lower() in _DUMMY_WORDS
        or (value[:1] in ("$", "{") and bare.replace(".", "").isidentifier())
        or compiled(_OF_EXAMPLES).fullmatch(value) is not None
    )


def is_mixed(value: str) -> bool:
    """Return whether *value* looks random: with digits, or capitals inside."""
    return any(one.isdigit() for one in value) or (
        value != value.lower() and value != value.upper()
    )


def is_path(value: str) -> bool:
    """Return whether *value* is a path of words."""
    return re.fullmatch(r"(?:~|\.{0,2})(?:/[a-z][a-z_.-]*[0-9]{0,2})+/?", value) is not None


def is_strong(value: str) -> bool:
    """Return whether *value* can only be random: long, with a digit, a letter and another sign."""
    return (
        len(value) >= _MIN_PASSWORD
        and re.search("[0-9]", value) is not None
        and re.search("[a-z]", value) is not None
        and re.search("[A-Z#$%^&*!?@]", value) is not None
    )


def _no_dummy(match: re.Match[str]) -> bool:
    return not is_dummy(match[0][4:])


def _drawn(match: re.Match[str]) -> bool:
    value = match[0]
    return not is_dummy(value[4:]) and ("-" not in value[3:] or is_mixed(value[3:]))


def _has_digit(match: re.Match[str]) -> bool:
    return match[0].startswith("AKIA") or any(one.isdigit() for one in match[0])


def _is_bearer(match: re.Match[str]) -> bool:
    return is_mixed(match["v"]) and len(set(match["v"])) > 5  # noqa: PLR2004 (a drawn token)


def _is_jwt(match: re.Match[str]) -> bool:
    """Return whether the first part is a JOSE header: a JSON object that names something."""
    head = match[0].partition(".")[0]
    try:
        decoded = urlsafe_b64decode(head[: len(head) // 4 * 4])
    except ValueError:
        return False
    return decoded.lstrip().startswith(b'{"') and b'":' in decoded


def decoded_text(run: str) -> str | None:
    """Return the printable text in a run of base64, None if it contains none."""
    bare = run.rstrip("=")
    if len(bare) % 4 == 1:
        return None
    altchars = b"-_" if "-" in bare or "_" in bare else None
    try:
        text = b64decode(bare + "=" * (-len(bare) % 4), altchars=altchars).decode("ascii")
    except ValueError:
        return None
    return text if all(one.isprintable() or one in "\t\n\r" for one in text) else None


def is_drawn_word(value: str, digits: int, letters: int) -> bool:
    """Return whether *value* has this many digits, small letters and capitals at least."""
    return (
        sum(map(str.isdigit, value)) >= digits
        and sum(map(str.islower, value)) >= letters
        and sum(map(str.isupper, value)) >= letters
    )


def _is_signed(match: re.Match[str]) -> bool:
    """Return whether a readable first part is followed by a random signature."""
    first, _, rest = match[0].partition(".")
    return decoded_text(first) is not None and is_drawn_word(rest.rpartition(".")[2], 1, 3)


def _is_basic(match: re.Match[str]) -> bool:
    """Return whether the value decodes to a name and a password."""
    _, colon, password = (decoded_text(match["v"]) or "").partition(":")
    return bool(colon and password) and not is_dummy(password) and password not in _OF_MANUALS


def _is_option(match: re.Match[str]) -> bool:
    """Return whether an option of a command has a password, and not a number, path or template."""
    given = match["v"] or match["w"] or match["x"] or match["bare"]
    value = given.strip(_QUOTES)
    if (
        is_dummy(value)
        or value.lower() in _OF_MANUALS
        or re.fullmatch(r"[\d:.]{1,5}|[./].*", value)
    ):
        return False
    if match["x"] is None:
        return match["bare"] is None or is_mixed(value)
    # After a space a word of a sentence may stand: "sshpass -p to give it".
    return given != value or is_mixed(value) or len(value) >= _MIN_PASSWORD


def _is_iban(match: re.Match[str]) -> bool:
    """Return whether the check digits of an IBAN are right, mod 97 as ISO 13616 has it."""
    bare = re.sub("[ .-]", "", match[0]).upper()
    turned = "".join(str(int(one, 36)) for one in bare[4:] + bare[:4])
    known = MIN_IBAN <= len(bare) <= MAX_IBAN and int(turned) % 97 == 1
    # Small letters only in groups, and not in words: a hash has them too.
    return known and (match[0].isupper() or (match["gap"] != "" and _has_digits(bare)))


def _has_digits(value: str) -> bool:
    """Return whether a third of *value* is digits, which prose never has."""
    return 3 * sum(map(str.isdigit, value)) >= len(value)


def _is_pin(match: re.Match[str]) -> bool:
    """Return whether digits are random: not one digit repeated, and not a postal code."""
    value = match["v"]
    return len(set(value)) > 1 and not (len(value) > MAX_PIN_CODE and match["code"])


# Words that no list of drawn words holds: prose has one among any twelve.
_PROSE = frozenset(
    "the and are was were for with not but has had his her its our their they this from which "
    "who what when where how been have your into than then these those will would should could "
    "did does as is it in on of to by be an at or if no so we us my me".split()
)


def _is_phrase(match: re.Match[str]) -> bool:
    """Return whether words are a seed phrase: the right number of them, and no prose."""
    words = match["v"].split()
    return (
        len(words) in SEED_WORDS
        and _PROSE.isdisjoint(words)
        and len({*words}) >= MIN_SEED_WORDS
        and words != sorted(words)  # a list of words, not a draw from it
    )


def _is_number_of_person(match: re.Match[str]) -> bool:
    """Return whether digits are named as such, or nothing marks them as a telephone number."""
    before = match.string[max(0, match.start() - MAX_CONTEXT) : match.start()]
    return match["named"] is not None or compiled(_TELEPHONE).search(before) is None


def _is_grouped(value: str) -> bool:
    """Return whether groups of a key are random: many characters, a third of them digits."""
    bare = re.sub("[ :-]", "", value)
    return len(bare) >= _MIN_GROUPED and _has_digits(bare) and len(set(bare)) >= _MIN_DRAWN


def _is_card(match: re.Match[str]) -> bool:
    """Return whether the digits pass Luhn's check, and their number fits the issuer."""
    size = sum(map(str.isdigit, match[0]))
    if size not in ((15,) if match[0][0] == "3" else (16, 19) if match[0][0] == "4" else (16,)):
        return False  # an article number (EAN) has 13 digits, and passes one time in ten
    digits = [int(one) for one in reversed(match[0]) if one.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0 and len(set(digits)) > 1


def _is_url(match: re.Match[str]) -> bool:
    """Refuse templates anywhere, and words of manuals outside a database address."""
    value = match["v"]
    if is_dummy(value) and value.lower() not in _DUMMY_WORDS:
        return False
    database = re.match(r"(?i)postgres|mysql|mariadb|mongodb|redis|amqp|mssql", match[0])
    return database is not None or value.lower() not in _OF_MANUALS


def _is_code(value: str) -> bool:
    """Return whether an unquoted value is an expression: a call, an attribute, a subscript."""
    names = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+[),;:]*|[A-Za-z]+(?:_[A-Za-z]*)+[),;:]*|_\w*"
    is_name = re.fullmatch(names, value) is not None and not is_strong(value)
    return is_name or re.match(r"[A-Za-z_][\w.]*[(\[]", value) is not None


def _is_named(match: re.Match[str]) -> bool:
    value = match["v"]
    if value is None:
        return _is_grouped(match["w"])
    if is_dummy(value) or is_path(value) or (match["q"] is None and _is_code(value)):
        return False
    return is_mixed(value) and len(set(value)) >= (6 if match["strong"] else 10)


_MIN_PASSWORD = 8
_MIN_GROUPED = 16
_MIN_DRAWN = 6
_MIN_SPOKEN = 4


_SENTENCE_END = r"[.!]?[\"')\]]*\s*(?:$|\n|[.!](?:\s|$))"
_PREDICATES = frozenset(
    "wrong invalid weak strong secure safe short long reset empty same unknown new gone there here "
    "this that these those mine yours hers theirs none nothing something anything everything easy "
    "hard simple private public fine okay good better best right different stale lost kept sent "
    "back next also too already again below above inside outside elsewhere".split()
)
# The endings of words that say how something is, in English.
_HOW = tuple(
    "ed ing able ible ect ent ant ory ary ally ous ful less ic al ten den ged ne ive ate".split()
)


def _is_predicate(word: str) -> bool:
    """Return whether *word* describes a password, and so is not one."""
    lower = word.lower()
    return (
        len(word) < _MIN_DRAWN
        or not word.isascii()
        or lower in _PREDICATES
        or lower.endswith(_HOW)
        or not word.strip("-").replace("-", "").isalnum()
    )


def _is_drawn(value: str) -> bool:
    return re.search(r"[0-9@#$%^&*!?]", value) is not None


def _is_spoken(match: re.Match[str], value: str) -> bool:
    """
    Return whether the words "the password is" are followed by the password.

    "The password is hunter2" has it, "the password is wrong" has not.
    """
    word = value.rstrip(".!?")
    if _is_drawn(word) and len(value) >= _MIN_SPOKEN:
        return True
    ends = compiled(_SENTENCE_END).match(match.string, match.start("bare") + len(word))
    return bool(match["my"] and ends) and not _is_predicate(word)


def _is_password(match: re.Match[str]) -> bool:
    quoted = match["quoted"] is not None
    value = match["quoted"][1:-1] if quoted else match["bare"]
    if is_dummy(value) or is_path(value) or len(set(value)) < 3:  # noqa: PLR2004 (********, aaaa)
        return False
    if match["bar"] or match["short"]:  # "the password Base64 ..." and "pass: all" say more
        many = sum(map(str.isdigit, value)) >= _MIN_SPOKEN
        return is_strong(value) or (match["bar"] is not None and many)
    if quoted:
        return _is_quoted(match, value, drawn=_is_drawn(value))
    if match["is"]:
        return _is_spoken(match, value)
    if _is_code(value) or match["name"].lower() == value.lower():
        return False
    return _is_drawn(value) or (len(value) >= _MIN_PASSWORD and value.isascii())


def _is_quoted(match: re.Match[str], value: str, *, drawn: bool) -> bool:
    """Return whether a text in quotes is a password rather than words about one."""
    if match["my"] and match["is"] and not _is_predicate(value):
        return True
    if drawn and len(value) >= _MIN_DRAWN:
        return True
    return len(value) >= _MIN_PASSWORD and (" " not in value or value.islower())


_CHARS = r"[A-Za-z0-9_\-./+=~]"
_IS = r"(?:is|are|ist|lautet|est|es|é|は|是|为)"
_SIGN = r"(?:[=-]>|:=|==?|[:\uff1a])"
_ASSIGNS = rf"(?:(?:{_IS}[ ]?)?{_SIGN}|{_IS}(?=[ \t]))"
_NAMED = (
    r"(?:(?P<strong>api[-_ ]?(?:key|secret|token)|(?:access|auth|refresh)[-_ ]?token"
    r"|(?:secret|private|account|signing|encryption|recovery)[-_ ]?(?:access[-_ ]?)?key"
    r"|(?:backup|recovery)[-_ ]?codes?"
    r"|(?:client|app|webhook|shared)[-_ ]?secret)|token|secret)"
)
_NAMES_OF_PASSWORDS = (
    r"(?:passwords?|passwd|pass[ -]?phrase|pass[ -]?code|pwd|passwort|kennwort|contraseña|senha"
    r"|mot de passe|[Пп]ароль|密码|密碼|口令|パスワード|비밀번호)"
)

_SERVICES = """
    glpat- hvs. hvb. ntn_
    npm_ tvly- vercel_ hf_ pypi- gsk_ pplx- xai- nvapi- dop_v1_ shpat_ shpss_ lin_api_ dckr_pat_
    age-secret-key- glrt- dapi r8_ phc_ phx_ sntrys_ atatt3 key- figd_ sbp_ pat_
"""
_PASSWORD_HINTS = (
    *"pass pw pwd kennwort contraseña senha пароль 密码 密碼 口令".split(),
    *"パスワード 비밀번호".split(),
)

RULES = (
    Rule("anthropic_key", ("sk-ant-",), _START + r"sk-ant-[A-Za-z0-9_-]{20,}", _no_dummy),
    Rule("openai_key", ("sk-",), _START + r"sk-(?!ant-)[A-Za-z0-9_-]{20,}", _drawn),
    Rule("google_api_key", ("aiza",), _START + r"AIza[A-Za-z0-9_-]{30,}", None, exact=True),
    Rule(
        "github_token",
        ("ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_"),
        _START + r"(?:gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})",
        _no_dummy,
    ),
    Rule(
        "aws_access_key",
        ("akia", "asia", "abia", "acca"),
        _START + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
        _has_digit,
        exact=True,
    ),
    Rule(
        "slack_token",
        ("xox", "xapp-", "hooks.slack.com"),
        _START + r"(?:xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{20,}"
        r"|hooks\.slack\.com/services/[A-Za-z0-9/_-]{20,})",
        _no_dummy,
    ),
    Rule(
        "google_oauth",
        ("ya29.", "gocspx-"),
        _START + r"(?:ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,})",
    ),
    Rule(
        "jwt",
        ("eyj",),
        _START + r"eyJ[A-Za-z0-9_-]{17,}\.eyJ[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?",
        _is_jwt,
    ),
    Rule(
        "stripe_key",
        ("k_live_", "k_test_", "whsec_"),
        _START + r"(?:[rs]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{20,})",
        _no_dummy,
        reach=1,
    ),
    Rule(
        "twilio_key",
        ("ac", "sk"),
        _START + r"(?:AC|SK)[0-9a-f]{32}(?![A-Za-z0-9])",
        lambda match: len(set(match[0][2:])) > 5,  # noqa: PLR2004 (drawn)
    ),
    Rule(
        "signed_token",  # as Discord, Django and Flask make them
        (),  # tried where a run of base64 stands
        r"(?<![A-Za-z0-9_.-])[A-Za-z0-9_-]{18,}+\.[A-Za-z0-9_-]{5,64}+\.[A-Za-z0-9_-]{20,}",
        _is_signed,
    ),
    Rule(
        "connection_string",
        ("://",),
        r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{1,30}+://[^\s:/@\"'<>]{0,128}+:"
        r"(?P<v>(?:[^\s@/\"'<>]|/(?!/)|@(?=[^\s@/\"'<>]{1,128}@)){1,256}+)@(?=[^\s])",
        _is_url,
        reach=31,
    ),
    Rule(
        "private_key",
        ("private key",),
        r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:[^-]|-(?!-----?))*+-----END [A-Z0-9 ]{1,60}-----"
        r"|(?:(?:\s|\\[rn]|[\"'+,]){0,16}[A-Za-z0-9+/=]{16,})*+)",
        None,
        exact=True,
        reach=95,
    ),
    Rule(
        "sendgrid_key",
        ("sg.",),
        _START + r"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,}",
        _no_dummy,
        exact=True,
    ),
    Rule(
        "azure_key",
        ("accountkey=", "accesskey=", "8q~", "sig="),
        r"(?:AccountKey|SharedAccessKey|AccessKey)=(?P<v>[A-Za-z0-9+/]{40,}={0,2})"
        r"|" + _START + r"[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{31,}"
        r"|[?&]sig=(?P<w>[A-Za-z0-9%+/=]{40,})",
        reach=6,
    ),
    Rule(
        "service_key",
        tuple(_SERVICES.split()),
        _START + r"(?:(?:glpat|glrt|pypi|pplx|tvly|xai|nvapi|AGE-SECRET-KEY)-[A-Za-z0-9_-]{20,}"
        r"|(?:npm|vercel_blob_rw|hf|gsk|dop_v1|shpat|shpss|lin_api|dckr_pat|r8|phc|phx|sntrys|figd|sbp)"
        r"_[A-Za-z0-9_=-]{20,}|ntn_[A-Za-z0-9]{30,}|hv[sb]\.[A-Za-z0-9_-]{20,}|dapi[0-9a-f]{32}|ATATT3[A-Za-z0-9_=-]{40,}|key-[0-9a-f]{32})",
        lambda match: not is_dummy(match[0][4:]) and is_mixed(match[0][4:]),
    ),
    Rule(
        "telegram_token",
        (":aa",),
        r"(?<![0-9A-Za-z])[0-9]{8,10}:AA[A-Za-z0-9_-]{32,34}(?![A-Za-z0-9_-])",
        None,
        exact=True,
        reach=10,
    ),
    Rule(
        "bearer_token",
        ("bearer",),
        r"(?<![A-Za-z])bearer[\"']?[ \t:]{1,8}[\"']?(?P<v>" + _CHARS + r"{20,})",
        _is_bearer,
    ),
    Rule(
        "basic_auth",
        ("basic",),
        r"(?<![A-Za-z])basic[\"']?[ \t:]{1,8}[\"']?(?P<v>[A-Za-z0-9+/_-]{8,512}={0,2})",
        _is_basic,
    ),
    Rule(
        "command_line",
        tuple(
            "curl wget sshpass mysql mariadb mongo login 7z redis-cli --pass --token "
            "--secret --api".split()
        ),
        r"(?<![\w-])(?:(?:curl|wget)\b[^\n|;]{0,200}?[ \t](?:-u|-a|--user)[ =]?"
        r"[\"']?[^\s:\"'/=]{1,64}:(?P<v>[^\s\"'@/]{2,128})"
        r"|(?:sshpass|mysql\w{0,16}|mariadb[\w-]{0,16}|mongo\w{0,8}|docker[ ]login|7z)\b"
        r"[^\n|;]{0,200}?[ \t](?:-[pP]|--pass\w{0,8}=)(?P<w>[^\s-][^\s]{1,127})"
        r"|(?:sshpass|mongo\w{0,8}|docker[ ]login|redis-cli)\b"  # mysql asks after a space
        r"[^\n|;]{0,200}?[ \t](?:-[pa]|--pass\w{0,8})[ ](?P<x>[^\s-][^\s]{1,127})"
        r"|--(?:pass\w{0,8}|token|secret|api-?key)[ =](?P<bare>[^\s\"'-][^\s\"']{5,127}))",
        _is_option,
        reach=7,
    ),
    Rule(
        "wifi_password",
        ("wifi:",),
        r"wifi:(?:[a-oq-z]:[^;\n]{0,64};){0,4}p:(?P<v>[^;\n]{4,128});",
        lambda match: not is_dummy(match["v"]),
    ),
    Rule(
        "pin",
        ("pin", " code"),
        r"(?<![A-Za-z0-9])(?:pin(?P<code> ?code)?|(?:door|gate|alarm|safe|lock|garage|access) code)"
        r"(?: (?:number|for|of|to|on)(?: [\w'-]{1,20}){0,4})?"
        r"[ \t]{0,3}(?:[#\uff1a]|" + _ASSIGNS + r"|(?=[ ][0-9]+(?:[ ](?:for|of|to|on)[ ]|[.!]?$)))"
        r"[ \t]{0,3}(?P<v>[0-9]{4,6})(?![0-9A-Za-z_]|[.,:-][0-9])",
        _is_pin,
        reach=6,
    ),
    Rule(
        "seed_phrase",
        ("seed", "phrase", "mnemonic", "words"),
        r"(?:\A|\n|(?:[Ss]eed|[Pp]hrase|[Mm]nemonic|[Ww]ords)[^\n:=]{0,20}(?:[:=]|[ ]is|[ ]are)"
        r"|[\"'`])[ \t]{0,4}"
        r"(?P<v>(?:[a-z]{3,8} ){11,23}[a-z]{3,8})[ \t.]{0,4}(?=(?m:$)|[\"'`])",
        _is_phrase,
        exact=True,
        sign=r"[\n\"'`][ \t]{0,4}[a-z]{3,8} [a-z]{3,8} [a-z]{3,8} [a-z]{3,8} ",
    ),
    Rule(
        "bank_account",
        (),
        r"(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?P<gap>[ .-]?)[A-Z0-9]{4}(?:(?P=gap)[A-Z0-9]{4}){1,6}"
        r"(?:(?P=gap)[A-Z0-9]{1,3})?(?![A-Za-z0-9])",
        _is_iban,
        reach=2,
        sign=r"[0-9](?<=[A-Za-z]{2}.)(?<![A-Za-z0-9][A-Za-z]{2}.)[0-9]",
    ),
    Rule(
        "social_security",
        ("ssn", "social security"),
        r"(?<![A-Za-z0-9-])(?:(?P<named>(?:ssn|social security(?: number| no\.?)?)[ \t]{0,3}"
        r"(?:" + _ASSIGNS + r")?[ \t]{0,3})(?P<v>[0-9]{3}[ -]?[0-9]{2}[ -]?[0-9]{4})"
        r"|(?P<w>(?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}))(?![A-Za-z0-9-])",
        _is_number_of_person,
        sign="[0-9](?<![A-Za-z0-9-].)[0-9]{2}-[0-9]{2}-[0-9]",
    ),
    Rule(
        "named_secret",
        ("key", "token", "secret", "code"),
        _NAMED
        + r"[\"'\])]{0,2}[ \t]{0,3}(?:"
        + _ASSIGNS
        + r"[ \t]{0,3}"
        + r"(?P<q>[rbf]?["
        + _QUOTES
        + r"])?+(?P<v>"
        + _CHARS
        + r"{16,})|(?:"
        + _ASSIGNS
        + r"[ \t]{0,3})?(?P<w>"
        + "|".join(
            f"[A-Za-z0-9]{{{size}}}(?:[ :-][A-Za-z0-9]{{{size}}}){{2,31}}(?![A-Za-z0-9])"
            for size in range(2, 9)
        )
        + r"))",
        _is_named,
        reach=18,
    ),
    Rule(
        "password",
        _PASSWORD_HINTS,
        r"(?P<my>(?<![A-Za-z])(?:my|our|his|her|their)[ ](?:[\w-]{1,20}[ ]){0,2})?"
        r"(?P<name>" + _NAMES_OF_PASSWORDS + r"|(?P<short>(?<![A-Za-z])(?:pw|pass)(?![A-Za-z])))"
        r"[\"'\])]{0,2}"
        r"(?:[ ](?:for|of|to|on)(?:[ ][\w'-]{1,20}){1,4}?(?=[ :=]))?[ \t]{0,3}"
        r"(?:(?:"
        + _IS
        + r"[ ]?)?"
        + _SIGN
        + r"|(?P<is>"
        + _IS
        + r")|(?P<bar>[ ](?=\S*[A-Za-z][0-9]+[A-Za-z])))"
        r"[ \t]{0,3}[rbf]?(?:(?P<quoted>\"[^\"\n]{4,256}\"|'[^'\n]{4,256}'|`[^`\n]{4,256}`)"
        r"|(?P<bare>[^\s\"'`,;\u3002\uff0c]{4,256}))",
        _is_password,
        reach=55,
    ),
    Rule(
        "payment_card",
        (),
        r"(?<![0-9A-Za-z.,:_/-])(?=4|5[1-5]|2[2-7]|3[47]|6(?:011|5))"
        r"(?:[0-9]{15,19}|[0-9]{4}(?:[ -][0-9]{4}){3}|[0-9]{4}[ -][0-9]{6}[ -][0-9]{5})"
        r"(?![0-9A-Za-z_]|[.-][0-9])",
        _is_card,
        sign="[2-6](?<![0-9A-Za-z.,:_/-].)[0-9]{3}[ 0-9-]",
    ),
)


HIDDEN = "***"
"""What `redact` writes in the place of a secret."""

_KEYWORDS = r"(?:api[-_ ]?key|secret|passw(?:or)?d|authorization|access[-_]?token)"
_ASSIGNED = r"[\"']?\s*[:=]\s*[\"']?"
LOOSE_PATTERNS = [
    # scheme://user:password@host
    (r"(?<=://)[^\s/?#]+(?=@)", HIDDEN),
    # Authorization: Bearer ..., Basic ...
    (r"(?i)\b(Bearer)[\s:]+[^\s\"',;]+", rf"\1 {HIDDEN}"),
    (r"\b(Basic)\s+(?=\S*[A-Z0-9=])[\w+/=]{6,}", rf"\1 {HIDDEN}"),
    # ?key=..., &access_token=...
    (
        r"(?i)([?&][\w.-]*(?:key|token|secret|passw(?:or)?d|pwd|auth|code|sig\w{0,40})=)[^&\s\"'#]+",
        rf"\1{HIDDEN}",
    ),
    # "api_key": "...", password=...
    (rf"(?i)\b({_KEYWORDS}{_ASSIGNED})(?!Bearer|Basic)[^\s\"',;&}}]+", rf"\1{HIDDEN}"),
    # Short, cut and masked keys, as services quote them.
    (r"\b(?:sk|rk|pk)-[\w*.-]{3,}", HIDDEN),
    (r"\b(?:gsk|hf|pplx|xai|nvapi|gh[pousr]|github_pat|glpat)[-_][\w-]{8,}", HIDDEN),
    (r"\b(?:AIza[\w-]{16,}|AKIA[A-Z0-9]{12,}|eyJ[\w-]{8,}\.[\w.-]+)", HIDDEN),
]
