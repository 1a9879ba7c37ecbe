"""What kind of entry a sentence makes, by rule; and whether it says that something earlier holds no more. Pure.

Rules for the languages that most chats are in. They are not meant to understand: they err towards keeping, because
what a rule keeps too much costs a line, and what it misses is only in the narrative. `weight` orders what is kept when
room is short.
"""

import re

from service.summarising import values
from service.summarising.memory import Kind
from service.summarising.sentences import Sentence


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_BINDING = _any(
    r"\b(?:must(?:n['’]t)?|never|always|forbidden|prohibited|banned|mandatory|required?s?|requirements?|constraints?|"
    r"compliance|strictly|whenever|every time|each time|any time|under no circumstances|no matter what|"
    r"off[- ]limits|hands off|not allowed|not permitted|"
    r"may not|cannot|can['’]t have|shall(?: not)?|at most|at least|no more than|no less than|no later than|"
    r"no earlier than|max(?:imum|imal)?|minimum|up to|deadlines?|due (?:by|on|date)|budget|cap|ceiling|limit(?:ed)?s?|"
    r"hard (?:stop|cap|limit|requirement)|non[- ]negotiable|rules?|policy|polic(?:y|ies)|guideline|"
    r"(?:only|not?|nothing|nobody|anyone|anything|without|unless|until|before|except)\b.{0,60}\b(?:approv\w*|"
    r"permission|"
    r"sign[- ]?off|consent|review(?:ed|s)?|confirm\w*|ok from|say[- ]so|asking|ask(?:ed)? me))\b",
    r"\b(?:keep (?:in mind|everything|all|it (?:under|below|within))|make sure|ensure|remember(?: that)?|"
    r"stick (?:to|with)|"
    r"stay (?:under|below|within|away)|stays? (?:untouched|frozen|private|offline|read-only)|leave\b.{0,40}\balone|"
    r"don['’]?t (?:ever|touch|change|use|send|share|delete|push|deploy|commit|store|log|add|remove|rename|book|exceed|"
    r"mention|include|publish|edit|modify|contact|call|install|upgrade|merge|expose|run|write|spend)|"
    r"do not \w+|is (?:frozen|fixed|final|off the table|confidential)|are (?:frozen|fixed|confidential)|"
    r"has to|have to|needs? to (?:be|stay|remain|fit|work|run|support|happen|go)|no (?:external|third[- ]party|new|"
    r"extra|"
    r"more|further|other|direct|hard[- ]?coded|personal|private|paid|public|production|weekend|network)\b)",
    r"\b(?:muss|müssen|musst|nie(?:mals)?|immer|darf(?:st)?|dürfen|verboten|untersagt|pflicht|zwingend|unbedingt|"
    r"auf keinen fall|keinesfalls|höchstens|mindestens|maximal|spätestens|frühestens|frist|budget|obergrenze|vorgabe|"
    r"regel|grundsatz|ausschließlich|nicht (?:ohne|vor|mehr als|löschen|ändern|verwenden|benutzen|anfassen|teilen)|"
    r"achte darauf|denk daran|stell sicher|bleibt (?:gesperrt|unverändert|unberührt)|keine? (?:externen?|neuen?|"
    r"weiteren?))\b",
    r"\b(?:doit|doivent|ne\b.{1,30}\b(?:jamais|pas)|toujours|interdit\w*|obligatoire|au plus|au maximum|au moins|"
    r"délai|échéance|sans (?:accord|validation)|uniquement|règle|contrainte|il faut)\b",
    r"\b(?:debe[ns]?|nunca|siempre|prohibid[oa]s?|obligatori[oa]|como máximo|al menos|a más tardar|plazo|presupuesto|"
    r"sin (?:aprobación|permiso)|solamente|regla|restricción|hay que)\b",
    r"\b(?:deve|devono|mai|sempre|vietat[oa]|obbligatori[oa]|al massimo|almeno|entro|scadenza|soltanto|regola|bisogna|"
    r"devem|proibid[oa]|no máximo|pelo menos|prazo|regra|restrição|é preciso)\b",
    r"必须|不得|禁止|不要|不能|只能|最多|至少|务必|必ず|決して|しないで|してはいけない|"
    r"まで(?:に)|нельзя|никогда|всегда|обязательно|не более|должн",
)
_LIMITING = _any(
    r"\b(?:only|exactly|won['’]?t|shouldn['’]?t|should|avoid|without|unless|until|except|under|below|within|"
    r"by (?:monday|tuesday|wednesday|thursday|friday|saturday|sunday|the end|eod|noon|midnight)|"
    r"before (?:the|we|you|i|any|monday|tuesday|wednesday|thursday|friday|noon|\d)|nothing|nobody|nowhere|"
    r"nur|ohne|seulement|sans|avant|sólo|solo|sin|antes|senza|prima|sem)\b",
    r"(?:^|[,;:.] |\b(?:and|but|so|please|also|then|und|aber|bitte) )(?:don['’]?t|do not|no|not|kein\w*|nicht|pas de) "
    r"(?!(?:know|think|worry|problem|idea|need to|sure|yet|bad|really|matter|wonder|one|doubt|longer)\b)\w",
)
_PREFERRED = _any(
    r"\b(?:prefer\w*|i(?:['’]d| would) (?:rather|like|love|appreciate)|i (?:like|love|hate|dislike|want (?:it|them|"
    r"you|all|the)|"
    r"don['’]?t (?:like|want)|enjoy|find)|favou?rite|my (?:style|taste|preference)|instead of|rather than|ideally|"
    r"nicer|please (?:use|write|keep|answer|reply|give|format|call|stick|avoid|skip|put|show|address)|"
    r"keep (?:it|them|answers|replies|the)|answer me|in (?:plain|simple) (?:english|words)|tone|"
    r"works? (?:best|better) for me|suits? me|(?:short|terse|brief|concise|formal|informal|bullet)\w*|"
    r"allerg\w+|vegetarian|vegan|bevorzuge|lieber|am liebsten|ich (?:mag|hätte gern|möchte)|gerne?|bitte (?:nutze|"
    r"verwende|"
    r"schreib|antworte|halte)|duz|siez|préfère|j['’]aime|je voudrais|plutôt|s['’]il te plaît|prefiero|me gusta|"
    r"preferisco|mi piace|prefiro|gosto)\b",
    r"喜欢|偏好|最好|好き|の方がいい|предпочита|лучше",
)
_DECIDED = _any(
    r"\bwe(?:['’]re| are) (?!trying|building|planning|preparing|migrating|working|looking|hoping|still|now)\w+ing\b",
    r"\b(?:decid\w+|decision|we(?:['’]ll| will| are going to|['’]re going) (?:use|go|keep|take|do|move|stay|stick|"
    r"with|build|"
    r"ship|drop|start|make|put|call)|i(?:['’]ll| will) (?:go|take|use|keep)|let['’]?s (?:use|go|keep|take|do|move|stay|"
    r"stick|make|call|drop|start|build|ship|put|settle|have|say)|agreed|chose|chosen|choose|pick(?:ed)?|settled?|"
    r"go(?:ing)? (?:with|for)|went with|it is,? then|it['’]s (?:settled|decided|a deal)|switch(?:ed|ing)? to|approved?|"
    r"signed off|final(?:ly|ised|ized)?|option \w+ (?:it is|wins)|winner|from now on|we are (?:using|going|moving|"
    r"keeping)|"
    r"entschieden|entscheidung|beschlossen|wir (?:nehmen|bleiben|machen|nutzen|verwenden|gehen)|einigen|festgelegt|"
    r"décid\w+|on (?:prend|garde|part|utilise)|choisi\w*|retenu|decidi\w+|nos quedamos|vamos a usar|elegi\w+|deciso|"
    r"usiamo|scelto|decidimos|escolh\w+)\b",
    r"决定|决定用|就用|に決め|にしましょう|решили|выбра",
)
_AIMED = _any(
    r"\b(?:(?:the|my|our|main|overall|end) (?:goal|aim|objective|task|target|plan|project|mission)\b|goal\b|"
    r"i(?:['’]m| am) (?:trying|working on|building|planning|writing|preparing|looking to|migrating)|"
    r"i(?: would|['’]d)? (?:want|need|have|like|hope) to|we(?:['’]re| are) (?:trying|building|planning|preparing|"
    r"migrating|"
    r"working)|we (?:want|need|have|hope) to|help me|(?:it|this|all this|exercise|project|chat|"
    r"thread) is (?:all )?about|the (?:point|purpose|idea) (?:of|is|here)|so that we can|what i(?:['’]m| am) after|"
    r"in the end|"
    r"ziel|ich (?:will|möchte|brauche|plane|arbeite)|wir (?:wollen|möchten|brauchen|planen|müssen)|hilf mir|"
    r"(?:mon|notre|l['’]) ?(?:but|objectif)|je (?:veux|dois|cherche)|nous (?:voulons|devons)|objetivo|quiero|queremos|"
    r"necesito|obiettivo|voglio|vogliamo|quero|precisamos|preciso)\b",
    r"目标|我想|我们要|目的|したい|цель|хочу|хотим",
)
_REPLACES = _any(
    r"\b(?:instead|no longer|not\b.{1,40}\b(?:any ?more|any longer)|change[ds]?|changing|correction|correct (?:that|"
    r"myself)|"
    r"actually|scrap|scratch|forget (?:about|the|what|that)|rather than|replac\w+|moved?|moving|switch\w*|"
    r"updat\w+|now|new|raised?|lowered|increased?|decreased?|cut (?:to|from|down)|bumped?|extended|postponed|"
    r"brought forward|"
    r"make (?:that|it)|was (?:wrong|a typo|a mistake|off)|i (?:meant|mis\w+|was wrong)|sorry|overrul\w+|supersed\w+|"
    r"revis\w+|"
    r"not \S+,? (?:but|it['’]s)|drop(?:ped|ping)?|cancel\w*|revert\w*|undo|renamed?|wait|on second thought|after all|"
    r"changed (?:my|our) mind|becomes?|as of|effective|"
    r"push(?:ed)? (?:back|out)|put (?:back|off)|slip(?:ped|s)?|delay\w*|reschedul\w+|newer|newest|latest|re-?count\w*|"
    r"(?:counted|checked|looked|asked|measured)\b.{0,30}\bagain|more like|turn(?:s|ed) out|it(?:['’]ll| will) be|"
    r"going to be|could(?:n['’]t| not) (?:hold|"
    r"keep|make)|"
    r"takes? over|took over|hands? over|steps? in|stand(?:s|ing)? in|(?:is|got|fell) (?:sick|ill)|on leave|left us|"
    r"has left|quit|"
    r"in (?:his|her|their|its) place|since then|meanwhile|by now|these days|goalposts)\b",
    r"\b(?:statt(?:dessen)?|nicht mehr|jetzt|neu\w*|nun|korrektur|eigentlich|doch|vergiss|verschoben|geändert|ändert|"
    r"ändern|ersetz\w+|sondern|erhöht|gesenkt|ab sofort|nachgezählt|inzwischen|mittlerweile|krank|übernimmt|"
    r"vertritt|gekündigt|verschiebt|verlegt|"
    r"aktualisiert|stellt sich heraus|anders als|plutôt|ne\b.{1,30}\bplus|maintenant|désormais|finalement|remplac\w+|"
    r"nouve\w+|en lugar|ya no|ahora|corrección|cambi\w+|mejor|invece|non\b.{1,30}\bpiù|adesso|ora|nuov\w+|agora|"
    r"em vez|não\b.{1,30}\bmais|nov[oa])\b",
    r"改成|改为|不再|而不是|现在|に変更|ではなく|вместо|теперь|больше не",
)
_YES = re.compile(
    r"\A\s*+(?:yes|yep|yeah|yup|sure|ok(?:ay)?|agreed|right|correct|exactly|perfect|deal|go ahead|do (?:it|that)|"
    r"sounds good|"
    r"fine|please do|no|nope|not? yet|ja|jo|genau|gerne|einverstanden|passt|nein|oui|d['’]accord|non|sí|si|vale|claro|"
    r"va bene|sim|não|好的?|是的?|对|不|はい|いいえ|да|нет)\b",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"(?:\?|？)[\"')\]”’»]*$|^(?:(?:and|but|so|ok|okay|hi|hello|hey|please|also|then|now|next|great|thanks)[,.!:]?\s+)*"
    r"(?:can|could|would|will|what|how|why|who|when|where|which|show|give|tell|write|explain|list|find|run|check|"
    r"summari[sz]e|"
    r"make|create|draft|look|compare|calculate|describe|let me|kannst|könntest|was|wie|warum|wer|wann|wo|welche|zeig|"
    r"erklär\w*|schreib\w*|peux|pourrais|quel\w*|comment|montre|puedes|qué|cómo|muestra)\b",
    re.IGNORECASE,
)
# `Don't book anything yet, ok?` asks nothing.
_TAG = re.compile(
    r",? ?\b(?:ok(?:ay)?|alright|right|please|yes|will you|would you|deal|got it|agreed|gell|oder|ja|ne|bitte|klar|"
    r"d['’]accord|non|oui|vale|sí|va bene|tá) ?\?$",
    re.IGNORECASE,
)
_CHATTER = re.compile(
    r"\A\W*+(?:thanks?|thank you|great|cool|nice|perfect|hi|hello|hey|good (?:morning|evening)|ok(?:ay)?|sounds good|"
    r"wonderful|awesome|danke\w*|super|hallo|guten|merci|bonjour|gracias|hola|grazie|ciao|"
    r"obrigad\w+)\b\W*+(?:\w++\W*+){0,3}",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"\A\W*+(?:(?P<constraint>(?:safety|house|hard|ground|business|team)?\s*(?:rules?|constraints?|requirements?|"
    r"restrictions?|"
    r"limits?|policy|regel|vorgabe|contrainte|règle|regla|restricción))|(?P<decision>decisions?|decided|entscheidung|"
    r"décision|decisión)|(?P<preference>(?:user )?(?:preferences?|style)|vorliebe|préférence|preferencia)|"
    r"(?P<goal>(?:goal|task|aim|objective)(?: state)?|ziel|but|objectif|objetivo)|(?P<value>facts?|notes?|info|fyi|"
    r"fakt))"
    r"(?:\s*#?\d+)?\s*[:\-–—]\s",
    re.IGNORECASE,
)


