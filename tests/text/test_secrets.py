"""Finding secrets: every class of the seed, the gaps it lists, and no ordinary text."""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path

import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st

import memdb
from memdb.text.sanitize import INVISIBLE_CLASS, JOINERS
from memdb.text.secret_rules import RULES
from memdb.text.secrets import (
    KINDS,
    Secret,
    _by_rule,
    _starts,
    entropy_bits,
    find_secrets,
    redact_secrets,
    shown,
)

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
    ("password", "das Passwort lautet Sommer2024!", "Sommer2024!"),
    ("service_key", f"tvly-dev-{MIXED[:32]}", ""),
    ("service_key", f"vercel_blob_rw_{MIXED[:16]}_{MIXED[16:48]}", ""),
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

# Spellings that people use, written by a hand that had not read the rules.
FRESH = [
    "IBAN: DE89-3704-0044-0532-0130-00",
    "my iban is GB29-NWBK-6016-1331-9268-19",
    "de89 3704 0044 0532 0130 00 is where the rent goes",
    "FR14.2004.1010.0505.0001.3M02.606",
    "pin 4821 for the visa card",
    "PIN is 7731",
    "the pin of my debit card: 9042",
    "my sim's PIN = 2468",
    "redis-cli -h cache.local -a Tr4wler!Boat get x",
    "redis-cli --pass hunter2Seven -p 6380 ping",
    "mysql -uroot -pS3cretPassw0rd shop",
    "mysqldump --password=Blu3Kettle! -u admin shop > x.sql",
    "PGPASSWORD=walnut-Tray9 psql -h db1 -U app",
    "sshpass -p 'Gr33nDoor' ssh ann@10.0.0.2",
    "curl -u ann:Fjord-77xy https://example.com/api",
    "curl -H 'Authorization: Bearer 9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c' https://x.io",
    "password is: Maple!Frost22",
    "the password for the wifi is sunflower88",
    "wifi password -> Quiet_River_19",
    "Passwort: Apfelb4um!",
    "mot de passe : Citron.Vert42",
    "contraseña: Luna#Roja7",
    "pw: kX9$mm2Q",
    "pass phrase = correct-Horse-17-battery",
    "login ann / password Tr0mb0ne$",
    "user: ann pass: Lk29vmQx!",
    "https://ann:Sn0wfl4ke@git.example.org/repo.git",
    "postgresql://app:Z3bra_Crossing@db.internal:5432/app",
    "mongodb+srv://svc:w1nterMoon99@cluster0.abcde.mongodb.net",
    "amqp://guest:Pl4netMars@mq:5672/vhost",
    "4111-1111-1111-1111 exp 09/27 cvv 123",
    "card no 5555 5555 5555 4444",
    "amex 3782 822463 10005",
    "my ssn is 536-22-8726",
    "social security number 536 22 8726",
    "SSN: 536228726",
    "sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12Mn34Op56Qr78St90Uv12Wx34Yz56",
    "sk-ant-api03-Zx81kQmP0vLw93nRt6YbHs2JcFgUeDa5Xo7Wi4Tz1Mq8Np0Kr3Vy6BhL9-AbCdEfGh",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "AKIAIOSFODNN7EXAMPLQ is the access key",
    "aws_secret_access_key = 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",
    "xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx",
    "api key: 7f 3a 91 c2 5d e8 40 b6 aa 13 9c 77 e0 5b 82 f4",
    "API-KEY 3c9e-77ab-41d0-9f52-b8e6-0a1d-4472-c95f",
    "X-Api-Key: q8Zr5tY2wLm0PvN7cXk4",
    "export STRIPE_KEY=sk_live_51HxYzAbCdEfGhIjKlMnOpQrSt",
    "client_secret: 'vT~8Q_9xLmN2pRkW5yZc7B.fGhJ4sD1aE0'",
    "token=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\n-----END OPENSSH PRIVATE KEY-----",
    "seed phrase: legal winner thank year wave sausage worth useful legal winner thank yellow",
    "my recovery words are letter advice cage absurd amount doctor acoustic avoid letter advice cage above",
    "AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
    "the door code is 4471#",
    "alarm code: 90817",
    "my bitlocker recovery key: 427350-189684-337150-553542-209451-310629-442717-080993",
    "otpauth://totp/Acme:ann?secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP&issuer=Acme",
    "2fa backup codes: 8h2k-99dm 3kq7-pp2x 6v9c-m1zt",
    "docker login -u ann -p Oc3anDr1ve registry.example.com",
    "machine api.heroku.com login ann@example.com password c4f3e2d1-aaaa-4bbb-8ccc-1234567890ab",
    "NL91-ABNA-0417-1643-00 is my account",
    "account: ch93 0076 2011 6238 5295 7",
    "PIN: 0 is wrong, mine is pin 5823.",
    "sim pin -> 9172",
    "redis-cli -a 'k0rallenRiff' ping",
    'sshpass -p "swordfish" ssh bob@h',
    "mysql -h db -pGr4nite shop",
    "password is = Br1ckHouse",
    "pass: Xk81!mmQz",
    "pw = zR44vvTq",
    "The passphrase for the key is: lemon-Tart-42",
    "SSN 219-09-9999",
    "social security no. 219 09 9999",
    "secret key: 4f9a 02bc 77d1 e3a8 5501 9cde",
    "recovery codes: 1a2b3c4d 5e6f7a8b 9c0d1e2f",
    "gate code: 2219",
    "contraseña es: Verano2024!",
    "kennwort -> Blitz77Donner",
    "user bob password h4Rd2guess",
    "token: 9f8e7d6c-5b4a-4938-2716-05f4e3d2c1b0-ff",
]

