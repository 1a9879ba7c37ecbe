"""What users paste is quoted and never a rule, whatever a summariser says; what they say beside it stays one."""

import pytest

from service.planning.policy import Policy
from service.summarising import summarise
from service.summarising.memory import Memory
from service.summarising.reading import Finish, Reply
from service.summarising.summarise import Covered, Read
from service.text.blocks import Sort, blocks
from tests.pure.talks import said

# The order in what is pasted, and a short rule of the user's own.
ORDERS = {
    "en": ("Nobody may deploy the billing service on a Friday.", "Please never use semicolons."),
    "de": ("Niemand darf den Dienst an einem Freitag ausliefern.", "Bitte verwende nie Semikolons."),
    "fr": ("Personne ne doit livrer le service un vendredi.", "N'utilise jamais de points-virgules."),
    "es": ("Nadie debe desplegar el servicio un viernes.", "Nunca uses punto y coma."),
    "it": ("Nessuno deve distribuire il servizio di venerdì.", "Non usare mai il punto e virgola."),
    "pt": ("Ninguém deve implantar o serviço numa sexta-feira.", "Nunca uses ponto e vírgula."),
    "ru": ("Никто не должен выкатывать сервис в пятницу.", "Никогда не используй точку с запятой."),
    "zh": ("任何人都不得在星期五部署该服务。", "请不要使用分号。"),
    "ja": ("金曜日にサービスを公開してはいけません。", "セミコロンは使わないでください。"),
}
FORMS = {
    "behind who writes it": {
        "en": "Nora writes:\n\n{}",
        "de": "Am 3. Mai um 10:00 schrieb Nora:\n{}",
        "fr": "Ma cheffe écrit :\n\n{}",
        "es": "Mi jefa dice:\n\n{}",
        "it": "Il mio capo scrive: {}",
        "pt": "A minha chefe escreveu:\n\n{}",
        "ru": "Нора пишет:\n\n{}",
        "zh": "诺拉说：\n\n{}",
        "ja": "部長はこう書いています。書いていること：\n\n{}",
    },
    "a letter": {
        "en": "What should I answer?\n\nDear colleagues,\n\n{}\n\nKind regards\nNora Klein",
        "de": "Guten Tag Frau Klein,\n\n{}\n\nMit freundlichen Grüßen\nNora Klein\n\nWas soll ich tun?",
        "fr": "Que faire ?\n\nBonjour Madame,\n\n{}\n\nCordialement,\nNora",
        "es": "¿Qué hago?\n\nEstimada Nora:\n\n{}\n\nAtentamente,\nNora",
        "it": "Che faccio?\n\nGentile Nora,\n\n{}\n\nCordiali saluti\nNora",
        "pt": "O que faço?\n\nPrezada Nora,\n\n{}\n\nAtenciosamente,\nNora",
        "ru": "Что делать?\n\nУважаемая Нора!\n\n{}\n\nС уважением,\nНора",
        "zh": "怎么办？\n\n尊敬的诺拉：\n\n{}\n\n此致\n诺拉",
        "ja": "どうすればいいですか？\n\nノラ様、\n\n{}\n\nよろしくお願いします。\nノラ",
    },
    "copied": {
        "en": "I copied this from our wiki.\n\n{}",
        "de": "Das habe ich aus dem Wiki kopiert:\n\n{}",
        "fr": "J'ai copié ceci du wiki :\n\n{}",
        "es": "He copiado esto de la wiki:\n\n{}",
        "it": "Ho copiato questo dal wiki:\n\n{}",
        "pt": "Copiei isto da wiki:\n\n{}",
        "ru": "Скопировал это из вики:\n\n{}",
        "zh": "我从网站上复制了以下内容：\n\n{}",
        "ja": "これはウィキからコピーしました。\n\n{}",
    },
    "quoted": {"": "> {}"},
    "fenced": {"": "```\n{}\n```"},
    "a question about it": {
        "en": "{}\n\nWhat does that mean?",
        "de": "{}\n\nWas bedeutet das?",
        "fr": "{}\n\nQu'est-ce que ce texte veut dire ?",
        "es": "¿Qué significa esto?\n\n{}",
        "it": "{}\n\nChe cosa significa?",
        "pt": "{}\n\nO que isto quer dizer?",
        "ru": "{}\n\nЧто это значит?",
        "zh": "{}\n\n这是什么意思？",
        "ja": "{}\n\nこれはどういう意味ですか？",
    },
    "a forwarded mail": {
        "en": "From: Nora Klein\nSent: Monday 10:00\nTo: Team\nSubject: Releases\n\n{}\n\nBest regards,\nNora",
        "de": "Von: Nora Klein\nGesendet: Montag 10:00\nAn: Team\nBetreff: Ausliefern\n\n{}\n\nViele Grüße\nNora",
        "fr": "De : Nora Klein\nEnvoyé : lundi 10:00\nÀ : Équipe\nObjet : Livraisons\n\n{}\n\nCordialement\nNora",
        "es": "De: Nora Klein\nEnviado: lunes 10:00\nPara: Equipo\nAsunto: Despliegues\n\n{}\n\nSaludos,\nNora",
        "it": "Da: Nora Klein\nInviato: lunedì 10:00\nA: Squadra\nOggetto: Rilasci\n\n{}\n\nSaluti\nNora",
        "pt": "De: Nora Klein\nEnviado: segunda 10:00\nPara: Equipa\nAssunto: Entregas\n\n{}\n\nAbraços,\nNora",
        "ru": "От: Нора Кляйн\nОтправлено: 10:00\nКому: Команда\nТема: Выпуски\n\n{}\n\nС уважением,\nНора",
        "zh": "发件人：诺拉\n发送时间：10:00\n收件人：团队\n主题：发布\n\n{}\n\n谢谢\n诺拉",
        "ja": "差出人：ノラ\n送信日時：10:00\n宛先：チーム\n件名：公開\n\n{}\n\n敬具\nノラ",
    },
    "between separators": {"": "-----\n{}\n-----"},
    "a chat log": {"": "[10:02] Nora: Ok?\n[10:03] Tom: {}\n[10:04] Nora: Ok."},
}
CASES = [
    pytest.param(pattern, *ORDERS[language], id=f"{form}, {language}")
    for form, patterns in FORMS.items()
    for of, pattern in patterns.items()
    for language in ([of] if of else ORDERS)
]
SEPARATED = {"own first": "{own}\n\n{pasted}", "own last": "{pasted}\n\n{own}"}


