"""
Hide everything that may be a secret in errors, logs and `repr`.

It hides too much rather than too little, for instance a word that only looks like a key.
`memdb.text.secrets` is precise. Pure and linear in the text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from memdb.text.resources import compiled
from memdb.text.secret_rules import HIDDEN, LOOSE_PATTERNS
from memdb.text.secrets import find_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable

# Shorter secrets are hidden as whole words only: a password "a" is no reason
# to make a text unreadable.
WHOLE_WORD_CHARS = 8


def redact(text: str, secrets: Iterable[str | None] = ()) -> str:
    """
    Return *text* with `***` in place of everything that may be a secret.

    Hidden are the *secrets* themselves (also percent-encoded) and user and password of URLs. So are
    query values with a name like key or token, `Bearer ...`, and values with a name like api_key or
    password. Words in the form of known keys (`sk-...`) are hidden too, and all that `find_secrets`
    finds. Doing it twice changes nothing more.

    >>> redact("bad key sk-abc123 for https://ann:pw@host/v1?key=123")
    'bad key *** for https://***@host/v1?key=***'
    """
    for form in _forms(secrets):
        if len(form) < WHOLE_WORD_CHARS:
            text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", HIDDEN, text)
        else:
            text = text.replace(form, HIDDEN)
    for one in reversed(find_secrets(text)):
        text = f"{text[: one.start]}{HIDDEN}{text[one.end :]}"
    for pattern, replacement in LOOSE_PATTERNS:
        text = compiled(pattern).sub(replacement, text)
    return text


def _forms(secrets: Iterable[str | None]) -> list[str]:
    """Return each form in which a secret may be written, longest first; `***` is not a secret."""
    forms = {
        form
        for secret in secrets
        if secret
        for form in (secret, quote(secret), quote(secret, safe=""), unquote(secret))
    }
    return sorted((form for form in forms if form.strip("*")), key=lambda form: (-len(form), form))


def url_secrets(url: str) -> list[str]:
    """
    Return the secrets in a base URL: user, password and each query value.

    >>> url_secrets("https://ann:pw@host/v1?code=123")
    ['ann:pw', 'ann', 'pw', '123']
    """
    parts = urlsplit(url)
    userinfo = parts.netloc.rpartition("@")[0]
    values = [pair.partition("=")[2] or pair for pair in parts.query.split("&")]
    return [one for one in (userinfo, *userinfo.split(":", 1), *values) if one]
