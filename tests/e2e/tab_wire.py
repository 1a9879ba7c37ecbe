"""What Open WebUI's page sends for a turn, in each version, as its own source says (the wheel has it in source maps).

In: the state of the tab. Out: the body of POST /api/chat/completions. Names of functions are those of
src/lib/components/chat/Chat.svelte and Messages.svelte. All that differs between the versions is in `Page`.
"""

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tests.builders import Json
from tests.e2e.versions import since


@dataclass(frozen=True)
class Page:
    """How the page of a version works.

    Attributes:
        lists_answers: a request names the answers; else only if there are several.
        temporary: what the id of a temporary chat begins with.
        asks_to_delete: a message is deleted by the server; else the chat is saved without it.
        names_user: a message says whose it is, and a temporary one what its id is.
        empty_tools: no tools are an empty list; else no key.
        native_tools: tools are native unless the user asks otherwise; else the user asks for it, with them.
        replays: a temporary answer is sent as its items alone.
        remembers: memory is on.
        varies: chats have variables of their own.
        controls: parameters say which of them the model's own settings hold.
    """

    lists_answers: bool
    temporary: Literal["local:", "temporary:"]
    asks_to_delete: bool
    names_user: bool
    empty_tools: bool
    native_tools: bool
    replays: bool
    remembers: bool
    varies: bool
    controls: bool


def page(version: str) -> Page:
    """The page of a version of `versions.VERSIONS`."""
    return Page(
        lists_answers=since(version, "0.11"),
        temporary="temporary:" if since(version, "0.11") else "local:",
        asks_to_delete=since(version, "0.10"),
        names_user=since(version, "0.12"),
        empty_tools=since(version, "0.12"),
        native_tools=since(version, "0.10"),
        replays=since(version, "0.10"),
        remembers=since(version, "0.10"),
        varies=since(version, "0.11"),
        controls=since(version, "0.12"),
    )


@dataclass(frozen=True)
class Ask:
    """A request for answers.

    Attributes:
        user: the message that is answered.
        answers: the empty answers, one for each model; or the one that is continued.
        path: the messages down to the first answer, it included.
        instruction: of a guided regeneration.
        replaced: the answer that is regenerated under an instruction.
        continued: the answer is written on.
    """

    user: Json
    answers: Sequence[Json]
    path: Sequence[Json]
    instruction: str | None = None
    replaced: Json | None = None
    continued: bool = False


@dataclass
class Choices:
    """What the user has set in the tab, for the requests to come."""

    system: str | None = None
    params: Json | None = None
    tool_ids: Sequence[str] = ()


def typed(text: str, parent: str | None, files: Sequence[Json], models: Sequence[str]) -> Json:
    """A message of the user's."""
    message: Json = {
        "id": str(uuid.uuid4()),
        "parentId": parent,
        "childrenIds": [],
        "role": "user",
        "content": text,
        "timestamp": int(time.time()),
        "models": list(models),
    }
    return message | ({"files": list(files)} if files else {})


def unwritten(parent: str, model: str, index: int) -> Json:
    """An answer that is still to come."""
    return {
        "parentId": parent,
        "id": str(uuid.uuid4()),
        "childrenIds": [],
        "role": "assistant",
        "content": "",
        "model": model,
        "modelName": model,
        "modelIdx": index,
        "timestamp": int(time.time()),
        "done": False,
    }


def text_of(output: Sequence[Json]) -> str:
    """`getOutputText`."""
    messages = [one for one in output if one.get("type") == "message"]
    return "\n".join("".join(part.get("text", "") for part in one["content"]) for one in messages)


def with_text(output: Sequence[Json], text: str) -> list[Json]:
    """The output with this text in its last message, and none in the others."""
    changed: list[Json] = [dict(one) for one in output]
    messages = [one for one in changed if one.get("type") == "message"]
    for one in messages:
        one["content"] = [{"type": "output_text", "text": text if one is messages[-1] else ""}]
    return changed


