"""Finding secrets: every class of the seed, the gaps it lists, and no ordinary text."""

import json
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path

import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st

import memdb
from memdb.text.secret_rules import RULES
from memdb.text.secrets import KINDS, Secret, entropy_bits, find_secrets, redact_secrets, shown

MIXED = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6jK9mN2pQ5sT8vW1yZ4"
HEX = "0123456789abcdef0123456789abcdef"
JWT = ".".join(
    urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
    for part in ({"alg": "HS256", "typ": "JWT"}, {"sub": "ann", "iat": 1})
)
BASIC = b64encode(b"ann:tulips99").decode()
SNOWFLAKE = b64encode(b"198622483471925248").decode()
SEED = "legal winner thank year wave sausage worth useful hybrid crane thunder yellow"
PEM = "-----BEGIN {0}PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nq7x2\n-----END {0}PRIVATE KEY-----"

# (kind, the text, the part of it that is the secret; "" for the whole text)
CAUGHT = [
    ("openai_key", f"sk-{MIXED[:20]}", ""),
    ("openai_key", f"sk-proj-{MIXED[:20]}_x-{MIXED[20:40]}", ""),
    ("anthropic_key", f"sk-ant-api03-{MIXED[:30]}", ""),
    ("google_api_key", f"AIza{MIXED[:35]}", ""),
    ("github_token", f"ghp_{MIXED[:36]}", ""),
    ("github_token", f"gho_{MIXED[:36]}", ""),
    ("github_token", f"ghs_{MIXED[:36]}", ""),
    ("github_token", f"github_pat_{MIXED[:22]}", ""),
    ("aws_access_key", "AKIAIOSFODNN7EXAMPLE", ""),
    ("aws_access_key", "ASIAIOSFODNN7EXAMPLE", ""),
    ("slack_token", "xoxb-123456789012-abcdefGHIJ", ""),
    ("slack_token", "xoxp-1234567890", ""),
    ("google_oauth", f"ya29.{MIXED[:50]}", ""),
    ("jwt", f"{JWT}.{MIXED[:43]}", ""),
    ("stripe_key", f"sk_live_{MIXED[:24]}", ""),
    ("stripe_key", f"rk_test_{MIXED[:24]}", ""),
    ("twilio_key", f"AC{HEX}", ""),
    ("twilio_key", f"SK{HEX}", ""),
    ("connection_string", "postgres://ann:s3cret@db:5432/app", "s3cret"),
    ("connection_string", "postgresql+asyncpg://u:pass@h/db", "pass"),
    ("connection_string", "mongodb+srv://u:p@ss@h/db", "p@ss"),
    ("connection_string", "redis://:hunter2@h", "hunter2"),
    ("private_key", PEM.format(""), ""),
    ("private_key", PEM.format("RSA "), ""),
    ("private_key", PEM.format("OPENSSH "), ""),
    ("private_key", PEM.format("ENCRYPTED "), ""),
    ("private_key", PEM.format("EC ").replace("\n", "\\n"), ""),
    ("bearer_token", f"Authorization: Bearer {MIXED[:20]}", MIXED[:20]),
    ("named_secret", f"api_key = '{MIXED[:16]}'", MIXED[:16]),
    ("named_secret", f'"accessToken": "{MIXED[:20]}"', MIXED[:20]),
    ("named_secret", f"AWS_SECRET_ACCESS_KEY={MIXED[:40]}", MIXED[:40]),
    ("password", "password=letmein99", "letmein99"),
    ("password", "passwd: swordfish", "swordfish"),
    ("password", '{"pwd": "correct horse battery"}', "correct horse battery"),
    ("password", "my password is hunter2", "hunter2"),
    ("password", "das Passwort ist geheim99", "geheim99"),
    ("password", "密码是abc12345", "abc12345"),
    ("service_key", f"glpat-{MIXED[:20]}", ""),
    ("service_key", f"npm_{MIXED[:36]}", ""),
    ("service_key", f"hf_{MIXED[:34]}", ""),
    ("azure_key", f"AccountKey={MIXED[:44]}==", f"{MIXED[:44]}=="),
    ("azure_key", f"abc8Q~{MIXED[:34]}", ""),
    ("sendgrid_key", f"SG.{MIXED[:22]}.{MIXED[:43]}", ""),
    ("telegram_token", f"123456789:AA{MIXED[:33]}", ""),
    ("payment_card", "4111 1111 1111 1111", ""),
    ("payment_card", "378282246310005", ""),
    ("signed_token", f"{SNOWFLAKE}.{MIXED[:6]}.{MIXED[6:33]}", ""),
    ("basic_auth", f"Authorization: Basic {BASIC}", BASIC),
    ("command_line", "curl -u ann:tulips99 https://example.org", "tulips99"),
    ("command_line", "sshpass -p tulips99 ssh ann@host", "tulips99"),
    ("command_line", "mysql -u root -ptulips99 shop", "tulips99"),
    ("command_line", "deploy --token tulips99x", "tulips99x"),
    ("wifi_password", "WIFI:T:WPA;S:Home;P:tulips and roses;;", "tulips and roses"),
    ("pin", "my PIN is 4821", "4821"),
    ("seed_phrase", f'"{SEED}"', SEED),
    ("bank_account", "GB82 WEST 1234 5698 7654 32", ""),
    ("bank_account", "FR1420041010050500013M02606", ""),
    ("social_security", "078-05-1120", ""),
    ("service_key", f"hvs.{MIXED[:24]}", ""),
    ("service_key", f"ntn_{MIXED[:46]}", ""),
    ("service_key", f"acme_{MIXED[:40]}", ""),
    ("password", "the password for the router is hunter2", "hunter2"),
]

