"""The dialog after a click: Markdown, in which no word of the chat becomes markup."""

from service.api.wire import Button, Change, ViewAnswer
from service.usecases.left_alone import SummaryView

_BEGINNING = 80  # characters of the last message that is covered
# The dialog itself would not scroll.
_SCROLLS = (
    '<div tabindex="0" style="margin-top:1em;max-height:50vh;overflow:auto;white-space:pre-wrap">'
    "{}</div>"
)
_FILLED = "{share:.0%} of the model's window: about {used:,} of {window:,} tokens."
_READY = (
    "This summary stands for the first {covered} of {all} messages{until}:"
    " about {before:,} → {after:,} tokens."
)
_FITS = "Nothing: this chat still fits, so the model is sent all of it."
_PENDING = "Nothing yet: this chat needs a summary, and none is ready."
_WORKING = "A newer one is being written."
_LEFT_ALONE = (
    "Nothing: this chat is left alone, as you wanted. The model is sent it as it is, without its"
    " oldest messages when it no longer fits."
)

TITLE = "What stands for the earlier part of this chat"
RENEWED = "Precis has read this chat: what stands for its earlier part now"
# Open WebUI has no dialog without the buttons of a question.
CLOSES = "Both buttons only close this window."
# Title and text of a question, and what is told once it is confirmed.
LEAVE = (
    "Leave this chat alone?",
    "Precis will make and use no summary of this chat. When the chat no longer fits into the"
    " model's window, its oldest messages are left out.",
    "Precis leaves this chat alone. The same button has it summarised again.",
)
RESUME = (
    "Summarise this chat again?",
    "Precis leaves this chat alone now. From here on, it makes summaries of the chat again, and the"
    " model gets them in place of the earlier part.",
    "Precis summarises this chat again. The same button leaves it alone.",
)
UNANSWERED = "Nothing was changed: Precis got no answer to its question."


def make_dialog(button: Button, view: SummaryView) -> ViewAnswer:
    """The dialog after a click on a button."""
    if button == "leave":
        title, text, done = RESUME if view.left_alone else LEAVE
        change = Change(left_alone=not view.left_alone, done=done, unanswered=UNANSWERED)
    else:
        title = RENEWED if button == "now" else TITLE
        text, change = f"{describe_view(view)}\n\n{CLOSES}", None
    return ViewAnswer(title=title, text=text, change=change)


def describe_view(view: SummaryView) -> str:
    """Tells what stands for the earlier part of a branch, and how much of the window is used."""
    is_served = _is_served(view)
    used = view.after if is_served else view.before
    filled = _FILLED.format(share=used / view.window, used=used, window=view.window)
    parts = [filled, _describe_summary(view)]
    if view.working:
        parts.append(_WORKING)
    if is_served:
        summary = _escape_text(view.summary.strip())
        parts.append(_SCROLLS.format(summary))
    return "\n\n".join(parts)


def _is_served(view: SummaryView) -> bool:
    """Whether a request of the branch would carry its summary."""
    return view.is_needed and bool(view.summary) and not view.left_alone


def _describe_summary(view: SummaryView) -> str:
    """One sentence about the summary, or why there is none."""
    if view.left_alone:
        return _LEFT_ALONE
    if not _is_served(view):
        return _PENDING if view.is_needed else _FITS
    beginning = " ".join(view.until.split())[:_BEGINNING]
    until = f", up to “{_escape_text(beginning)}…”" if beginning else ""
    return _READY.format(
        covered=view.covered,
        all=view.messages,
        until=until,
        before=view.before,
        after=view.after,
    )


def _escape_text(text: str) -> str:
    """A text of which nothing is markup, in Markdown or HTML, and nothing becomes a link."""
    escaped: list[str] = []
    for character in text:
        if character.isalnum() or character == " ":
            escaped.append(character)
        # Others are left out: a character that is not printed could hide or turn the text around.
        elif character.isprintable() or character == "\n":
            escaped.append(f"&#{ord(character)};")
    return "".join(escaped)
