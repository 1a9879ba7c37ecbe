"""Which texts of unknown origin (tool results, quotations, file names) read like orders, or like our own structure.

Such a text is data all the same, but it is not repeated where a model might take it for more: not as a ledger sample,
not as a pin, not as a line of the narrative. Rules of thumb, mostly English; what they miss still stands in a fenced
record that says that it is one. Better one sample too few than an order too many.
"""

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterator

from service.escapes import unescaped


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


# Against what was ordered before: nobody says so to an assistant in earnest.
_AGAINST = (
    r"\b(?:ignore|disregard|forget|override|bypass|do not follow|stop following)\b[^.\n]{0,30}"
    r"\b(?:all|any|previous|prior|above|earlier|preceding|your|system|safety|original|initial)\b[^.\n]{0,30}"
    r"\b(?:instructions?|prompts?|guidelines?|directives?|programming|restrictions?|safeguards?)\b",
    r"\byou (?:are|have been) (?:now (?:in )?\w+|no longer (?:an?|bound)|reprogrammed|jailbroken|freed)\b[^.\n]{0,40}"
    r"\b(?:mode|model|unrestricted|jailbroken|dan|evil|restrictions?|rules|assistant|ai)\b",
    r"\b(?:ignorier\w*|vergiss|vergesst|missachte\w*|ignore[zr]?|oublie[zr]?|ignora\w*|olvid\w+|dimentica\w*|"
    r"esque[cç]\w+|"
    r"desconsider\w+|negeer|vergeet|ignoruj|zignoruj|zapomnij|abaikan|lupakan|ignorera|bortse)\b[^.\n]{0,40}"
    r"\b(?:anweisung\w*|vorgaben|regeln|instru[^\W\d_]+|consignes|règles|reglas|regole|istruzioni|instructies|"
    r"polece\w+|instrukcj\w+)",
    r"(?:忽略|无视|無視|忘记|忘記)[^。\n]{0,12}(?:指令|指示|提示|规则|規則)|(?:指示|命令|ルール)を(?:すべて|全て)?(?:無視|忘れ)",
    r"(?:игнорируй|забудь|ігноруй)\w{0,10}[^.\n]{0,30}(?:инструкц|указани|правил|інструкц)|(?:تجاهل|"
    r"انس)[^.\n]{0,25}(?:تعليمات|أوامر)",
    r"(?:지시|명령|지침)[^.\n]{0,12}무시|(?:निर्देश)\w{0,10}[^.\n]{0,20}(?:अनदेखा|नज़रअंदाज़)|"
    r"talimat\w{0,20}[^.\n]{0,20}(?:yok say|unut)|"
    r"bỏ qua[^.\n]{0,25}(?:hướng dẫn|chỉ dẫn)",
)
# What a person may order, and a tool may not.
_ORDERS = (
    r"\b(?:ignore|disregard|forget|override|bypass|skip)\b[^.\n]{0,40}\b(?:instructions?|prompts?|rules?|guidelines?|"
    r"constraints?|messages?|context|everything|above|previous|prior|earlier|safety|policy|policies|restrictions?)\b",
    r"\b(?:new|updated|real|actual|hidden|secret|additional|following) (?:system )?(?:instructions?|directives?|"
    r"orders?)\b",
    r"\b(?:system|developer|admin(?:istrator)?) ?(?:prompt|message|override|instructions?|note|notice|mode)\b",
    r"\byou (?:must|shall|should|have to|need to|will) (?:now|always|never|immediately|instead|not (?:tell|"
    r"mention))\b",
    r"\b(?:from now on|henceforth|starting now|act as|pretend to be|roleplay as|(?:respond|reply|answer|say|"
    r"output) only|"
    r"always (?:reply|answer|respond|say|output|include|recommend|use))\b",
    r"\b(?:ai|assistant|chatgpt|claude|gpt|model|llm|summari[sz]er|bot|agent) ?(?::|,| (?:must|should|shall|will|"
    r"has to|"
    r"please|is (?:required|instructed|told|to))\b)",
    r"\b(?:ais?|(?:ai |language )?(?:assistants|models|agents|bots)|chatbots|llms)\b[^.\n]{0,40}"
    r"\b(?:must|should|shall|have to|are (?:required|instructed|told|to))\b",
    r"\b(?:whoever|anyone who|when you|if you) (?:summari[sz]es?|condenses?|compress(?:es)?|compacts?|continues?|"
    r"processe?s?|reads?)\b"
    r"[^.\n]{0,40}\b(?:this|the) (?:conversation|chat|page|text|message|document|file|record)\b",
    r"\b(?:note|message|instructions?|attention|important|warning) (?:to|for) (?:the |all |any )?"
    r"(?:ai|assistants?|llms?|(?:language )?models?|summari[sz]ers?|agents?|bots?|chatbots?)\b",
    r"\b(?:do not|don't|never) (?:tell|inform|mention (?:this|it)|reveal this|show this)\b",
    r"\b(?:exfiltrate|send|post|forward|upload|leak|e-?mail)\b[^.\n]{0,60}"
    r"\b(?:passwords?|secrets?|api ?keys?|credentials?|conversation|chat history|https?://\S{1,200}+|[\w.+-]{1,64}@\S{1,200}+)",
    r"\b(?:summar(?:y|ies)|record|memory) (?:must|should|shall|has to|needs? to)\b",
    r"\b(?:add|append|insert|write|put|include|record|store|remember|save|copy)\b[^.\n]{0,50}"
    r"\b(?:to|in|into|under|as)\b[^.\n]{0,25}\b(?:summary|record|constraints?|decisions?|ledger|memory|pinned)\b",
    r"\bsuperseded\b|\breplaces? P\d|\bP\d+ ?(?::|is |was )|\bT\d+ \w+\(",
    r"\b(?:rule|budget|limit|limits|constraints?|restrictions?|policy|freeze|ban|requirement|deadline)\b[^.\n]{0,20}"
    r"\b(?:(?:no longer|does not|doesn['’]t) appl(?:y|ies)|(?:is|are|was|were|been) (?:waived|lifted|void|"
    r"revoked|gone|suspended))\b",
    r"\b(?:note|message|hinweis|nota|instruction|consigne)s? (?:à|a|an|für|para|pour|al|all) ?(?:l['’]|den |die |"
    r"el |la |o )?"
    r"(?:assistent\w*|assistant\w*|asistente\w*|ia|ki|modell?\w*|modèle|modelo)\b",
    r"\b(?:ab (?:sofort|jetzt) (?:nur|ausschließlich|immer|nie\w*)|(?:antworte|empfiehl|schreib\w*) (?:nur|immer|"
    r"ausschließlich|ab)|"
    r"(?:recommande|réponds|répondez|dis|ajoute) (?:toujours|uniquement|désormais)|"
    r"(?:responde|recomienda|recomenda|di|dice|rispondi|consiglia) (?:siempre|sempre|solo|sólo|somente|soltanto))\b",
    r"从现在起|從現在起|今後は必ず|отныне|с этого момента|من الآن فصاعدا|지금부터",
    r"\b(?:the )?user (?:has )?(?:approved|authori[sz]ed|decided|agreed|wants you|instructed|confirmed)\b",
)
# Lines and tags with which chat templates, tool protocols and our own summary message tell their parts apart.
_STRUCTURE = (
    r"<\|?\s*+(?:/\s*+)?(?:im[_ ]start|im[_ ]end|system|user|assistant|endoftext|eot[_ ]id|start[_ ]header[_ ]id|end[_ "
    r"]header[_ ]id|"
    r"begin[_ ]of[_ ]text|start[_ ]of[_ ]turn|end[_ ]of[_ ]turn|channel|message|tool[_ ]calls?|tool[_ ]response|"
    r"function[_ ]calls?|invoke|think)\b",
    r"\[/?INST\]|<</?SYS>>|</?s>|\bHuman: ",
    # A role and what it says; `system: linux` and `user:` above a block of YAML are none.
    r"(?:^|\n)\W{0,4}(?:system|assistant|user|developer)\W{0,2}:"
    r"(?=[ \t]*[^\s:]++[ \t]+[^\s:]++(?!:)|[ \t]*\n(?![ \t-])[^\n:]{12})",
    r"(?:^|[\n\"'`])[^\S\n]*+#{1,6}\s*+(?:goal|constraints?|decisions?|facts?|files?|open questions?|current state|"
    r"superseded|"
    r"system|instructions?|user|assistant)\b",
    r"\[\s*+(?:previous conversation summary|end of summary|tool calls from|conversation summary)",
    r"(?:^|\n)[^\S\n]*+\[(?:system|user|assistant|tool (?:call|result))\]",
    r"(?<!=)={3,}+\s*+(?:[0-9a-f]{6,}|end\b|record\b|messages\b|begin\b)|\]: #",
)

