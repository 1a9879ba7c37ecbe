"""The fake of Open WebUI that the demonstration has, which knows owners too, and notes what is read."""

from dataclasses import dataclass, field

from service.demo import host
from service.demo.host import Rows


@dataclass
class Host(host.Host):
    """`reads` are the chats whose rows were read, in order; a chat without one of `owners` is whoever's asks."""

    reads: list[str] = field(default_factory=list)
    owners: dict[str, str] = field(default_factory=dict)

    async def get_messages_map_by_chat_id(self, chat_id: str) -> Rows | None:
        self.reads.append(chat_id)
        return await super().get_messages_map_by_chat_id(chat_id)

    async def get_chat_by_id_and_user_id(self, chat_id: str, _user_id: str) -> Rows | None:
        return self.chats.get(chat_id) if self.owners.get(chat_id, _user_id) == _user_id else None