def completion(page: Page, ask: Ask, choices: Choices, *, chat_id: str | None, new: bool, temporary: bool) -> Json:
    """`sendMessageSocket`; the caller adds who asks: session_id, model_item, variables."""
    first = ask.answers[0]
    asked = {"function_calling": "native"} if choices.tool_ids and not page.native_tools else {}
    params = asked | (choices.params or {}) | ({"system": choices.system} if choices.system else {})
    features = dict.fromkeys(("voice", "image_generation", "code_interpreter", "web_search"), False)
    messages = [{"role": "system", "content": choices.system}] if choices.system else []
    if temporary:
        messages += _conversation(page, ask)
    body: Json = {
        "stream": True,
        "model": first["model"],
        "params": params | ({"model_controls": {}} if page.controls else {}),
        "tool_servers": [],
        "features": features | ({"memory": True} if page.remembers else {}),
        "id": first["id"],
        "parent_id": ask.user["parentId"],
        "user_message": ask.user,
        "background_tasks": {"follow_up_generation": True},
    }
    if messages:
        body["messages"] = messages
    if files := _files(ask.path):
        body["files"] = files
    if choices.tool_ids or page.empty_tools:
        body["tool_ids"] = list(choices.tool_ids)
    if chat_id:
        body["chat_id"] = chat_id
    if page.varies and (temporary or not chat_id):
        body["chat_variables"] = {}
    if new and not temporary:
        body["background_tasks"] |= {"title_generation": True, "tags_generation": True}
    return body | _answers(page, ask)


def variables(name: str, email: str) -> Json:
    """`getPromptVariables`."""
    return {
        "{{USER_NAME}}": name,
        "{{USER_EMAIL}}": email,
        "{{USER_LOCATION}}": "Unknown",
        "{{CURRENT_DATETIME}}": time.strftime("%Y-%m-%d %H:%M:%S"),
        "{{CURRENT_DATE}}": time.strftime("%Y-%m-%d"),
        "{{CURRENT_TIME}}": time.strftime("%H:%M:%S"),
        "{{CURRENT_WEEKDAY}}": time.strftime("%A"),
        "{{CURRENT_TIMEZONE}}": "UTC",
        "{{USER_LANGUAGE}}": "en-US",
    }


def _answers(page: Page, ask: Ask) -> Json:
    """How a request names the answers."""
    extra: Json = {}
    if page.lists_answers and not ask.continued:
        extra["message_ids"] = [
            {"model_id": one["model"], "message_id": one["id"], "modelIdx": one["modelIdx"]} for one in ask.answers
        ]
    if ask.instruction:
        extra["regeneration_prompt"] = ask.instruction
    if ask.replaced and page.names_user:
        extra["regeneration_message_id"] = ask.replaced["id"]
    if ask.continued:
        extra["assistant_message_id"] = ask.answers[0]["id"]
    return extra


def _conversation(page: Page, ask: Ask) -> list[Json]:
    """The messages as the page sends them itself, which are texts here; an answer without text is left out."""
    entries = [_entry(page, one) for one in ask.path]
    return [one for one in entries if one["role"] == "user" or one.get("output") or str(one["content"]).strip()]


def _entry(page: Page, message: Json) -> Json:
    output = message.get("output") if message["role"] == "assistant" else None
    if output and page.replays:
        model = {"model": message["model"]} if page.varies else {}
        return {"role": "assistant", **model, "output": output}
    entry: Json = {"role": message["role"], "content": message["content"]}
    if output:
        entry["output"] = output
    if page.names_user:
        entry["id"] = message["id"]
    return entry


def _files(path: Sequence[Json]) -> list[Json]:
    files: list[Json] = []
    for message in path:
        files += [one for one in message.get("files") or [] if not _is_image(one) and one not in files]
    return files


def _is_image(file: Mapping[str, Any]) -> bool:
    return file["type"] == "image" or str(file.get("content_type") or "").startswith("image/")
