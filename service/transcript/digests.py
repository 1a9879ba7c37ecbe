"""The rolling digest: digest(m) = H(digest(parent), id, fingerprint).

Equal digests mean that the whole path up to there is equal. The filter computes them (it cannot
import this module, so it repeats the rule, and a test compares the two); the service
only checks the chain. The fingerprint is opaque here.
"""

import hashlib
import re

ROOT = ""
"""The digest above the first message of a chat."""


_PLAIN = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}")


def identity(message_id: str) -> str:
    """The id under which the filter uploads a message of Open WebUI: its own, if that is plain."""
    if _PLAIN.fullmatch(message_id):
        return message_id
    return hashlib.sha256(message_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def digest(parent: str, message_id: str, fingerprint: str) -> str:
    """The digest of a message: 32 hexadecimal digits, 128 bits of SHA-256.

    `parent` is the digest of its parent, or `ROOT`.
    """
    path = "\n".join((parent, message_id, fingerprint))  # no line end is in any of them
    return hashlib.sha256(path.encode()).hexdigest()[:32]
