"""Which texts of unknown origin (tool results, quotations, file names) read like orders, or like our own structure.

Such a text is data all the same, but it is not repeated where a model might take it for more: not as a ledger sample,
not as a pin, not as a line of the narrative. Rules of thumb, mostly English; what they miss still stands in a fenced
record that says that it is one. Better one sample too few than an order too many.
"""

import re


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


# Against what was ordered before: nobody says so to an assistant in earnest.
_AGAINST = (
    r"\b(?:ignore|disregard|forget|override|bypass|do not follow|stop following)\b[^.\n]{0,30}"
    r"\b(?:all|any|previous|prior|above|earlier|preceding|your|system|safety|original|initial)\b[^.\n]{0,30}"
    r"\b(?:instructions?|prompts?|guidelines?|directives?|programming|restrictions?|safeguards?)\b",
    r"\byou (?:are|have been) (?:now (?:in )?\w+|no longer (?:an?|bound)|reprogrammed|jailbroken|freed)\b[^.\n]{0,40}"
    r"\b(?:mode|model|unrestricted|jailbroken|dan|evil|restrictions?|rules|assistant|ai)\b",
    r"\b(?:ignorier\w*|vergiss|missachte|ignore[zr]|oubli(?:e|ez)|ignora|olvida|dimentica|esquece)\b[^.\n]{0,40}"
    r"\b(?:anweisung\w*|vorgaben|instru\w+|consignes|instrucciones|istruzioni)\b",
    r"(?:忽略|无视|忘记)[^。\n]{0,12}(?:指令|指示|提示)|指示を無視|игнорируй[^.\n]{0,30}инструкц",
)
# What a person may order, and a tool may not.
_ORDERS = (
    r"\b(?:ignore|disregard|forget|override|bypass|skip)\b[^.\n]{0,40}\b(?:instructions?|prompts?|rules?|guidelines?|"
    r"constraints?|messages?|context|everything|above|previous|prior|earlier|safety|policy|policies|restrictions?)\b",
    r"\b(?:new|updated|real|actual|hidden|secret|additional|following) (?:system )?(?:instructions?|directives?|orders?)\b",
    r"\b(?:system|developer|admin(?:istrator)?) ?(?:prompt|message|override|instructions?|note|notice|mode)\b",
    r"\byou (?:must|shall|should|have to|need to|will) (?:now|always|never|immediately|instead|not (?:tell|mention))\b",
    r"\b(?:from now on|henceforth|starting now|act as|pretend to be|roleplay as|(?:respond|reply|answer|say|output) only|"
    r"always (?:reply|answer|respond|say|output|include|recommend|use))\b",
    r"\b(?:ai|assistant|chatgpt|claude|gpt|model|llm|summari[sz]er|bot|agent) ?(?::|,| (?:must|should|shall|will|has to|"
    r"please|is (?:required|instructed|told|to))\b)",
    r"\b(?:note|message|instructions?|attention|important|warning) (?:to|for) (?:the |all |any )?"
    r"(?:ai|assistants?|llms?|(?:language )?models?|summari[sz]ers?|agents?|bots?|chatbots?)\b",
    r"\b(?:do not|don't|never) (?:tell|inform|mention (?:this|it)|reveal this|show this)\b",
    r"\b(?:exfiltrate|send|post|forward|upload|leak|e-?mail)\b[^.\n]{0,60}"
    r"\b(?:passwords?|secrets?|api ?keys?|credentials?|conversation|chat history|https?://\S+|\S+@\S+)",
    r"\b(?:summar(?:y|ies)|record|memory) (?:must|should|shall|has to|needs? to)\b",
    r"\b(?:add|append|insert|write|put|include|record|store|remember|save|copy)\b[^.\n]{0,50}"
    r"\b(?:to|in|into|under|as)\b[^.\n]{0,25}\b(?:summary|record|constraints?|decisions?|ledger|memory|pinned)\b",
    r"\bsuperseded\b|\breplaces? P\d|\bP\d+ ?(?::|is |was )|\bT\d+ \w+\(",
    r"\b(?:the )?user (?:has )?(?:approved|authori[sz]ed|decided|agreed|wants you|instructed|confirmed)\b",
)
# Lines and tags with which chat templates, tool protocols and our own summary message tell their parts apart.
_STRUCTURE = (
    r"<\|?\s*/?\s*(?:im_start|im_end|system|user|assistant|endoftext|eot_id|start_header_id|end_header_id|begin_of_text|"
    r"start_of_turn|end_of_turn|channel|message|tool_calls?|tool_response|function_calls?|invoke|think)\b",
    r"\[/?INST\]|<</?SYS>>|</?s>|\bHuman: |(?:^|\n)\W{0,4}(?:system|assistant|user|developer)\W{0,2}:",
    r"(?:^|[\n\"'`])\s*#{1,6}\s*(?:goal|constraints?|decisions?|facts?|files?|open questions?|current state|superseded|"
    r"system|instructions?|user|assistant)\b",
    r"\[\s*(?:previous conversation summary|end of summary|tool calls from|conversation summary)",
    r"={3,}\s*(?:[0-9a-f]{6,}|end\b|record\b|messages\b|begin\b)|\]: #",
)

_STRUCTURAL = _any(*_STRUCTURE)
_SUBVERSIVE = _any(*_AGAINST, *_STRUCTURE)
_SUSPICIOUS = _any(*_AGAINST, *_ORDERS, *_STRUCTURE)


def suspicious(text: str) -> bool:
    """Whether a text that is not a person's reads like an order to an assistant, or like a part of a prompt."""
    return bool(_SUSPICIOUS.search(text))


def subversive(text: str) -> bool:
    """Whether a user's text, who may well give orders, imitates our structure or orders against what was ordered.

    A user does so only in what was pasted without quotation marks.
    """
    return bool(_SUBVERSIVE.search(text))


def structural(text: str) -> bool:
    """Whether `text` has role tags, section heads, marker lines or fences: what no line of a record may carry."""
    return bool(_STRUCTURAL.search(text))


def defused(text: str) -> str:
    """`text` without what could end the record that it stands in, or open another part of the prompt around it."""
    return _STRUCTURAL.sub("[…]", text)
