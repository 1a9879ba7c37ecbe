"""The rolling digest: digest(m) = H(digest(parent), id, fingerprint).

Equal digests mean that the whole path up to there is equal. The filter computes them (it cannot
import this module, so the rule stands there once more, and a test compares the two); the service
only checks the chain. The fingerprint is opaque here: a newer filter may compute it in another way.
"""

import hashlib

ROOT = ""
"""The digest above the first message of a chat."""


def digest(parent: str, message_id: str, fingerprint: str) -> str:
    """The digest of a message as 32 hexadecimal digits (128 bits of SHA-256); `parent` is its parent's, or `ROOT`."""
    return hashlib.sha256("\n".join((parent, message_id, fingerprint)).encode()).hexdigest()[:32]
