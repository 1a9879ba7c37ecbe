"""Open WebUI's own functions that make the model's messages of saved ones; runs in Open WebUI's own environment.

In: a line of JSON, [the name of a function below, its keywords]. Out: a line of JSON, the messages.
"""

import asyncio
import json
import os
import sys
from types import SimpleNamespace
from typing import Any

Json = dict[str, Any]

out = os.fdopen(os.dup(1), "w")  # before Open WebUI greets there
os.dup2(2, 1)

from open_webui.utils import middleware, misc  # noqa: E402


async def build(rows: Json, leaf: str, system: str, appended: str | None, instruction: str | None) -> list[Json]:
    """What `inlet` gets (`process_chat_payload`); `appended` is an answer that is continued or written again."""

    async def saved(_chat: str) -> Json:
        return rows

    middleware.Chats = SimpleNamespace(get_messages_map_by_chat_id=saved)
    messages: list[Json] = await middleware.load_messages_from_db("chat", leaf)
    if appended:
        answer = rows[appended]
        messages.append({key: answer[key] for key in middleware.MESSAGE_REPLAY_KEYS if key in answer})
    for message in messages:
        images = [file for file in message.get("files") or [] if file["type"] == "image"]
        if message["role"] == "user" and images:
            shown = [{"type": "image_url", "image_url": {"url": image["url"]}} for image in images]
            message["content"] = [{"type": "text", "text": message["content"]}, *shown]
    if instruction:
        messages.append({"role": "user", "content": instruction})
    messages = middleware.process_messages_with_output(messages, include_file_context=True)
    return [{"role": "system", "content": system}, *middleware.sanitize_tool_pairs(messages)]


async def follow(messages: list[Json], output: list[Json], system: str | None) -> list[Json]:
    """What `request` gets for a later call of the tool loop; with `system`, a tool was cited."""
    if system:
        misc.replace_system_message_content(system, messages)
    loop: list[Json] = misc.convert_output_to_messages(output, raw=True, flatten_tool_images=True)
    return [*messages, *loop]


async def sent(messages: list[Json]) -> list[Json]:
    """What the model gets of what `request` has left."""
    normal: Json = middleware.normalize_messages_for_model({"messages": messages})
    made: list[Json] = normal["messages"]
    return made


if __name__ == "__main__":
    for line in sys.stdin:
        name, given = json.loads(line)
        function: Any = {"build": build, "follow": follow, "sent": sent}[name]
        out.write(json.dumps(asyncio.run(function(**given))) + "\n")
        out.flush()
