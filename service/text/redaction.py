"""Masks secrets in a text: API keys, bearer tokens, passwords, private keys.

In: a text, plain or JSON or code. Out: the same text with `[masked: GitHub Token]` in the place of
each secret, and how many there were. What is around a secret stays byte for byte, JSON stays JSON,
and masking twice is masking once. Every pattern is bounded or possessive, so that the cost grows
with the text and no faster.

The keys of single services are recognised by the patterns of detect-secrets;
docs/adr/0012-secrets.md says which are used, and why the rest is ours.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.base import RegexBasedDetector
from detect_secrets.plugins.discord import DiscordBotTokenDetector
from detect_secrets.plugins.github_token import GitHubTokenDetector
from detect_secrets.plugins.gitlab_token import GitLabTokenDetector
from detect_secrets.plugins.jwt import JwtTokenDetector
from detect_secrets.plugins.mailchimp import MailchimpDetector
from detect_secrets.plugins.pypi_token import PypiTokenDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.slack import SlackDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector
from detect_secrets.plugins.stripe import StripeDetector
from detect_secrets.plugins.telegram_token import TelegramBotTokenDetector
from detect_secrets.plugins.twilio import TwilioKeyDetector


@dataclass(frozen=True, slots=True)
class Masked:
    """A text without secrets, and how many were masked in it."""

    text: str
    count: int


@dataclass(frozen=True, slots=True)
class _Rule:
    """A pattern, and whether what it finds is a secret. One of `any_case` is in lower case, and so is what it reads."""

    kind: str
    pattern: re.Pattern[str]
    holds: Callable[[str], bool] = bool
    any_case: bool = False
    hints: tuple[str, ...] = ()


# What has to be in a text, in lower case, for a pattern of the library that is slow to find out
# that it is not there.
_HINTS: dict[type[RegexBasedDetector], tuple[str, ...]] = {
    AWSKeyDetector: ("akia", "asia", "a3t", "abia", "acca", "aws"),
    DiscordBotTokenDetector: (),
    GitHubTokenDetector: (),
    GitLabTokenDetector: (),
    MailchimpDetector: tuple(f"-us{digit}" for digit in range(1, 10)),
    PypiTokenDetector: (),
    SendGridDetector: (),
    SlackDetector: ("xox", "hooks.slack"),
    SquareOAuthDetector: (),
    StripeDetector: ("k_live_",),
    TelegramBotTokenDetector: (":aa",),
    TwilioKeyDetector: (),
}

# What such a pattern finds also in DNA (`ACCA…`) and in base64 is no key unless it has a length of
# one.
_HOLDS: dict[type[RegexBasedDetector], Callable[[str], bool]] = {
    AWSKeyDetector: lambda text: len(text) in (20, 40)
}

_PLACEHOLDER = re.compile(
    r"\A(?:[<{\[]|\$(?:\w+$|[{(]|env:)|%[(s]|[*•.x]+$|your|"
    r"(?:none|null|true|false|undefined|redacted)$)",
    re.IGNORECASE,
)


_JOINT = re.compile(r"[-_./:]")
_WORD = re.compile(r"[^\W\d_][^\W\d]*|[A-Za-z._-]+")
_IDENTIFIER = re.compile(r"[A-Za-z_][\w.]*")
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[A-Za-z]")
_MIXED = re.compile(r"\d|[a-z][A-Z]|=$")


def _value(text: str) -> bool:
    """Whether it is no placeholder such as `${PASSWORD}`, `<token>` or `****`."""
    return not _PLACEHOLDER.match(text) and "://" not in text


def _worded(text: str) -> bool:
    """Whether it is made of words and numbers, as names and dates are: `my-app-v2`, `db2_password`, `2024-01-31`."""
    return all(len(part) <= 3 or part.isalpha() or part.isdigit() for part in _JOINT.split(text))


def _password(text: str) -> bool:
    """Not a word, for `password: required` is no password, and not an identifier, as code assigns it."""
    return (
        _value(text)
        and not _WORD.fullmatch(text)
        and not (_worded(text) and _IDENTIFIER.fullmatch(text))
    )


def _random(text: str) -> bool:
    """Letters and digits mixed within a word."""
    return (
        _value(text)
        and not _worded(text)
        and bool(_DIGIT.search(text))
        and bool(_LETTER.search(text))
    )


def _credentials(text: str) -> bool:
    return _value(text) and bool(_MIXED.search(text))


def _word(literal: str) -> str:
    r"""A literal that begins a word: also after a line end in JSON, which is `\n` there.

    Like all patterns of ours it begins with the literal itself, for which `re` looks fifty times as
    fast.
    """
    return rf"{literal}(?:(?<![A-Za-z0-9_-]{literal})|(?<=\\[nrt]{literal}))"


def _key(qualifier: str) -> list[str]:
    return [f"(?<={qualifier}{joint}key)" for joint in ("", "_", "-")]


_KEYS = {
    "sk-": r"(?:(?:ant|proj|svcacct|admin|or|lf)-[\w-]{20,}+|[A-Za-z0-9]{20,}+)",
    "github_pat_": r"\w{22,}+",
    "hf_": r"[A-Za-z0-9]{30,}+",
    "gsk_": r"\w{40,}+",
    "xai-": r"\w{40,}+",
    "AIza": r"[\w-]{35,}+",
    "GOCSPX-": r"[\w-]{20,}+",
    r"ya29\.": r"[\w-]{20,}+",
    "npm_": r"\w{36,}+",
    r"hvs\.": r"[\w-]{24,}+",
    "glsa_": r"\w{32,}+",
    "dop_v1_": r"\w{40,}+",
    "shpat_": r"\w{32,}+",
}
_QUALIFIERS = (
    "api",
    "secret",
    "access",
    "private",
    "account",
    "auth",
    "signing",
    "encryption",
    "master",
    "service",
)
_NAMES = (
    "secret",
    "credential",
    "token(?<!pagetoken)(?<!page_token)(?<!continuationtoken)(?<!continuation_token)(?<!publickeytoken)",
    f"key(?:{'|'.join(alternative for qualifier in _QUALIFIERS for alternative in _key(qualifier))})",
)
# Between a name and its value, in code, JSON, YAML, XML; in JSON inside JSON the quotes have
# backslashes.
_IS = r"(?:\\{0,3}[\"']\]?)?(?:\s{0,8}[:=]{1,3}>?\s{0,8}|>)"
# In a connection string any word is a password, which it is not in code or in prose.
_BEFORE_PASSWORD = (
    *(";", "&", r"\?"),
    *(rf"{name}=[^\s;=]{{1,128}}[\s;]" for name in ("user", "host", "port", "dbname")),
)
_GAP = r"(?:\s|\\[nr])"
_LINES = rf"[A-Za-z0-9+/=]{{20,}}+(?:{_GAP}++[A-Za-z0-9+/=]{{20,}}+)*+"
_OURS = (
    _Rule(
        "private key",
        re.compile(
            r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
            rf"(?:(?:[^\"-]|-(?!----)){{1,20000}}+-----END [A-Z0-9 ]{{1,40}}-----|{_GAP}*+{_LINES})"
        ),
    ),
    _Rule("private key", re.compile(rf"Private-Lines: \d{{1,4}}{_GAP}++(?P<value>{_LINES})")),
    _Rule(
        "JSON Web Token",
        re.compile(_word("eyJ") + r"[\w-]{8,}+\.eyJ[\w-]{4,}+(?:\.[\w-]*+)*+"),
        lambda text: JwtTokenDetector.is_formally_valid(".".join(text.split(".")[:2])),
    ),
    *(_Rule("API key", re.compile(_word(prefix) + rest)) for prefix, rest in _KEYS.items()),
    _Rule(
        "bearer token",
        re.compile(
            r"authorization\\{0,3}[\"']?\s{0,8}[:=]\s{0,8}\\{0,3}[\"']?(?:[a-z]{3,12}\s{1,8})?(?P<value>[\w.~+/=-]{8,4096}+)"
        ),
        _credentials,
        any_case=True,
    ),
    _Rule(
        "bearer token",
        re.compile(r"bearer\s{1,8}(?P<value>[\w.~+/=-]{20,4096}+)"),
        _credentials,
        any_case=True,
    ),
    _Rule(
        "password",
        re.compile(r"://[^\s/:@?#\"'<>\\]{0,128}:(?P<value>[^\s/?\"'<>\\]{1,256})@(?=[\w\[.-])"),
        _value,
    ),
    _Rule(
        "password", re.compile(r"PASSWORD=[\"']?(?P<value>[^\s;\"'\\&()]{3,256}+)(?!\()"), _value
    ),
    *(
        _Rule(
            "password",
            re.compile(before + r" ?(?:password|pwd)=(?P<value>[^\s;\"'\\&()]{3,256}+)(?!\()"),
            _value,
            any_case=True,
        )
        for before in _BEFORE_PASSWORD
    ),
    *(
        _Rule(
            "password",
            re.compile(
                rf"{name}{_IS}(?:\\{{0,3}}[\"'](?P<quoted>[^\s\"'\\]{{4,512}}+)(?=\\{{0,3}}[\"'])"
                r"|(?P<bare>[^\s\"'`,;&<>()\[\]{}\\|]{6,512}+)(?![(\[{]))"
            ),
            _password,
            any_case=True,
        )
        for name in ("password", "passwort", "passwd", "passphrase", "_pass", "pwd")
    ),
    *(
        _Rule(
            "secret",
            re.compile(
                rf"{name}{_IS}(?:\\{{0,3}}[\"'])?(?P<value>[\w.~+/=:%-]{{16,2048}}+)(?![(\[{{])"
            ),
            _random,
            any_case=True,
        )
        for name in _NAMES
    ),
)
_RULES = (
    *(
        _Rule(vars(plugin)["secret_type"], pattern, _HOLDS.get(plugin, bool), hints=hints)
        for plugin, hints in _HINTS.items()
        for pattern in vars(plugin)["denylist"]
    ),
    *_OURS,
)
_PASSES = 4  # what stood against another secret may be seen only when that one is gone
_REST = re.compile(r"[\w-]{0,512}")


def mask(text: str) -> Masked:
    """The text with each secret replaced by its kind. Pure; a text without secrets is returned as it is."""
    count = 0
    for _ in range(_PASSES):
        found = sorted(_found(text))
        if not found:
            break
        out, position = [], 0
        for start, end, order in _joined(found):
            out += [text[position:start], f"[masked: {_RULES[order].kind}]"]
            position, count = end, count + 1
        text = "".join([*out, text[position:]])
    return Masked(text, count)


def _found(text: str) -> Iterator[tuple[int, int, int]]:
    """Start, end and place of the rule of whatever a rule finds."""
    lower = _lower(text)
    for order, rule in enumerate(_RULES):
        if rule.hints and not any(hint in lower for hint in rule.hints):
            continue
        reached = 0
        for match in rule.pattern.finditer(lower if rule.any_case else text):
            if match.start() < reached:  # in the rest of the find before
                continue
            start, end = _span(match)
            if rule.holds(text[start:end]):
                reached = end
                # The letter of an escape such as `\r` belongs to the backslash.
                yield start + (text[start - 1 : start] == "\\"), end, order


def _lower(text: str) -> str:
    """A text of the same length, its ASCII letters in lower case: what patterns of any case read.

    `str.lower` takes twelve bytes for each character meanwhile, and some grow.
    """
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def _span(match: re.Match[str]) -> tuple[int, int]:
    """Where the secret is: in the one named group of ours; the library has it in its first group, or none, or a part.

    The library's patterns end where the shortest keys of a service do; the rest of a longer one is
    a secret too.
    """
    named = [name for name, value in match.groupdict().items() if value]
    if named:
        return match.span(named[0])
    group = 1 if match.lastindex and match.end(1) - match.start(1) >= 20 else 0
    end = match.end(group)
    rest = _REST.match(match.string, end)
    return match.start(group), rest.end() if rest else end


def _joined(found: list[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Overlapping finds as one, of the rule that stands first."""
    start, end, order = found[0]
    for other in found[1:]:
        if other[0] < end:
            end, order = max(end, other[1]), min(order, other[2])
        else:
            yield start, end, order
            start, end, order = other
    yield start, end, order
