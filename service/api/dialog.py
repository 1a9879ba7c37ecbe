"""What a user reads of a chat's summary: Markdown, of which no word of the chat becomes markup."""

from service.usecases.left_alone import View

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


def text_of(view: View) -> str:
    """The text of the dialog."""
    parts = [_what_stands(view)]
    used = view.after if _is_served(view) else view.before
    share = used / view.window
    parts.insert(0, _FILLED.format(share=share, used=used, window=view.window))
    if view.working:
        parts.append(_WORKING)
    if _is_served(view):
        parts.append(_SCROLLS.format(_harmless(view.summary.strip())))
    return "\n\n".join(parts)


def _is_served(view: View) -> bool:
    """Whether a request of the branch would carry its summary."""
    return view.is_needed and bool(view.summary) and not view.left_alone


def _what_stands(view: View) -> str:
    """One sentence about the summary, or why there is none."""
    if view.left_alone:
        return _LEFT_ALONE
    if not _is_served(view):
        return _PENDING if view.is_needed else _FITS
    beginning = " ".join(view.until.split())[:_BEGINNING]
    return _READY.format(
        covered=view.covered,
        all=view.messages,
        until=f", up to “{_harmless(beginning)}…”" if beginning else "",
        before=view.before,
        after=view.after,
    )


def _harmless(text: str) -> str:
    """A text of which nothing is markup, in Markdown or HTML, and nothing becomes a link."""
    seen = (character for character in text if character.isprintable() or character == "\n")
    return "".join(one if one.isalnum() or one == " " else f"&#{ord(one)};" for one in seen)
