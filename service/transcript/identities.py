"""Makes a host's ids of messages safe to store."""

import hashlib
import re

_PLAIN = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}")


def normalise_id(message_id: str) -> str:
    """A host's id of a message as it is stored: a plain id stays, another becomes its hash."""
    if _PLAIN.fullmatch(message_id):
        return message_id
    return hashlib.sha256(message_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
