"""Which texts of unknown origin (tool results, quotations, file names) read like instructions or like our own structure.

Such a text is data all the same, but it is not repeated where a model might take it for more: not as a ledger sample,
not as a pin, not as a line of the narrative. Rules of thumb in several languages; what they miss still stands in a
fenced record that says that it is one. Better one sample too few than an order too many.
"""

import re

_INSTRUCTS = re.compile(
    r"""
    \b(?:ignore|disregard|forget|override|bypass|skip|drop|discard|do\ not\ follow|stop\ following)\b[^.\n]{0,40}
        \b(?:instructions?|prompts?|rules?|guidelines?|constraints?|messages?|context|everything|above|previous|prior|
        earlier|safety|system|policy|policies|directives?|restrictions?)\b
    | \b(?:new|updated|real|actual|hidden|secret|additional|following)\s+(?:system\s+)?(?:instructions?|directives?|orders?)\b
    | \b(?:system|developer|admin(?:istrator)?)\s*(?:prompt|message|override|instructions?|note|notice|update|mode)\b
    | \byou\s+(?:are|have\s+been)\s+(?:now|no\s+longer|reprogrammed|instructed|ordered|authori[sz]ed|jailbroken)\b
    | \byou\s+(?:must|shall|should|have\s+to|need\s+to|will)\s+(?:now|always|never|immediately|instead|not\s+(?:tell|mention))\b
    | \b(?:from\s+now\s+on|henceforth|starting\s+now|act\s+as|pretend\s+to\s+be|roleplay\s+as|respond\s+only|reply\s+only|
        answer\s+only|say\s+only|output\s+only|always\s+(?:reply|answer|respond|say|output|include|recommend))\b
    | \b(?:ai|assistant|chatgpt|claude|gpt|model|llm|summari[sz]er|bot|agent)\s*(?::|,|\s(?:must|should|shall|will|has\s+to|
        please|is\s+(?:required|instructed|told|to)))
    | \b(?:note|message|instructions?|attention|important|warning)\s+(?:to|for)\s+(?:the\s+|all\s+|any\s+)?
        (?:ai|assistants?|llms?|(?:language\s+)?models?|summari[sz]ers?|agents?|bots?|chatbots?)\b
    | \b(?:do\s+not|don't|never)\s+(?:tell|inform|mention\s+(?:this|it)|reveal\s+this|show\s+this)\b
    | \b(?:exfiltrate|send|post|forward|upload|leak|e-?mail)\b[^.\n]{0,60}
        \b(?:passwords?|secrets?|api\s*keys?|credentials?|conversation|chat\s+history|tokens?|https?://\S+|\S+@\S+)
    | \b(?:summar(?:y|ies)|record|notes?|memory)\s+(?:must|should|shall|has\s+to|needs?\s+to)\b
    | \b(?:add|append|insert|write|put|include|record|store|remember|save|copy)\b[^.\n]{0,50}
        \b(?:to|in|into|under|as)\b[^.\n]{0,25}\b(?:summary|record|constraints?|decisions?|ledger|memory|notes|pinned)\b
    | \b(?:superseded|replaces?\s+P\d|P\d+\s*(?::|is|was|are)|T\d+\s+\w+\()
    | \b(?:ignorier\w*|vergiss|missachte|ignore[zr]|oubli(?:e|ez)|ignora|olvida|dimentica|esquece|ignorar)\b[^.\n]{0,50}
        \b(?:anweisung\w*|regeln?|vorgaben|instru\w+|consignes|règles|reglas|regole|istruzioni|regras|anterior\w*|
        précédent\w*|vorherig\w*|bisherig\w*|precedent\w*)\b
    | (?:忽略|无视|忘记|無視して|игнорируй|забудь)
    """,
    re.IGNORECASE | re.VERBOSE,
)
# Lines and tags with which chat templates, tool protocols and our own summary message tell their parts apart.
_STRUCTURE = re.compile(
    r"""
    <\|?\s*/?\s*(?:im_start|im_end|system|user|assistant|endoftext|eot_id|start_header_id|end_header_id|begin_of_text|
        start_of_turn|end_of_turn|channel|message|tool_calls?|tool_response|function_calls?|invoke|think)\b
    | \[/?INST\] | <</?SYS>> | </?s> | \bHuman:\s | (?:^|\n)\s*(?:\W{0,4}\s*)(?:system|assistant|user|developer)\s*(?:\W{0,2})\s*:
    | (?:^|[\n"'`])\s*\#{1,6}\s*(?:goal|constraints?|decisions?|facts?|files?|open\s+questions?|current\s+state|superseded|
        system|instructions?|user|assistant)\b
    | \[\s*(?:previous\s+conversation\s+summary|end\s+of\s+summary|tool\s+calls\s+from|conversation\s+summary)
    | ={3,}\s*(?:[0-9a-f]{6,}|end|record|messages|begin)
    | \]:\s\#
    """,
    re.IGNORECASE | re.VERBOSE,
)


def suspicious(text: str) -> bool:
    """Whether `text` reads like an order to an assistant, or like a part of a prompt or of a summary message."""
    return bool(_INSTRUCTS.search(text) or _STRUCTURE.search(text))


def structural(text: str) -> bool:
    """Whether `text` has role tags, section heads, marker lines or fences: what no line of a record may carry."""
    return bool(_STRUCTURE.search(text))