_STRUCTURAL = _any(*_STRUCTURE)
_SUBVERSIVE = _any(*_AGAINST, *_STRUCTURE)
_SUSPICIOUS = _any(*_AGAINST, *_ORDERS, *_STRUCTURE)


# What a page shows of a text: nothing of these characters. Joiners are letters in some scripts, and make one picture of
# several; beside these alphabets they only break words.
_HIDDEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\U000e0000-\U000e0fff]|[\ufe00-\ufe0f]{2,}|(?<=[\x00-\u052f])[\u200c\u200d]|[\u200c\u200d](?=[\x00-\u052f]|$)"
)
_BACKWARDS = re.compile("\u202e([^\u202c\u202d\u2069\n]*)")
_LOOK_ALIKES = str.maketrans(
    "АВЕЅІЈКМНОРСТХУаԁеѕіјкмнорстхуѵԛԝɡΑΒΕΖΗΙΚΜΝΟΡΤΥΧαειοκνρτυχ",
    "ABESIJKMHOPCTXYadesijkmhopctxyvqwgABEZHIKMNOPTYXaeiokvptux",
)
_FOREIGN_WORD = re.compile(r"\b(?a:[a-z])*+[\u0370-\u052f]\w*+", re.IGNORECASE)
_LONG_NAME = re.compile(r"(?<![^\W_])[^\W_]++(?:[_-][^\W_]++){3,}")
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{32,2000}={0,2}")
_JOINERS = re.compile("[\u200c\u200d]")
_BETWEEN_WORDS = re.compile("[_-]")
_LATIN = re.compile("[A-Za-z]")
_NORMALISED = 500  # characters; runs of combining marks are sorted in quadratic time, so they have to end
_AROUND = 300  # characters behind the beginning of an order that belong to it
_ENDS = re.compile(r"(?<=[.!?。！？])\s|\n\s*\n")