# The same formats as other people and programs write them, and written so that a pattern misses
# them. They were written after the rules.
VARIANTS = [
    f"-H 'authorization: basic {BASIC}'",
    f'{{"Authorization": "Basic {BASIC}"}}',
    "curl -s -X POST --user 'bob:Tr0ub4dor' http://h/",
    "wget --user=ann:letmein1 https://h/file",
    "curl -uann:s3cr3t https://h",
    "sshpass -pTr0ub4dor ssh ann@host",
    "mysqldump -h db -p'geheim77' shop > shop.sql",
    "mariadb --password=geheim77 shop",
    "export VAULT_TOKEN=hvs.CAESI" + MIXED,
    "Discord: " + SNOWFLAKE + "." + MIXED[8:14] + "." + MIXED[14:52],
    "My password is sunflower.",
    "our wifi password is opensesame!",
    "his mail password is correct-horse-battery",
    "My password is 'tulips'",
    "WIFI:S:Cafe;T:WPA2;P:espresso;H:false;;",
    "IBAN DE89 3704 0044 0532 0130 00",
    "my SSN: 219-09-9998",
    f"recovery phrase: {SEED}",
    " ".join(["zoo vivid crane ripple ozone swim tuna gospel vital fuel beach mango"] * 2),
    " ".join(f"ghp_{MIXED[:36]}"),
    "ghp_ " + " ".join(MIXED[at : at + 6] for at in range(0, 36, 6)),
    f"sk-{MIXED[:12]}\n{MIXED[12:24]}\n{MIXED[24:40]}",
    "\u200b".join(f"ghp_{MIXED[:36]}"),
    "AKIA\u2060IOSF\ufeffODNN7EXAM\u00adPLE",
    "pass\u200bword: hunter2x",
    "The PIN for the new card is 0831.",
    "PIN: 4821",
    "Die PIN lautet 7714",
]


@each("kind, text, secret", CAUGHT)
def test_each_format_is_found_where_it_stands(kind: str, text: str, secret: str) -> None:
    """Alone, in a sentence, and with the name before it left as it is."""
    wanted = secret or text
    for before, after in (("", ""), ("It is ", " I think."), ("line\n", "\nline"), ("", ". Ok")):
        whole = f"{before}{text}{after}"

        found = find_secrets(whole)

        assert [(one.kind, whole[one.start : one.end]) for one in found] == [(kind, wanted)]


