"""
Screening: refuse, redact or allow a secret before it is stored or sent to a model.

The settings of the file name an action per kind of row, which every write applies
(`SecretScreen.pass_fields`). The fields that are screened, and how, are listed in
`memdb.models.fields`. Nothing here stores or repeats a secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.errors import SecretFound, TooLarge
from memdb.models.fields import MAX_TEXT_BYTES, SCREENED, TEXT
from memdb.models.settings import ACTIONS, ALLOW, DEFAULTS, REFUSE
from memdb.text.resources import compiled
from memdb.text.secrets import find_secrets, redact_secrets
from memdb.text.validate import choice_value
from memdb.text.values import is_binary

if TYPE_CHECKING:
    from memdb.models.fields import Field
    from memdb.models.protocols import Detector
    from memdb.models.reports import Secret
    from memdb.models.settings import Settings


# The setting with the action for a kind of row; what is not of an entry goes with the messages.
SETTING, OTHER_SETTING = "secrets_in_entries", "secrets_in_messages"
OF_ENTRIES = frozenset(("entry", "history", "settings", "scope"))

# More characters than any rule but a run without a space takes.
NAMED_CHARS = 2_048


class SecretScreen:
    """Finds secrets by the settings of the file, and with a detector of the host."""

    __slots__ = ("_detector", "settings")

    def __init__(self, settings: Settings = DEFAULTS, detector: Detector | None = None) -> None:
        """
        Screen by *settings*.

        Args:
            detector: Returns a `Secret` for each span of a text that is one, besides
                those of the rules; None adds none.
        """
        self.settings = settings
        self._detector = detector

    @property
    def has_detector(self) -> bool:
        """Whether code of the host is asked, for which no transaction may wait."""
        return self._detector is not None

    def find(self, text: str, *, entropy: bool = False) -> list[Secret]:
        """
        Return the secrets in *text*, by the rules and by the detector.

        Args:
            entropy: Also find random-looking runs of characters, whatever the settings are.
        """
        entropy = entropy or self.settings.secrets_by_entropy
        return find_secrets(text, entropy=entropy, detector=self._detector)

    def action_for(self, kind: str) -> str:
        """Return the setting for secrets in a kind of row."""
        name = SETTING if kind in OF_ENTRIES else OTHER_SETTING
        return str(getattr(self.settings, name))

    def pass_fields(
        self, kind: str, fields: dict[str, Any], action: str | None = None
    ) -> dict[str, Any]:
        """
        Return the fields of a row after applying the settings: unchanged or redacted.

        Args:
            kind: One of `memdb.models.fields.FIELDS`.
            fields: By name; values as JSON has them. A name is never redacted but refused.
            action: "refuse", "redact" or "allow"; None means the action in the settings.

        Raises:
            TooLarge: a text is longer than its field may be; it is not searched.
            SecretFound: a field contains a secret, and the settings refuse those.

        Cost: 1 µs if secrets are allowed, else as `find`.
        """
        if action is None:
            action = self.action_for(kind)
        if action == ALLOW:
            return fields
        known, passed, once = SCREENED[kind], {}, _ScreenOfRow(self.settings, self._detector)
        for name, value in fields.items():
            field = known[name]
            _check_size(field, value)
            own = action if TEXT in field.traits else REFUSE
            passed[name] = screened_value(value, own, name, once)
        return passed

    def pass_line(self, kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a line of an import as `pass_fields` does."""
        given = {name: fields[name] for name in SCREENED[kind] if name in fields}
        return {**fields, **self.pass_fields(kind, given)}

    def pass_settings(self, changes: dict[str, str]) -> None:
        """
        Refuse a secret in settings; *changes* has their JSON texts by name.

        Raises:
            SecretFound: a text contains a secret, and the action is to refuse or redact those.
        """
        if self.action_for("settings") != ALLOW:
            for name, text in changes.items():
                screened(text, REFUSE, f"settings.{name}", self)

    def pass_bytes(self, kind: str, field: str, data: bytes) -> bytes:
        """Return bytes as `pass_fields` does if they are text, and other bytes unchanged."""
        for encoding, marks in UTF_16.items():
            if data.startswith(marks):
                text = data.decode(encoding, errors="surrogatepass")
                return str(self.pass_fields(kind, {field: text})[field]).encode(
                    encoding, errors="surrogatepass"
                )
        if is_binary(data):
            return data
        # Bytes of another encoding than UTF-8 come back as they were.
        text = data.decode(errors="surrogateescape")
        passed = str(self.pass_fields(kind, {field: text})[field])
        return data if passed is text else passed.encode(errors="surrogateescape")

    def is_allowing(self, kind: str) -> bool:
        """Return whether everything passes."""
        return self.action_for(kind) == ALLOW

    def with_action(self, action: str | None) -> SecretScreen:
        """Return a screen with another action for entries; None changes nothing."""
        if action is None:
            return self
        choice_value(action, "secrets", ACTIONS)
        return SecretScreen(self.settings.replace(secrets_in_entries=action), self._detector)


