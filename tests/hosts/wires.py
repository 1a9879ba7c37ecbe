"""Chats on the three wires that LiteLLM has, each in its own shape, and a provider that answers on all of them.

A chat is a list of items as its client keeps it. The provider notes which requests a real one would refuse, and
calls a tool when a question says so.
"""

from dataclasses import dataclass, field

from tests.builders import Json
from tests.filter.chat import pairs_are_whole
from tests.service.talk import prose

SYSTEM = "You are careful."
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PARAMETERS: Json = {"type": "object", "properties": {"topic": {"type": "string"}}}
LOOK_UP = "Look it up"
ARGUMENTS = '{"topic": "pumps"}'


@dataclass(frozen=True)
class ChatCompletions:
    """The shapes of one wire, as the other classes have them. `items` is the name of the list in a body."""

    path: str = "/v1/chat/completions"
    items: str = "messages"

    def make_body(self, items: list[Json]) -> Json:
        function = {"name": "look_up", "description": "Looks up.", "parameters": PARAMETERS}
        messages = [{"role": "system", "content": SYSTEM}, *items]
        return {"model": "gpt-x", "messages": messages, "tools": [{"type": "function", "function": function}]}

    def make_question(self, text: str, *, picture: bool) -> Json:
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"}}
        content = [{"type": "text", "text": text}, image] if picture else text
        return {"role": "user", "content": content}

    def make_answer(self, text: str, call: str) -> Json:
        """Makes an answer of the provider: a text, or a call if there is an id for it."""
        function = {"name": "look_up", "arguments": ARGUMENTS}
        calls = {"content": None, "tool_calls": [{"id": call, "type": "function", "function": function}]}
        message = {"role": "assistant"} | (calls if call else {"content": text})
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if call else "stop"}
        made = {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-x"}
        return made | {"choices": [choice], "usage": usage}

    def keep_items(self, answer: Json) -> list[Json]:
        message = answer["choices"][0]["message"]
        return [{key: message[key] for key in ("role", "content", "tool_calls") if message.get(key)}]

    def make_result(self, call: str, text: str) -> Json:
        return {"role": "tool", "tool_call_id": call, "content": text}

    def find_fault(self, body: Json) -> str:
        """Says why a provider would refuse a request; empty if it would not."""
        return "" if pairs_are_whole(body["messages"]) else "calls and results are not in pairs"


@dataclass(frozen=True)
class Messages:
    path: str = "/v1/messages"
    items: str = "messages"

    def make_body(self, items: list[Json]) -> Json:
        tool = {"name": "look_up", "description": "Looks up.", "input_schema": PARAMETERS}
        system = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}]
        thinking = {"type": "enabled", "budget_tokens": 1024}
        beside = {"system": system, "tools": [tool], "thinking": thinking, "max_tokens": 2000}
        return {"model": "claude-x", "messages": items} | beside

    def make_question(self, text: str, *, picture: bool) -> Json:
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
        return {"role": "user", "content": [{"type": "text", "text": text}, *([image] if picture else [])]}

    def make_answer(self, text: str, call: str) -> Json:
        thought = {"type": "thinking", "thinking": f"I look up {call}.", "signature": f"signature of {call}"}
        use = {"type": "tool_use", "id": call, "name": "look_up", "input": {"topic": "pumps"}}
        content = [thought, use] if call else [{"type": "text", "text": text}]
        usage = {"input_tokens": 1, "output_tokens": 1}
        made = {"id": "m", "type": "message", "role": "assistant", "model": "claude-x", "usage": usage}
        return made | {"content": content, "stop_reason": "tool_use" if call else "end_turn"}

    def keep_items(self, answer: Json) -> list[Json]:
        return [{"role": "assistant", "content": answer["content"]}]

    def make_result(self, call: str, text: str) -> Json:
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": text}]}

    def find_fault(self, body: Json) -> str:
        asked: set[str] = set()
        for place, message in enumerate(body["messages"]):
            if message["role"] != ("user", "assistant")[place % 2]:
                return "users and the assistant do not take turns"
            parts = [part for part in message["content"] if isinstance(part, dict)]
            if {part["tool_use_id"] for part in parts if part["type"] == "tool_result"} != asked:
                return "calls and results are not in pairs"
            asked = {part["id"] for part in parts if part["type"] == "tool_use"}
            if asked and parts[0].get("signature") not in {f"signature of {call}" for call in asked}:
                return "a call without what was thought before it"
        return ""


@dataclass(frozen=True)
class Responses:
    path: str = "/v1/responses"
    items: str = "input"

    def make_body(self, items: list[Json]) -> Json:
        tool = {"type": "function", "name": "look_up", "description": "Looks up.", "parameters": PARAMETERS}
        return {"model": "gpt-x", "instructions": SYSTEM, "input": items, "tools": [tool], "store": False}

    def make_question(self, text: str, *, picture: bool) -> Json:
        image = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "low"}
        return {"role": "user", "content": [{"type": "input_text", "text": text}, *([image] if picture else [])]}

    def make_answer(self, text: str, call: str) -> Json:
        thought = {"type": "reasoning", "id": f"rs_{call}", "summary": [], "encrypted_content": f"secret of {call}"}
        use = {"type": "function_call", "id": f"fc_{call}", "call_id": call, "name": "look_up", "status": "completed"}
        part = {"type": "output_text", "text": text, "annotations": []}
        name = f"msg_{hash(text)}"
        spoken = {"type": "message", "id": name, "role": "assistant", "status": "completed", "content": [part]}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        made = {"id": "r", "object": "response", "created_at": 1, "model": "gpt-x", "status": "completed"}
        beside = {"usage": usage, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        return made | beside | {"output": [thought, use | {"arguments": ARGUMENTS}] if call else [spoken]}

    def keep_items(self, answer: Json) -> list[Json]:
        return [{key: value for key, value in item.items() if value is not None} for item in answer["output"]]

    def make_result(self, call: str, text: str) -> Json:
        return {"type": "function_call_output", "call_id": call, "output": text}

    def find_fault(self, body: Json) -> str:
        items = body["input"]
        calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
        results = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
        return "" if calls == results else "calls and results do not belong together"


Wire = ChatCompletions | Messages | Responses
WIRES: tuple[Wire, ...] = (ChatCompletions(), Messages(), Responses())


@dataclass
class Provider:
    """Answers requests by their bodies, and keeps these with what was wrong with them."""

    bodies: list[Json] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def answer(self, body: Json | None) -> Json:
        if body is None:  # the proxy looks whether its provider is there
            return {}
        wire = WIRES[2] if "input" in body else WIRES[body["model"] == "claude-x"]
        self.bodies.append(body)
        fault = wire.find_fault(body)
        if fault:
            self.faults.append(fault)
        newest = str(body[wire.items][-1])
        call = f"call{len(self.bodies)}" if LOOK_UP in newest else ""
        return wire.make_answer(prose(250, f"answer {len(self.bodies)}"), call)
