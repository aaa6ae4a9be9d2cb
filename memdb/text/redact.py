"""
Secrets out of texts: what an error, a log line or a `repr` may show.

Pure functions. Beyond what `memdb.text.secrets` finds they would rather hide
too much than too little: a word that only looks like a key, or like the rest of
one, is replaced too.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote, urlsplit

from memdb.text.secrets import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

HIDDEN = "***"

# Shorter secrets are hidden as whole words only: a password "a" is no reason
# to make a text unreadable.
WHOLE_WORD_CHARS = 8

_NAMED = r"(?:api[-_ ]?key|secret|passw(?:or)?d|authorization|access[-_]?token)"
_IS = r"[\"']?\s*[:=]\s*[\"']?"
_PATTERNS = [
    # scheme://user:password@host
    (re.compile(r"(?<=://)[^\s/?#]+(?=@)"), HIDDEN),
    # Authorization: Bearer ..., Basic ...
    (re.compile(r"\b(Bearer)[\s:]+[^\s\"',;]+", re.IGNORECASE), rf"\1 {HIDDEN}"),
    (re.compile(r"\b(Basic)\s+(?=\S*[A-Z0-9=])[\w+/=]{6,}"), rf"\1 {HIDDEN}"),
    # ?key=..., &access_token=...
    (
        re.compile(
            r"([?&][\w.-]*(?:key|token|secret|passw(?:or)?d|pwd|auth|code|sig\w*)=)[^&\s\"'#]+",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    # "api_key": "...", password=...
    (
        re.compile(
            rf"\b({_NAMED}{_IS})(?!Bearer|Basic)[^\s\"',;&}}]+",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    # Short, cut and masked keys, as services quote them.
    (re.compile(r"\b(?:sk|rk|pk)-[\w*.-]{3,}"), HIDDEN),
    (
        re.compile(r"\b(?:gsk|hf|pplx|xai|nvapi|gh[pousr]|github_pat|glpat)[-_][\w-]{8,}"),
        HIDDEN,
    ),
    (re.compile(r"\b(?:AIza[\w-]{16,}|AKIA[A-Z0-9]{12,}|eyJ[\w-]{8,}\.[\w.-]+)"), HIDDEN),
]


def redact(text: str, secrets: Iterable[str | None] = ()) -> str:
    """
    Return *text* with `***` in the place of everything that may be a secret.

    Hidden are the *secrets* themselves (also percent-encoded), user and
    password of URLs, query values whose names say key, token or the like,
    `Bearer ...`, values named as api_key or password, and words in the form of
    known keys (`sk-...`). Doing it twice changes nothing more.

    >>> redact("bad key sk-abc123 for https://ann:pw@host/v1?key=123")
    'bad key *** for https://***@host/v1?key=***'
    """
    for form in _forms(secrets):
        if len(form) < WHOLE_WORD_CHARS:
            text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", HIDDEN, text)
        else:
            text = text.replace(form, HIDDEN)
    for one in reversed(find(text)):
        text = f"{text[: one.start]}{HIDDEN}{text[one.end :]}"
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def _forms(secrets: Iterable[str | None]) -> list[str]:
    """Return each secret as it may be written, longest first; `***` is none."""
    forms = {
        form
        for secret in secrets
        if secret
        for form in (secret, quote(secret), quote(secret, safe=""), unquote(secret))
    }
    return sorted((form for form in forms if form.strip("*")), key=lambda form: (-len(form), form))


def url_secrets(url: str) -> list[str]:
    """
    Return what is secret in a base URL: user, password and each query value.

    >>> url_secrets("https://ann:pw@host/v1?code=123")
    ['ann:pw', 'ann', 'pw', '123']
    """
    parts = urlsplit(url)
    userinfo = parts.netloc.rpartition("@")[0]
    values = [pair.partition("=")[2] or pair for pair in parts.query.split("&")]
    return [one for one in (userinfo, *userinfo.split(":", 1), *values) if one]


def redact_url(url: str) -> str:
    """
    Return *url* without user, password and the values of its query.

    >>> redact_url("https://ann:pw@host/v1?code=123&region=eu")
    'https://***@host/v1?code=***&region=***'
    """
    parts = urlsplit(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    pairs = [pair.partition("=") for pair in parts.query.split("&")] if parts.query else []
    query = "&".join(f"{name}={HIDDEN}" if is_pair else HIDDEN for name, is_pair, _ in pairs)
    return parts._replace(netloc=f"{HIDDEN if userinfo else ''}{at}{host}", query=query).geturl()


def redact_urls(text: str) -> str:
    """
    Return *text* with user, password and all query values of its URLs hidden.

    >>> redact_urls("POST http://ann:pw@host/v1?code=123&region=eu 200")
    'POST http://***@host/v1?code=***&region=*** 200'
    """
    text = re.sub(r"(?<=://)[^\s/?#\"]+(?=@)", HIDDEN, text)
    return re.sub(r"([?&][^=&\s\"']+=)[^&\s\"']+", rf"\1{HIDDEN}", text)
