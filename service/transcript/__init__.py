"""The conversation as Open WebUI stores it (folded view) and as the model sees it (native view).

Pure: text and JSON in, typed values out. `parse` reads a stored message, `steps` cuts it into parts
that are never split, `unfold` makes the native messages, and `folded` makes an answer's items of
its native messages.
"""

from service.transcript.identities import identity
from service.transcript.items import Call, Message, Native, Step, Stored
from service.transcript.masking import masked
from service.transcript.messages import parse, prompt_tokens_of, tokens_read_of
from service.transcript.native import calls_of, folded, text_of, unfold
from service.transcript.steps import native_tokens, sent_tokens, step_tokens, steps

__all__ = [
    "Call",
    "Message",
    "Native",
    "Step",
    "Stored",
    "calls_of",
    "folded",
    "identity",
    "masked",
    "native_tokens",
    "parse",
    "prompt_tokens_of",
    "sent_tokens",
    "step_tokens",
    "steps",
    "text_of",
    "tokens_read_of",
    "unfold",
]