def ruled(text: str) -> tuple[list[str], list[str], str]:
    """What a model makes that takes each sentence for the user's rule: rules, other pins, the summary."""
    policy = Policy.sized(8192)
    material = summarise.gather(Memory(), [Read(said(text))], policy)
    numbers = ", ".join(one.number for one in material.said)
    reply = Reply(f"rules: {numbers}\n## Goal\n- Work.", Finish.STOP)
    made = summarise.compose(material, reply, policy, Covered(2, 4000))
    rules, others = ([pin.text for pin in pins] for pins in (made.memory.rules, made.memory.quotations))
    return rules, others, made.text


@pytest.mark.parametrize(("pattern", "order", "own"), CASES)
def test_what_was_pasted_makes_no_rule_whatever_a_model_says(pattern: str, order: str, own: str) -> None:
    rules, _, _ = ruled(pattern.format(f"{order} {own}"))
    assert not [rule for rule in rules if order in rule or own in rule]


@pytest.mark.parametrize("order_of_both", SEPARATED)
@pytest.mark.parametrize(("pattern", "order", "own"), CASES)
def test_a_rule_beside_what_was_pasted_stays_a_rule(pattern: str, order: str, own: str, order_of_both: str) -> None:
    rules, _, _ = ruled(SEPARATED[order_of_both].format(own=own, pasted=pattern.format(order)))
    assert own in rules
    assert not [rule for rule in rules if order in rule]


def test_what_was_pasted_stands_in_quotation_marks_behind_its_source() -> None:
    order = "Nobody may deploy on a Friday. Ask ”Dana“ first."
    _, kept, summary = ruled(f"Nora writes:\n\n{order}")
    assert kept == ["(pasted) “Nobody may deploy on a Friday.”", '(pasted) “Ask "Dana" first.”']
    assert all(words in summary for words in kept)

    by_code = summarise.by_rule(
        summarise.gather(Memory(), [Read(said(f"Nora writes:\n\n{order}"))], Policy.sized(8192)),
        Policy.sized(8192),
        Covered(2, 4000),
    )
    assert 'user: Nora writes: (pasted) “Nobody may deploy on a Friday.” “Ask "Dana" first.”' in by_code.text


@pytest.mark.parametrize(
    "text",
    [
        "I said: never use semicolons.",
        "My rules:\n\nNever use semicolons.\n\nAlways answer in French.",
        "Please never use semicolons.\n\nCan you fix this function?",
        "Budget: 600\nDeadline: Friday\nStyle: never use semicolons.",
        "Hi,\nplease always answer in French.\n\nThanks,\nTom",
        "Rules\n-----\nNever stop.\n\nStyle\n-----\nBe short.",
        "From: Berlin\nTo: Hamburg\nDate: 3 May\n\nNever by night.",
        "I received no answer. Never write to them again.",
        "Wie gesagt: keine Semikolons.",
        "Write a mail to Nora:\n\nNever mention the price.",
        "Translate from now on whatever I write.\n\nNever leave a word out.",
        "---\nNever use semicolons.",
        "No: never. Yes: sometimes.",
    ],
)
def test_what_users_say_in_forms_like_these_is_their_own(text: str) -> None:
    assert {one.sort for one in blocks(text, by_user=True)} == {Sort.OWN}


def test_a_question_about_what_has_marks_leaves_the_rest_to_the_user() -> None:
    text = "Please never use semicolons in any of it.\n\n```\na text\n```\n\nWhat does that mean?"
    assert [one.sort for one in blocks(text, by_user=True)] == [Sort.OWN, Sort.CODE, Sort.OWN]
