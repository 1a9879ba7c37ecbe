"""How the keys of single services look, by their kind.

From the plugins of detect-secrets 1.5.0 (github.com/Yelp/detect-secrets), Copyright 2017-2018 Yelp
Inc., Apache License 2.0 (`key_patterns.LICENSE`). The patterns are as there, flags apart; the hints
are ours.
"""

from typing import Final

AWS: Final = "AWS Access Key"
PATTERNS: Final = {
    AWS: (
        r"(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[0-9A-Z]{16}",
        r"(?i)aws.{0,20}?(?:key|pwd|pw|password|pass|token).{0,20}?['\"]([0-9a-zA-Z/+]{40})['\"]",
    ),
    "Discord Bot Token": (r"[MNO][a-zA-Z\d_-]{23,25}\.[a-zA-Z\d_-]{6}\.[a-zA-Z\d_-]{27}",),
    "GitHub Token": (r"(ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9_]{36}",),
    "GitLab Token": (
        r"(glpat|gldt|glft|glsoat|glrt)-[A-Za-z0-9_\-]{20,50}(?!\w)",
        r"GR1348941[A-Za-z0-9_\-]{20,50}(?!\w)",
        r"glcbt-([0-9a-fA-F]{2}_)?[A-Za-z0-9_\-]{20,50}(?!\w)",
        r"glimt-[A-Za-z0-9_\-]{25}(?!\w)",
        r"glptt-[A-Za-z0-9_\-]{40}(?!\w)",
        r"glagent-[A-Za-z0-9_\-]{50,1024}(?!\w)",
        r"gloas-[A-Za-z0-9_\-]{64}(?!\w)",
    ),
    "Mailchimp Access Key": (r"[0-9a-z]{32}-us[0-9]{1,2}",),
    "PyPI Token": (
        r"pypi-AgEIcHlwaS5vcmc[A-Za-z0-9-_]{70,}",
        r"pypi-AgENdGVzdC5weXBpLm9yZw[A-Za-z0-9-_]{70,}",
    ),
    "SendGrid API Key": (r"SG\.[a-zA-Z0-9_-]{22}\.[a-zA-Z0-9_-]{43}",),
    "Slack Token": (
        r"(?i)xox(?:a|b|p|o|s|r)-(?:\d+-)+[a-z0-9]+",
        r"(?i)https://hooks\.slack\.com/services/T[a-zA-Z0-9_]+/B[a-zA-Z0-9_]+/[a-zA-Z0-9_]+",
    ),
    "Square OAuth Secret": (r"sq0csp-[0-9A-Za-z\\\-_]{43}",),
    "Stripe Access Key": (r"(?:r|s)k_live_[0-9a-zA-Z]{24}",),
    "Telegram Bot Token": (r"\d{8,10}:[0-9A-Za-z_-]{35}",),
    "Twilio API Key": (r"AC[a-z0-9]{32}", r"SK[a-z0-9]{32}"),
}
# Some are slow where there is nothing to find.
HINTS: Final = {
    AWS: ("akia", "asia", "a3t", "abia", "acca", "aws"),
    "Mailchimp Access Key": tuple(f"-us{digit}" for digit in range(1, 10)),
    "Slack Token": ("xox", "hooks.slack"),
    "Stripe Access Key": ("k_live_",),
    "Telegram Bot Token": (":aa",),
}
"""Of a kind, literals in lower case: it is looked for only in a text that has one of them."""