def visible(text: str) -> str:
    """`text` without characters that show nothing, and with what is written backwards as it is shown."""
    if text.isascii():
        return text
    return _HIDDEN.sub("", _BACKWARDS.sub(lambda match: match[1][::-1], text))


def suspicious(text: str) -> bool:
    """Whether a text that is not a person's reads like an order to an assistant, or like a part of a prompt."""
    return bool(_SUSPICIOUS.search(_plain(text)))


def subversive(text: str) -> bool:
    """Whether a user's text, who may well give orders, imitates our structure or orders against what was ordered.

    A user does so only in what was pasted without quotation marks.
    """
    return bool(_SUBVERSIVE.search(_plain(text)))


def orders(text: str, *, by_user: bool = False) -> Iterator[str]:
    """The passages of a text that are `suspicious`, or `subversive`, with what follows closely."""
    plain = _plain(text)
    end = -1
    for match in (_SUBVERSIVE if by_user else _SUSPICIOUS).finditer(plain):
        if match.start() >= end:
            begin = max(
                (one.end() for one in _ENDS.finditer(plain, max(match.start() - _AROUND, 0), match.start())), default=0
            )
            end = match.end() + _AROUND
            yield plain[begin or max(match.start() - _AROUND, 0) : end]


def structural(text: str) -> bool:
    """Whether `text` has role tags, section heads, marker lines or fences: what no line of a record may carry."""
    return bool(_STRUCTURAL.search(text))


def defused(text: str) -> str:
    """`text` without what could end the record that it stands in, or open another part of the prompt around it."""
    return _STRUCTURAL.sub("[…]", text)


def _plain(text: str) -> str:
    """What somebody reads who reads everything: without disguises of escapes, alphabets, long names and base64."""
    if "&" in text:
        text = unescaped(unescaped(unescaped(text)))
    if not text.isascii():
        text = _JOINERS.sub("", _normalised(visible(text)))
        text = _FOREIGN_WORD.sub(_in_one_alphabet, text)
    text = _LONG_NAME.sub(lambda match: _BETWEEN_WORDS.sub(" ", match[0]), text)
    return _ENCODED.sub(lambda match: f"{match[0]} {_decoded(match[0])}", text)


def _normalised(text: str) -> str:
    parts = (text[place : place + _NORMALISED] for place in range(0, len(text), _NORMALISED))
    return "".join(unicodedata.normalize("NFKC", part) for part in parts)


def _in_one_alphabet(match: re.Match[str]) -> str:
    return match[0].translate(_LOOK_ALIKES) if _LATIN.search(match[0]) else match[0]


def _decoded(word: str) -> str:
    """The text that is written in base64, if it is one."""
    try:
        text = base64.b64decode(
            word.rstrip("=") + "=" * (-len(word.rstrip("=")) % 4), altchars=b"-_" if set(word) & {*"-_"} else None
        )
        said = text.decode()
    except (binascii.Error, ValueError):
        return ""
    return said if said.isprintable() else ""
