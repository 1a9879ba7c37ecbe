"""How the keys of single services look.

From the plugins of detect-secrets 1.5.0 (github.com/Yelp/detect-secrets), Copyright 2017-2018 Yelp
Inc., Apache License 2.0 (`key_patterns.LICENSE`). The patterns are as there; the hints are ours.
"""

import re
from typing import NamedTuple


class KeyPattern(NamedTuple):
    """How one kind of key looks.

    Some patterns are slow where there is nothing to find: they are tried only where one of `hints`
    is in the text, in lower case.
    """

    kind: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...] = ()


AWS = "AWS Access Key"
_AWS_HINTS = ("akia", "asia", "a3t", "abia", "acca", "aws")
_MAILCHIMP_HINTS = tuple(f"-us{digit}" for digit in range(1, 10))

KEY_PATTERNS = (
    KeyPattern(AWS, re.compile(r"(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[0-9A-Z]{16}"), _AWS_HINTS),
    KeyPattern(
        AWS,
        re.compile(
            r"aws.{0,20}?(?:key|pwd|pw|password|pass|token).{0,20}?['\"]([0-9a-zA-Z/+]{40})['\"]",
            re.IGNORECASE,
        ),
        _AWS_HINTS,
    ),
    KeyPattern(
        "Discord Bot Token",
        re.compile(r"[MNO][a-zA-Z\d_-]{23,25}\.[a-zA-Z\d_-]{6}\.[a-zA-Z\d_-]{27}"),
    ),
    KeyPattern("GitHub Token", re.compile(r"(ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9_]{36}")),
    KeyPattern(
        "GitLab Token",
        re.compile(r"(glpat|gldt|glft|glsoat|glrt)-[A-Za-z0-9_\-]{20,50}(?!\w)"),
    ),
    KeyPattern("GitLab Token", re.compile(r"GR1348941[A-Za-z0-9_\-]{20,50}(?!\w)")),
    KeyPattern("GitLab Token", re.compile(r"glcbt-([0-9a-fA-F]{2}_)?[A-Za-z0-9_\-]{20,50}(?!\w)")),
    KeyPattern("GitLab Token", re.compile(r"glimt-[A-Za-z0-9_\-]{25}(?!\w)")),
    KeyPattern("GitLab Token", re.compile(r"glptt-[A-Za-z0-9_\-]{40}(?!\w)")),
    KeyPattern("GitLab Token", re.compile(r"glagent-[A-Za-z0-9_\-]{50,1024}(?!\w)")),
    KeyPattern("GitLab Token", re.compile(r"gloas-[A-Za-z0-9_\-]{64}(?!\w)")),
    KeyPattern("Mailchimp Access Key", re.compile(r"[0-9a-z]{32}-us[0-9]{1,2}"), _MAILCHIMP_HINTS),
    KeyPattern("PyPI Token", re.compile(r"pypi-AgEIcHlwaS5vcmc[A-Za-z0-9-_]{70,}")),
    KeyPattern("PyPI Token", re.compile(r"pypi-AgENdGVzdC5weXBpLm9yZw[A-Za-z0-9-_]{70,}")),
    KeyPattern("SendGrid API Key", re.compile(r"SG\.[a-zA-Z0-9_-]{22}\.[a-zA-Z0-9_-]{43}")),
    KeyPattern(
        "Slack Token",
        re.compile(r"xox(?:a|b|p|o|s|r)-(?:\d+-)+[a-z0-9]+", re.IGNORECASE),
        ("xox",),
    ),
    KeyPattern(
        "Slack Token",
        re.compile(
            r"https://hooks\.slack\.com/services/T[a-zA-Z0-9_]+/B[a-zA-Z0-9_]+/[a-zA-Z0-9_]+",
            re.IGNORECASE,
        ),
        ("hooks.slack",),
    ),
    KeyPattern("Square OAuth Secret", re.compile(r"sq0csp-[0-9A-Za-z\\\-_]{43}")),
    KeyPattern("Stripe Access Key", re.compile(r"(?:r|s)k_live_[0-9a-zA-Z]{24}"), ("k_live_",)),
    KeyPattern("Telegram Bot Token", re.compile(r"\d{8,10}:[0-9A-Za-z_-]{35}"), (":aa",)),
    KeyPattern("Twilio API Key", re.compile(r"AC[a-z0-9]{32}")),
    KeyPattern("Twilio API Key", re.compile(r"SK[a-z0-9]{32}")),
)