def test_other_ways_of_writing_are_found() -> None:
    """As commands, headers, sentences, in groups, and with characters that nobody sees."""
    missed = [text for text in VARIANTS if not find_secrets(text)]
    kept = [text for text in VARIANTS if find_secrets(redact_secrets(text))]

    assert missed == []
    assert kept == []


def test_ordinary_lines_hold_no_secret() -> None:
    """Documents and code of this project: fewer than one line of a thousand is taken for one."""
    root = Path(memdb.__file__).parent
    paths = [*root.parent.glob("docs/*.md"), *root.glob("text/*.py"), *root.glob("search/*.py")]
    lines = [
        line
        for path in paths
        if "secret" not in path.name
        for line in path.read_text("utf-8").splitlines()
        if line.strip()
    ]

    found = [line for line in lines if find_secrets(line)]

    assert len(lines) > 3000
    assert len(found) < len(lines) * 0.001, found


def test_every_rule_is_shown_here() -> None:
    """A new format needs its example."""
    assert {rule.kind for rule in RULES} == {kind for kind, _, _ in CAUGHT}
    assert set(KINDS) == {rule.kind for rule in RULES} | {"high_entropy"}


@each(
    "text",
    [
        "",
        "Ann is allergic to peanuts.",
        "task-force-abcdefghijklmnopqrstuvwx is risk-taking-abcdefghijklmnopqrst",
        "sk-learn-based-classification-pipeline",
        "a commit 4ac9f0123456789abcdef0123456789abcdef012 and its sha 12ac" + HEX + "ffff",
        "the password is incorrect",
        "password: str | None = None",
        "login(user, password=password)",
        "self.password = getpass.getpass('Password: ')",
        "password = os.environ['DB_PASSWORD']",
        "password=${DB_PASSWORD} api_key=<your-api-key-goes-here> token={{ token_of_the_app }}",
        "password: ********, key sk-xxxxxxxxxxxxxxxxxxxxxxxx",
        "http://user:password@host/ in a manual",
        "https://example.org/a:b@c and mail ann@example.org",
        "bearer of bad news, bearer authentication-is-required-here",
        "secret_key = settings.SECRET_KEY_OF_THE_APP",
        "eyJust a word.eyJust another",
        "call 4111 1111 1111 1112 or 1234567890123456",
        "version 4.1111111111111111 and 4444444444444444",
        "EAN 4006381333931 and 4012345678901",
        "my password is wrong. My password is not accepted, his password is expired",
        "my password is stored in the vault",
        "the password is swordfish",  # said of a film; "my password is swordfish" is one
        "PIN 12 is GPIO 18, pin code 110001, pinned: 2024, pin: 3",
        "docker run -u 1000:1000 -p 8080:80 image; mkdir -p /tmp/a; ssh -p 2222 host",
        "curl -u user:password https://example.org",
        "basic authentication, Basic support, basic: c29tZXRoaW5n",
        "call 555-12-34, 2024-01-05, 000-12-3456 or 123-456-7890",
        "DE89 3704 0044 0532 0130 01 is no account",
        "ghp_ tokens are for GitHub and sk- keys for OpenAI, since 2021 or 2022",
        "I like the very long walks that people take along rivers during summer evenings",
        "a b c d e f g h i j k l m n o p q r s t u v w x y z",
        "msg_01XFDUDYJgAACzvnptvVoYEL toolu_01A09q90qw90lq917835lq9",
        "resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b",
        "sha512-" + b64encode(bytes(range(64))).decode(),
        "memdb.engine.sqlite.connection.Connection.execute",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        b64encode(b"an ordinary sentence of some length").decode(),
    ],
)
def test_ordinary_texts_are_left_alone(text: str) -> None:
    """Prose, code, templates, hashes and placeholders."""
    assert find_secrets(text) == []