class _ScreenOfRow(SecretScreen):
    """Screens one row; a text in several of its fields is searched once."""

    __slots__ = ("_clean",)

    def __init__(self, settings: Settings, detector: Detector | None) -> None:
        super().__init__(settings, detector)
        self._clean: set[str] = set()

    def find(self, text: str, *, entropy: bool = False) -> list[Secret]:
        found = [] if text in self._clean else super().find(text, entropy=entropy)
        if not found:
            self._clean.add(text)
        return found


# Of what was screened before.
ALLOWING = SecretScreen(DEFAULTS.replace(secrets_in_entries=ALLOW, secrets_in_messages=ALLOW))

UTF_16 = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}


def _check_size(field: Field, value: Any) -> None:
    """Refuse a value that is too long to be stored, before it is searched for secrets."""
    size = _count_chars(value)
    limit = field.max_chars if isinstance(value, str) else MAX_TEXT_BYTES
    if size > limit:
        raise TooLarge(f"the number of characters in {field.name}", limit, size)


def _count_chars(value: Any) -> int:
    """Return how many characters the texts of a JSON value have together."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(_count_chars(key) + _count_chars(item) for key, item in value.items())
    return sum(map(_count_chars, value)) if isinstance(value, (list, tuple)) else 0


def screened(text: str, action: str, field: str, screen: SecretScreen) -> str:
    """
    Return *text* unchanged or redacted, by *action*.

    Raises:
        SecretFound: *action* is "refuse", and *field* contains a secret.
    """
    if action == ALLOW or not text:
        return text
    found = screen.find(text)
    if not found:
        return text
    if action == REFUSE:
        raise SecretFound(field, [one.kind for one in found])
    return redact_secrets(text, found)


def screened_value(value: Any, action: str, field: str, screen: SecretScreen) -> Any:
    """
    Return a JSON value with each text in it screened; see `screened`.

    A text under a key, and each text of a list under it (`{"password": "..."}`), is screened
    together with the key. A key that is a secret itself is redacted too.
    """
    return _screened_value(value, None, action, field, screen)


def _screened_value(
    value: Any, key: str | None, action: str, field: str, screen: SecretScreen
) -> Any:
    """Return *value* screened, with its key; None means that it has no key."""
    if action == ALLOW or value is None:
        return value
    if isinstance(value, str):
        return (
            screened(value, action, field, screen)
            if key is None
            else _named(key, value, action, field, screen)
        )
    if isinstance(value, (list, tuple)):
        return [_screened_value(item, key, action, field, screen) for item in value]
    if isinstance(value, dict):
        passed: dict[Any, Any] = {}
        for name, item in value.items():
            kept = screened(name, action, field, screen) if isinstance(name, str) else name
            while kept in passed:  # two keys that were redacted
                kept += "'"
            passed[kept] = _screened_value(
                item, name if isinstance(name, str) else None, action, field, screen
            )
        return passed
    return value


def _named(key: str, text: str, action: str, field: str, screen: SecretScreen) -> str:
    before = f'{key}: "'
    # What the key names is at the beginning of a long text, at most up to a space.
    space = compiled(r"\s").search(text, NAMED_CHARS)
    head = f'{before}{text[: space.start()] if space else text}"'
    if screened(head, action, field, screen) == head:
        return screened(text, action, field, screen)
    return screened(f'{before}{text}"', action, field, screen)[len(before) : -1]
