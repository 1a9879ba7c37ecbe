"""What is said of a tool's result, in one line."""

import json
from typing import Any

from service.summarising.ledger import results


def said(text: str) -> str:
    found = results.read(text)
    return " | ".join([found.said, *map(str, found.details)])


def described(value: Any) -> str:
    return said(json.dumps(value))