@pytest.mark.parametrize("inner", ["password=hunter2secret", f"ghp_{MIXED[:36]}"])
def test_a_secret_in_base64_is_found(inner: str) -> None:
    """The whole run goes, under the kind of what it wraps."""
    wrapped = b64encode(inner.encode()).decode()
    (inside,) = find_secrets(inner)

    assert find_secrets(f"x {wrapped} y") == [Secret(inside.kind, 2, 2 + len(wrapped))]


def test_a_private_key_goes_with_all_its_lines() -> None:
    """Also where its end is missing."""
    whole = PEM.format("RSA ")
    cut = whole[: whole.index("\nq7x2")]

    assert redact_secrets(f"a\n{whole}\nb") == "a\n[REDACTED private_key]\nb"
    assert (
        redact_secrets(f"a\n{cut}\n\nOrdinary words.")
        == "a\n[REDACTED private_key]\n\nOrdinary words."
    )


def test_secrets_that_overlap_are_one() -> None:
    """A token behind "Bearer" is named by its own format, and nothing of it stays."""
    text = f"Authorization: Bearer {JWT}.{MIXED[:43]}"

    assert redact_secrets(text) == "Authorization: Bearer [REDACTED jwt]"


def test_entropy_is_asked_for() -> None:
    """A drawn run without a name is found on request only."""
    text = f"id {MIXED[:40]} end"

    assert find_secrets(text) == []
    assert find_secrets(text, entropy=True) == [Secret("high_entropy", 3, 43)]
    assert find_secrets("id aaaaaaaaaaaaaaaaaaaaaaaaB1 end", entropy=True) == []
    assert entropy_bits("aabb") == 1.0


def test_a_detector_of_the_hosts_is_joined_in() -> None:
    """Its spans are cut to the text; empty ones are dropped."""
    text = "badge 12345"

    found = find_secrets(text, detector=lambda _: [Secret("badge", 6, 99), Secret("none", 50, 60)])

    assert found == [Secret("badge", 6, 11)]


def test_what_is_shown_of_a_secret_is_no_secret() -> None:
    """The beginning of a long one, nothing of a short one."""
    key = f"ghp_{MIXED[:36]}"

    assert shown(key, find_secrets(key)[0]) == "ghp_… (40 characters)"
    assert shown("pwd=hunter22", find_secrets("pwd=hunter22")[0]) == "… (8 characters)"


@each("kind", KINDS)
@each("behind", [" :0012", "=hunter2", " is hunter22", ': "aB3dE5gH7jK9mN1pQ3s"'])
def test_the_kind_in_a_placeholder_names_no_secret(kind: str, behind: str) -> None:
    """A placeholder was redacted again: "password] :0012" reads like "password: 0012"."""
    assert find_secrets(f"pwd=[REDACTED {kind}]{behind}") == []


@given(
    st.lists(st.one_of(st.text(max_size=20), st.sampled_from([text for _, text, _ in CAUGHT]))).map(
        " ".join
    )
)
def test_redacting_twice_is_redacting_once(text: str) -> None:
    """What takes a secret's place is none, and nothing that was found is left."""
    once = redact_secrets(text)

    assert redact_secrets(once) == once
    assert find_secrets(once) == []


@each(
    "part",
    [
        "sk-",
        "a://a:",
        "a://a:b@",
        "-----BEGIN PRIVATE KEY-----",
        "-",
        'password:"',
        "password ",
        "4444 ",
        "4",
        "eyJ",
        "eyJaaaaaaaaaaaaaaaaaaaaa.",
        "bearer ",
        "api_key=",
        "QUFB",
        "-----BEGIN A ",
    ],
)
def test_the_work_is_linear(part: str) -> None:
    """A hostile text of 250 kB ends: with backtracking this would run for hours."""
    assert isinstance(find_secrets(part * (250_000 // len(part)), entropy=True), list)
