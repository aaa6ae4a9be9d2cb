"""
Secret detection: how many generated secrets are caught, how many texts are accused wrongly.

    python bench/secret_finds.py [--seed N] [--locomo FOLDER]

19 classes of the seed and the gaps it lists, 50 each, drawn from a seeded
generator and put into sentences, JSON, environment files and code. False alarms
are counted per line of Python's standard library and per turn of the LoCoMo
conversations, where they are at hand. `detect-secrets`, where it is installed,
is measured on the same texts.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import sysconfig
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path

from locomo_data import FOLDER

from memdb.text.secrets import find_secrets

PER_CLASS = 50
ALNUM = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
UPPER = ALNUM[:26] + ALNUM[52:]
URLSAFE = ALNUM + "-_"
HEX = "0123456789abcdef"
WORDS = ["sunshine", "dragon", "winter", "Summer", "letmein", "orange", "Falcon", "tiger"]

# A page of source code has about so many lines.
PAGE_LINES = 60
PAGES = 10

Draw = Callable[[random.Random], str]


def drawn(alphabet: str, low: int, high: int = 0, prefix: str = "") -> Draw:
    """Return what draws *prefix* and *low* to *high* characters of *alphabet*."""

    def draw(rng: random.Random) -> str:
        return prefix + "".join(rng.choices(alphabet, k=rng.randint(low, high or low)))

    return draw


def one_of(*choices: Draw) -> Draw:
    """Return what draws by one of *choices*."""
    return lambda rng: rng.choice(choices)(rng)


def jwt(rng: random.Random) -> str:
    """Return a signed token: header, claims, signature."""

    def part(value: object) -> str:
        return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    head = {"alg": rng.choice(["HS256", "RS256", "ES256"]), "typ": "JWT"}
    claims = {"sub": str(rng.randrange(10**9)), "iat": rng.randrange(10**9)}
    return f"{part(head)}.{part(claims)}.{drawn(URLSAFE, 43)(rng)}"


def url(*schemes: str) -> Draw:
    """Return what draws a connection string with a password."""

    def draw(rng: random.Random) -> str:
        user = rng.choice(["app", "ann", "root", "svc_user"])
        secret = drawn(ALNUM + "!$^", 8, 20)(rng)
        return f"{rng.choice(schemes)}://{user}:{secret}@db.example.org:5432/app"

    return draw


def pem(*kinds: str) -> Draw:
    """Return what draws a private key of several lines."""

    def draw(rng: random.Random) -> str:
        kind = rng.choice(kinds)
        body = "\n".join(drawn(ALNUM + "+/", 64)(rng) for _ in range(rng.randint(2, 20)))
        return f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"

    return draw


def named(rng: random.Random) -> str:
    """Return a value under a name that says it is secret."""
    name = rng.choice(["api_key", "API-KEY", "apiSecret", "access_token", "secret_key"])
    name = rng.choice([name, "private-key", "auth_token", "AUTHTOKEN", "api key"])
    return f"{name}{rng.choice([' = ', '=', ': ', ':'])}{drawn(URLSAFE, 16, 40)(rng)}"


def password(rng: random.Random) -> str:
    """Return a password as people choose them, under its name."""
    name = rng.choice(["password", "passwd", "pwd", "Password", "PASSWORD", "db_password"])
    word = rng.choice(WORDS)
    value = rng.choice(
        [
            f"{word}{rng.randrange(10, 9999)}",
            f"{word}!{word}",
            drawn(ALNUM, 8, 16)(rng),
            f"{word}{word}",
        ]
    )
    return f"{name}{rng.choice([' = ', '=', ': ', ':'])}{value}"


def wrapped(rng: random.Random) -> str:
    """Return another secret, in base64."""
    inner = rng.choice([password, drawn(ALNUM, 36, prefix="ghp_"), url("postgres")])(rng)
    return b64encode(inner.encode()).decode()


def spoken(rng: random.Random) -> str:
    """Return how people say a password."""
    value = f"{rng.choice(WORDS)}{rng.randrange(10, 999)}"
    said = [
        "my password is",
        "das Passwort ist",
        "mi contraseña es",
        "le mot de passe est",
        "密码是",
    ]
    return f"{rng.choice(said)} {value}"


SEED_CLASSES: dict[str, Draw] = {
    "openai": drawn(ALNUM, 20, 48, "sk-"),
    "anthropic": drawn(URLSAFE, 20, 90, "sk-ant-api03-"),
    "google api": drawn(URLSAFE, 35, prefix="AIza"),
    "github classic": drawn(ALNUM, 36, prefix="ghp_"),
    "github oauth": drawn(ALNUM, 36, prefix="gho_"),
    "github fine-grained": drawn(ALNUM + "_", 22, 82, "github_pat_"),
    "aws": drawn(UPPER, 16, prefix="AKIA"),
    "slack": one_of(*(drawn(ALNUM + "-", 10, 60, f"xox{one}-") for one in "bpsa")),
    "google oauth": drawn(URLSAFE, 50, 120, "ya29."),
    "jwt": jwt,
    "stripe secret": one_of(drawn(ALNUM, 24, 40, "sk_live_"), drawn(ALNUM, 24, 40, "sk_test_")),
    "stripe restricted": one_of(drawn(ALNUM, 24, 40, "rk_live_"), drawn(ALNUM, 24, 40, "rk_test_")),
    "twilio account": drawn(HEX, 32, prefix="AC"),
    "twilio key": drawn(HEX, 32, prefix="SK"),
    "connection string": url("postgres", "mysql", "mongodb", "redis"),
    "private key": pem("", "RSA ", "EC ", "DSA "),
    "bearer": lambda rng: f"{rng.choice(['Bearer', 'bearer'])} {drawn(ALNUM + '-._', 20, 60)(rng)}",
    "named": named,
    "password": password,
}

GAPS: dict[str, Draw] = {
    "openai project": drawn(URLSAFE, 40, 120, "sk-proj-"),
    "github other": one_of(*(drawn(ALNUM, 36, prefix=f"gh{one}_") for one in "sur")),
    "gitlab": drawn(URLSAFE, 20, prefix="glpat-"),
    "npm": drawn(ALNUM, 36, prefix="npm_"),
    "hugging face": drawn(ALNUM, 34, prefix="hf_"),
    "azure storage": drawn(ALNUM + "+/", 86, prefix="DefaultEndpointsProtocol=https;AccountKey="),
    "azure client": lambda rng: f"{drawn(ALNUM, 3)(rng)}8Q~{drawn(URLSAFE, 34)(rng)}",
    "sendgrid": lambda rng: f"SG.{drawn(URLSAFE, 22)(rng)}.{drawn(URLSAFE, 43)(rng)}",
    "other pem": pem("OPENSSH ", "ENCRYPTED "),
    "other schemes": url("postgresql", "mongodb+srv", "postgresql+asyncpg", "amqps", "https"),
    "aws temporary": drawn(UPPER, 16, prefix="ASIA"),
    "short": lambda rng: f"pwd: {rng.choice(WORDS)[:3]}{rng.randrange(100, 999)}",
    "base64": wrapped,
    "spoken": spoken,
}

FRAMES = [
    "{}",
    "Here it is: {} please keep it safe.",
    "My credentials are {}",
    '{{"value": "{}"}}',
    "export X='{}'",
    "line one\nline two {}\nline three",
]


def caught(
    classes: dict[str, Draw], rng: random.Random, look: Callable[[str], bool]
) -> dict[str, int]:
    """Return how many of 50 texts of each class *look* accuses."""
    return {
        name: sum(look(rng.choice(FRAMES).format(draw(rng))) for _ in range(PER_CLASS))
        for name, draw in classes.items()
    }


def turns(folder: Path) -> list[str]:
    """Return the turns of the LoCoMo conversations, [] where they are absent."""
    found = []
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text())
        talk = content.get("conversation", content)
        for value in talk.values():
            if isinstance(value, list):
                found += [turn["text"] for turn in value if "text" in turn]
    return found


def source_lines() -> list[str]:
    """Return the lines of Python's standard library, without its tests."""
    found = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if not {"site-packages", "test", "tests", "idlelib"} & set(path.parts):
            found += path.read_text(encoding="utf-8", errors="replace").splitlines()
    return found