def kind_of(sentence: Sentence) -> Kind | None:
    """What the sentence makes; None when it is nothing to keep.

    Only a user binds: assistants' sentences make values and files. A question or a request makes nothing, unless it
    says a value or a limit on the way.
    """
    text = _TAG.sub(".", sentence.own)
    if sentence.role != "user":
        return Kind.VALUE if len(_weighty(text)) >= 1 and not text.endswith("?") else None
    if sentence.role == "user" and (label := _LABEL.match(text)) and label.lastgroup:
        return Kind(label.lastgroup)
    asks = bool(_ASKS.search(text))
    if _BINDING.search(text) and not (asks and text.endswith("?")):
        return Kind.CONSTRAINT
    if _DECIDED.search(text) and not asks:
        return Kind.DECISION
    if _PREFERRED.search(text) and not text.endswith("?"):
        return Kind.PREFERENCE
    if _AIMED.search(text) and not text.endswith("?"):
        return Kind.GOAL
    if _LIMITING.search(text) and not asks and len(text) >= 12:
        return Kind.CONSTRAINT
    if _weighty(text):
        return Kind.VALUE
    if sentence.first and asks:
        return None
    return None if asks or _CHATTER.fullmatch(text) or len(text.split()) < 3 else Kind.FACT


def weight(kind: Kind, text: str, role: str) -> int:
    """How much an entry is worth when room is short.

    What a user said goes before all that an assistant did, because only users bind, and they do so in words that no
    rule knows, too. Then binding words go before hints.
    """
    rank = (len(Kind) - list(Kind).index(kind)) * 4
    if kind is Kind.CONSTRAINT and not (_BINDING.search(text) or _LABEL.match(text)):
        rank -= 14  # a hint such as "only" comes after what a user decided, prefers and aims at
    return rank + 100 * (role == "user") + 50 * (role == "user" and bool(_LABEL.match(text)))


def replaces(text: str) -> bool:
    """Whether a sentence has words that tell of a change or a correction."""
    return bool(_REPLACES.search(text))


def confirms(sentence: Sentence) -> bool:
    """Whether it answers a question with yes or no, and says little more."""
    return sentence.role == "user" and sentence.first and bool(_YES.match(sentence.text)) and len(sentence.text) <= 80


def _weighty(text: str) -> list[values.Value]:
    return [value for value in values.found(text) if value.weighty] if values.marked(text) else []
