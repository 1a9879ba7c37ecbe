"""The conversation as Open WebUI stores it (folded view) and as the model sees it (native view).

Pure: text and JSON in, typed values out. `parse` reads a stored message, `steps` cuts it into what
may never be split, `unfold` makes the native list, `folded` makes an answer's items of its native
messages.
"""

from service.transcript.digests import ROOT, digest
from service.transcript.items import Call, Message, Native, Step, Stored
from service.transcript.masking import masked
from service.transcript.messages import parse
from service.transcript.native import folded, text_of, unfold
from service.transcript.steps import asked_tokens, native_tokens, sent_tokens, step_tokens, steps

__all__ = [
    "ROOT",
    "Call",
    "Message",
    "Native",
    "Step",
    "Stored",
    "asked_tokens",
    "digest",
    "folded",
    "masked",
    "native_tokens",
    "parse",
    "sent_tokens",
    "step_tokens",
    "steps",
    "text_of",
    "unfold",
]
