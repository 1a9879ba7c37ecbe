"""A summariser that is a mailbox: the chat's host asks one of its models, and hands the answer in.

No worker waits for that. `summarise` looks for the reply to its prompt; where there is none, the
round is put down with the prompt, and taken up again when the reply is there. Equal readings make
equal prompts, so a digest of the prompt is all that leads to its reply.
"""

import asyncio
import hashlib
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from sqlalchemy.ext.asyncio import AsyncEngine

from service.errors import PrecisError, SummariserAway, SummariserError
from service.planning.policy import count_output_tokens
from service.processes import Texts, replies
from service.storage import codec, prompts
from service.storage.jobs import Endpoint
from service.storage.prompts import Basis, NewPrompt, StoredReply
from service.storage.tables import ChatKey
from service.summarising.prompt import build
from service.summarising.reading import Reading, Reply

_TEMPERATURE: Final = 0.3
_encode = msgspec.json.Encoder(order="sorted").encode


class ReplyPending(PrecisError):
    """The round is put down, for `seconds` at most: it waits for the reply to its prompt.

    A `new` prompt is to be stored; otherwise it is out, or the model is left alone for a while.
    """

    def __init__(self, why: str, seconds: float, new: NewPrompt | None = None) -> None:
        super().__init__(why)
        self.seconds = seconds
        self.new = new


class PromptUntaken(PrecisError):
    """No host took the prompt in time."""


@dataclass(frozen=True, slots=True)
class Mailbox:
    """Has a model of a chat's host write.

    Attributes:
        engine: the database.
        texts: the processes in which replies are read.
        chat: the chat.
        model: the host's name of the model.
        basis: what the round was planned on.
        thinking: tokens that the model may think beside what it writes.
    """

    engine: AsyncEngine
    texts: Texts
    chat: ChatKey
    model: str
    basis: Basis
    thinking: int

    @property
    def name(self) -> str:
        """See `Summariser`."""
        return make_endpoint(self.chat, self.model).name

    @property
    def _waits(self) -> str:
        return f"model {self.model!r} of the chat's host is asked"

    async def summarise(self, reading: Reading) -> Reply:
        """See `Summariser`.

        Raises:
            ReplyPending: there is no reply yet, or the model has failed too often.
            PromptUntaken: no host took the prompt in time.
            SummariserError: what the host handed in is no reply, or it handed nothing in.
        """
        form = {
            "model": self.model,
            "messages": build(reading).messages,
            "max_tokens": count_output_tokens(reading.state_tokens) + self.thinking,
            "temperature": _TEMPERATURE,
            "stream": False,
        }
        read = await self._reply_to(form)
        while isinstance(read, replies.Failure) and read.amended:
            read = await self._reply_to(read.amended)
        if isinstance(read, Reply):
            return read
        kind = SummariserAway if read.is_away else SummariserError
        model = f"model {self.model!r} of the chat's host"
        raise kind(f"{model}: {read.reason}", f"{model}: {read.detail}")

    async def _reply_to(self, form: dict[str, Any]) -> Reply | replies.Failure:
        digest = hashlib.sha256(await asyncio.to_thread(_encode, form)).hexdigest()
        async with self.engine.begin() as connection:
            stored = await prompts.find_prompt(connection, self.chat, digest)
            pause = None
            if stored is None:
                endpoint = make_endpoint(self.chat, self.model)
                pause = await prompts.find_pause(connection, endpoint, self.model)
        if pause is not None:
            why = f"model {self.model!r} has failed, and is left alone for a while"
            raise ReplyPending(why, pause)
        if stored is None:
            packed = await asyncio.to_thread(codec.pack, form)
            new = NewPrompt(digest, self.model, self.basis, packed)
            raise ReplyPending(self._waits, prompts.UNTAKEN, new)
        if stored.answer is None:
            return self._without_reply(stored)
        return await self.texts.run(replies.read_reply, stored.answer, form)

    def _without_reply(self, stored: StoredReply) -> replies.Failure:
        """The meaning of a prompt that has no reply."""
        if stored.seconds_left > 0:
            raise ReplyPending(self._waits, stored.seconds_left)
        if not stored.is_taken:
            raise PromptUntaken(
                f"nobody asked model {self.model!r} for it: Open WebUI does so after a turn of the"
                " chat, if its function is of this version"
            )
        late = "no answer in time"
        return replies.Failure(late, late, is_away=True)


def make_endpoint(chat: ChatKey, model: str) -> Endpoint:
    """Names a model of a chat's host among the other summarisers."""
    return Endpoint(f"openwebui:{model}", chat.tenant)
