"""What is said around planted sentences, in each language of the generated chats."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wording:
    """The words of one language.

    Attributes:
        noted: the assistant says back what the user said.
        looking: before a call.
        found: after one.
        used: after one, with the value that it was about.
        joined: two sentences in one.
        choice: a question, its short answer, and the word of that to be found again.
        listed: the head of a list.
        entries: of the list, with slots.
        blank: between sentences.
        stop: at the end of one.
    """

    noted: str
    looking: str
    found: str
    used: str
    joined: str
    choice: tuple[str, str, str]
    listed: str
    entries: tuple[str, ...]
    blank: str = " "
    stop: str = "."


_WORDINGS = {
    "en": Wording(
        noted="Noted: {}.",
        looking="Let me look at that.",
        found="Here is what came back.",
        used="The one that matters here is {}.",
        joined="{} (and while I'm at it: {})",
        choice=("Shall I go by {first} or by {second}?", "The second one.", "second"),
        listed="Still missing for {name}:",
        entries=("{n} cables", "{n} labels", "{n} boxes"),
    ),
    "de": Wording(
        noted="Notiert: {}.",
        looking="Ich sehe nach.",
        found="Das kam zurück.",
        used="Entscheidend ist hier {}.",
        joined="{} (und wo wir dabei sind: {})",
        choice=("Soll ich {first} oder {second} nehmen?", "Das zweite.", "zweite"),
        listed="Für {name} fehlen noch:",
        entries=("{n} Kabel", "{n} Schilder", "{n} Kisten"),
    ),
    "zh": Wording(
        noted="记下了：{}。",
        looking="我查一下。",
        found="查到的结果如下。",
        used="这里要看的是 {}。",
        joined="{}（顺便说一句：{}）",
        choice=("用{first}还是{second}？", "第二个。", "第二个"),
        listed="{name}还缺：",
        entries=("{n}根线", "{n}张标签", "{n}个箱子"),
        blank="",
        stop="。",
    ),
    "ja": Wording(
        noted="承知しました：{}。",
        looking="確認します。",
        found="結果は次のとおりです。",
        used="ここで大事なのは {} です。",
        joined="{}（ついでに言うと、{}）",
        choice=("{first}と{second}のどちらにしますか？", "二つ目で。", "二つ目"),
        listed="{name}にまだ足りないもの：",
        entries=("ケーブル{n}本", "札{n}枚", "箱{n}個"),
        blank="",
        stop="。",
    ),
    "ru": Wording(
        noted="Записал: {}.",
        looking="Сейчас посмотрю.",
        found="Вот что нашлось.",
        used="Здесь важно вот это: {}.",
        joined="{} (и раз уж зашла речь: {})",
        choice=("Брать {first} или {second}?", "Второй вариант.", "второй"),
        listed="Для {name} ещё не хватает:",
        entries=("{n} кабелей", "{n} табличек", "{n} коробок"),
    ),
}


def wording(language: str) -> Wording:
    """The words of a language."""
    return _WORDINGS[language]