# Lines of manuals, notes and shells that only speak of secrets.
ORDINARY = [
    "mysql -p asks for the password",
    "mysql -u root -p shop",
    "PWD=/home/ann",
    "call me at 555-12-3456",
    "my phone number is 555-12-3456, extension 4",
    "words like abandon ability able about above absent absorb abstract absurd abuse access accident are the first of the list",
    "The password is required for every account.",
    "the pin is stuck in the board",
    "I forgot my password again",
    "password: required",
    "the token is expired",
    "redis-cli -a asks for a password",
    "use sshpass -p to give a password",
    "PIN code for Bangalore is 560001",
    "tracking number 1Z999AA10123456784",
    "the isbn is 978-3-16-148410-0",
    "order 4111 111 for 16 people",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "id 123e4567-e89b-12d3-a456-426614174000",
    "OLDPWD=/var/log",
    "pass: the tests pass",
    "passphrase is what a key is locked with",
    "the secret is to add more salt",
    "key: value",
    "token: counting is slow",
    "door code was changed yesterday",
    "at 12:30-14:00 on 2026-11-27",
    "curl -u user:password https://example.com",
    "password=os.environ['DB_PASSWORD']",
    "password = getpass.getpass()",
    'api_key = "YOUR_API_KEY"',
    "GET /users?token=<token>",
    "the recovery phrase has twelve words",
    "The pin 2024 edition came out",
    "pin 1000 photos to the board",
    "I need the zip code 94110",
    "the code is 4040 if it fails",
    "password strength and pass rates rose 12% in 2023",
    "pass: 12 of 14 tests",
    "pw: see the wiki",
    "token: 2 3 4 5 6 7 8 9",
    "the tokens are split into words and counted",
    "keys are on the table, the secret is love",
    "area code 212 and country code 0049",
    "NL91 ABNA 0417 1643 01",
    "call my phone 219-09-9999",
    "words: apple banana cherry damson elder fig grape",
    "the passphrase for the door was funny",
    "passport: 123456789",
    "mysqldump -p shop > x.sql",
    "redis-cli -a",
    "The password field accepts OAuth2 tokens",
    "password hash md5sum differs",
    "reset your password here: https://example.com/reset",
    "one pass of 100m2 area",
    "api keys are 32 characters long",
    "my words are kind",
    "backup codes are printed once",
    "access code: closed",
    "mysql -u root -p inventory",
    "- your-slack-token xoxb-your-slack-token",
    "password = 'wrong_password1'",
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
    every = [*VARIANTS, *FRESH]
    missed = [text for text in every if not find_secrets(text)]
    kept = [text for text in every if find_secrets(redact_secrets(text))]

    assert missed == []
    assert kept == []


def test_lines_about_secrets_hold_none() -> None:
    """Commands without a password, paths, telephone numbers, lists of words, templates."""
    assert [(text, found) for text in ORDINARY if (found := find_secrets(text))] == []


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


SECRETS = [text for _, text, _ in CAUGHT] + [*VARIANTS, *FRESH, *ORDINARY]
BETWEEN = [
    "",
    " ",
    "\n",
    '"',
    "my ",
    "\u0130",
    "\u212a",
    "\u2003",
    "password: ",
    "x",
    "-",
    "0",
    ".",
    "é",
]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*SECRETS, *(text.upper() for text in SECRETS)]),
            st.integers(0, 30),
            st.sampled_from([*BETWEEN, *BETWEEN[:4]]),
        ),
        max_size=6,
    )
)
def test_a_rule_finds_the_same_as_its_pattern_anywhere(drawn: list[tuple[str, int, str]]) -> None:
    """A text is only searched where a hint stands; texts are cut, joined and in capitals."""
    text = "".join(f"{secret[cut if cut > 20 else 0 :]}{edge}" for secret, cut, edge in drawn)
    lower = text.replace("\u0130", "i").lower()
    for rule in RULES:
        if rule.hints or rule.sign:
            assert [*_by_rule(rule, text, _starts(rule, text, lower))] == [*_by_rule(rule, text)]


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
        "password for a b ",
        "sshpass -p ",
        "ssn ",
        "de89 3704 ",
        "api key 12 ",
        "pin ",
        "-----BEGIN A ",
    ],
)
def test_the_work_is_linear(part: str) -> None:
    """A hostile text of 100 kB ends: with backtracking this would run for hours."""
    assert isinstance(find_secrets(part * (100_000 // len(part)), entropy=True), list)


def test_no_invisible_character_hides_a_secret() -> None:
    """Every character that `visible` removes, between all characters of a key."""
    key = f"ghp_{MIXED[:36]}"
    unseen = [
        one for one in map(chr, range(0x110000)) if re.match(f"[{INVISIBLE_CLASS}{JOINERS}]", one)
    ]

    assert len(unseen) > 4_000
    assert [one for one in unseen if not find_secrets(one.join(key))] == []