def other() -> Callable[[str], bool] | None:
    """Return detect-secrets' judgement, None where it is not installed."""
    try:
        from detect_secrets.core.scan import scan_line
        from detect_secrets.settings import default_settings
    except ImportError:
        return None

    def look(text: str) -> bool:
        with default_settings():
            return any(True for line in text.splitlines() for _ in scan_line(line))

    return look


def report(name: str, look: Callable[[str], bool], given: argparse.Namespace) -> bool:
    """Print what *look* catches and accuses; say whether the bars are met."""
    rng = random.Random(given.seed)
    good = True
    for title, classes in (("19 classes", SEED_CLASSES), ("gaps", GAPS)):
        counts = caught(classes, rng, look)
        total = len(counts) * PER_CLASS
        share = sum(counts.values()) / total
        missed = ", ".join(f"{one} {PER_CLASS - n}" for one, n in counts.items() if n < PER_CLASS)
        print(f"{name}: {title} caught {sum(counts.values())}/{total} = {share:.2%} (>= 98 %)")
        print(f"  missed: {missed or 'none'}")
        good = good and share >= 0.98
    lines = source_lines()
    start = rng.randrange(len(lines) - PAGES * PAGE_LINES)
    samples = {
        "turns of LoCoMo": turns(given.locomo),
        "ten pages of source": lines[start : start + PAGES * PAGE_LINES],
        "lines of source": lines,
    }
    for title, texts in samples.items():
        if not texts:
            print(f"{name}: {title} are not at hand")
            continue
        wrong = sum(map(look, texts))
        share = wrong / len(texts)
        print(f"{name}: false alarms {wrong}/{len(texts)} {title} = {share:.3%} (<= 0.5 %)")
        good = good and share <= 0.005
    return good


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--locomo", type=Path, default=FOLDER)
    given = parser.parse_args()
    good = report("memdb", lambda text: bool(find_secrets(text)), given)
    compared = other()
    if compared is not None:
        report("detect-secrets", compared, given)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
