"""The conversation as Open WebUI stores it (folded view) and as the model sees it (native view).

Pure: text and JSON in, typed values out. `parse` reads a stored message, `split_steps` cuts it into
parts that are never split, `unfold_messages` makes the native messages, and `fold_answer` makes an
answer's items of its native messages.
"""

from service.transcript.identities import normalise_id
from service.transcript.items import Call, Message, Native, Step, Stored
from service.transcript.masking import mask_message
from service.transcript.messages import parse, read_ollama_tokens, read_prompt_tokens
from service.transcript.native import fold_answer, list_calls, read_text, unfold_messages
from service.transcript.steps import (
    count_sent_tokens,
    count_stored_tokens,
    estimate_step_tokens,
    split_steps,
)

__all__ = [
    "Call",
    "Message",
    "Native",
    "Step",
    "Stored",
    "count_sent_tokens",
    "count_stored_tokens",
    "estimate_step_tokens",
    "fold_answer",
    "list_calls",
    "mask_message",
    "normalise_id",
    "parse",
    "read_ollama_tokens",
    "read_prompt_tokens",
    "read_text",
    "split_steps",
    "unfold_messages",
]
