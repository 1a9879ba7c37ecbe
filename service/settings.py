"""Every setting, from the environment only: prefix `PRECIS_`, and `PRECIS_X_FILE` for secrets from a file.

`docs/settings.md` and `.env.example` are generated from this module (`precis config --markdown`,
`--env`); tests compare them.
"""

import json
import os
import textwrap
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from service.errors import ConfigurationError
from service.policy import APPLY_AT, DEFAULT_WINDOW, KEEP_MESSAGES, SUMMARY_SHARE, Policy

PREFIX = "PRECIS_"
_MOST_DAYS = 36_500


def _days(value: Any) -> int | str:  # noqa: ANN401 - from the environment
    """A number of days, or `forever`: a word, because 0 days would be read as the opposite by half of its readers."""
    if value == "forever":
        return "forever"
    try:
        days = int(value)
    except (TypeError, ValueError):
        days = 0
    if not 1 <= days <= _MOST_DAYS:
        raise ValueError(
            f"{value!r} is neither `forever` nor a number of days from 1 to {_MOST_DAYS}"
        )
    return days


def _days_or_covered(value: Any) -> int | str:  # noqa: ANN401 - from the environment
    return "until_covered" if value == "until_covered" else _days(value)


Days = Annotated[int | Literal["forever"], PlainValidator(_days)]

ApplyAt = Annotated[float, Field(ge=0.3, le=0.95)]
KeepMessages = Annotated[int, Field(ge=2, le=200)]
SummaryShare = Annotated[float, Field(ge=0.05, le=0.4)]
Window = Annotated[int, Field(ge=2048)]


class ModelSettings(BaseModel):
    """What `PRECIS_MODELS` says of one model. What is null is as it is for all."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    window: Window | None = None
    apply_at: ApplyAt | None = None
    keep_messages: KeepMessages | None = None
    summary_share: SummaryShare | None = None
    summariser_model: str | None = Field(None, min_length=1)


_ANY_MODEL = ModelSettings()


def _from_json(value: Any) -> Any:  # noqa: ANN401 - from the environment
    """An object as the environment gives it, which is JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value or "{}")
    except ValueError as error:
        raise ValueError(f"this is no JSON: {error}") from None


Models = Annotated[dict[str, ModelSettings], NoDecode, BeforeValidator(_from_json)]


class _FromFiles(PydanticBaseSettingsSource):
    """`PRECIS_X_FILE=/run/secrets/x` gives the setting X the content of that file, without the last line end."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        path = os.environ.get(f"{PREFIX}{field_name.upper()}_FILE")
        if path is None:
            return None, field_name, False
        try:
            return Path(path).read_text().rstrip("\n"), field_name, False
        except OSError as error:
            raise ConfigurationError(
                f"{PREFIX}{field_name.upper()}_FILE names {path}, which cannot be read: {error.strerror}"
            ) from error

    def __call__(self) -> dict[str, Any]:
        found = {
            name: self.get_field_value(field, name)[0]
            for name, field in self.settings_cls.model_fields.items()
        }
        return {name: value for name, value in found.items() if value is not None}


class Settings(BaseSettings):
    """The settings in force. `load` reads them; nothing else reads the environment."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    host: str = Field("127.0.0.1", description="Address that the service listens on.")
    port: int = Field(
        8377, ge=0, le=65535, description="Port that the service listens on; 0 takes a free one."
    )
    data_dir: Path = Field(
        Path("precis-data"),
        description="Folder of the embedded servers. Not used when both URLs are set.",
    )
    database_url: SecretStr | None = Field(
        None,
        description="PostgreSQL, as `postgresql://user:password@host/database`. Unset: the embedded one.",
    )
    redis_url: SecretStr | None = Field(
        None,
        description="Redis or Valkey, as `redis://:password@host:6379/0`. Unset: the embedded one.",
    )

    share_forks: Literal["user", "tenant"] = Field(
        "user",
        description="Whose summaries a fork, a clone or an imported chat takes over where the same was said: those of"
        " the same `user`'s chats, or of any chat of the `tenant` (one Open WebUI).",
    )

    mask_secrets: bool = Field(
        True,
        description="Whether API keys, bearer tokens, passwords and private keys are masked in what is stored of tool"
        " results and in summaries.",
    )

    openwebui_key: SecretStr = Field(
        SecretStr(""), description="API key of an admin of Open WebUI, for `precis install-filter`."
    )
    openwebui_password: SecretStr = Field(
        SecretStr(""),
        description="Password of the admin that `precis install-filter --email` names; unset: it asks.",
    )

    summariser: Literal["extractive", "openai", "ollama"] = Field(
        "extractive",
        description="Who writes summaries: the built-in extractive one, an OpenAI-compatible server, or Ollama.",
    )
    summariser_url: str = Field(
        "",
        description="Base URL, such as `http://localhost:8000/v1` (openai) or `http://localhost:11434` (ollama).",
    )
    summariser_model: str = Field("", description="Model name at the summariser.")
    summariser_key: SecretStr = Field(
        SecretStr(""), description="Bearer key of the summariser, if it wants one."
    )
    summariser_window: int = Field(
        32_768,
        ge=4096,
        description="Window of the summariser in tokens. What one call reads is sized from it.",
    )
    summariser_timeout: float = Field(
        300.0, gt=0, description="Seconds that one summariser call may take, its retries included."
    )
    summariser_calls: int = Field(
        4,
        ge=1,
        description="Chats that the whole fleet lets the summariser work on at the same time.",
    )
    fallback_after: int = Field(
        3,
        ge=0,
        description="Failed attempts after which the extractive summariser stands in; 0 means never."
        " It stands in at once when neither of two replies was usable.",
    )
    replace_after: float = Field(
        300.0,
        ge=0,
        description="Seconds after which the LLM makes a degraded summary anew, once; 0 means at the next turn.",
    )
    breaker_after: int = Field(
        5,
        ge=1,
        description="Calls in a row that fail before the fleet leaves the summariser alone for a while.",
    )
    breaker_pause: float = Field(
        15.0,
        gt=0,
        description="Seconds of that while; doubled at each failed probe, up to five minutes.",
    )
    max_attempts: int = Field(
        12,
        ge=0,
        description="Failed attempts after which a chat's work waits for `precis jobs retry`; 0 means never.",
    )

    text_processes: int = Field(
        2,
        ge=1,
        description="Processes that read texts beside the service or the worker. Each takes some 250 MB of memory.",
    )
    text_seconds: float = Field(
        30.0,
        ge=1,
        description="Seconds of CPU that one piece of work on texts may take; by the clock, four times as many. What"
        " takes longer is ended, and the chat's next summary tells of those messages by their size alone.",
    )
    text_memory: int = Field(
        1024,
        ge=384,
        description="Megabytes of memory that a text process may take in all; not kept on macOS.",
    )

    window: Window = Field(
        DEFAULT_WINDOW, description="Window of a model in tokens, when Open WebUI does not know it."
    )
    apply_at: ApplyAt = Field(
        APPLY_AT,
        description="Share of the window, from 0.3 to 0.95, above which a request is served with a summary; work on it"
        " begins at two thirds of that, at half the window at the latest. The default is 100,000 tokens of 131,072."
        " Less makes requests cheaper and the model forget words earlier; more leaves less room for the answer, and"
        " nearer 1 the filter has to cut turns while a summary is still being made.",
    )
    keep_messages: KeepMessages = Field(
        KEEP_MESSAGES,
        description="Newest messages, from 2 to 200, that are sent word for word beside a summary; fewer when they do"
        " not fit into a quarter of the window. More of them cost their tokens in each request, and less is covered.",
    )
    summary_share: SummaryShare = Field(
        SUMMARY_SHARE,
        description="Share of a window of 16,384 tokens, from 0.05 to 0.4, that a summary may take. Of others it is in"
        " proportion to the root of the window: by default 2,317 tokens of 8,192, 3,276 of 16,384 and 9,268 of"
        " 131,072, never more than five eighths of what the newest messages leave. A quarter of it is the summariser's"
        " narrative, 2,000 tokens at most, and the rest the users' words and the tool calls by code. More keeps more,"
        " costs its tokens in each request, and in a small window summaries are made more often.",
    )
    models: Models = Field(
        {},
        description='The same for single models, as JSON: `{"llama3:8b": {"window": 8192, "apply_at": 0.7,'
        ' "keep_messages": 6, "summary_share": 0.25}}`. The name is Open WebUI\'s id of the model; `window` counts'
        " when Open WebUI does not know it. `summariser_model` names another model at the summariser's address that"
        " writes the summaries of this model's chats. What is left out is as above.",
    )
    debounce: float = Field(
        1.0,
        ge=0,
        description="Seconds between a hand-over and the work on it; none when requests are too large.",
    )
    sweep_every: int = Field(
        10,
        ge=1,
        le=60,
        description="Seconds between sweeps for due work that nobody was woken for.",
    )
    lease: float = Field(
        20.0,
        ge=1,
        description="Seconds after which the work of a silent worker is given to another.",
    )
    worker_jobs: int = Field(
        4, ge=1, description="Chats that one worker works on at the same time."
    )

    retention: bool = Field(
        True,
        description="Whether workers remove, once an hour, what the settings below call old;"
        " `precis retention` does the same by hand.",
    )
    keep_bodies: Annotated[
        int | Literal["forever", "until_covered"], PlainValidator(_days_or_covered)
    ] = Field(
        30,
        description="Days that the texts of messages are kept, or `until_covered` (until a summary covers them on every"
        " branch), or `forever`. A month: time to recompute a summary that turns out wrong.",
    )
    keep_chats: Days = Field(
        "forever",
        description="Days without a hand-over after which a chat goes with all that is its own, or `forever`."
        " For ever: its summaries were paid for, and Open WebUI still has the chat.",
    )
    keep_checkpoints: Days = Field(
        30,
        description="Days that summaries are kept to which no stored message leads any more (edited, deleted branches,"
        " older versions), or `forever`. A month: an edit that is undone finds its summary again.",
    )
    keep_runs: Days = Field(
        90,
        description="Days that rounds of work, with their figures and errors, are kept, or `forever`."
        " A quarter: to compare one month with another.",
    )
    keep_audit: Days = Field(
        365,
        description="Days that audit rows are kept, or `forever`. A year: who changed what is asked late.",
    )

    fast_and_unsafe: bool = Field(
        False,
        description="Embedded PostgreSQL without waiting for the disk: for demos and tests only.",
    )
    max_body_bytes: int = Field(8 * 2**20, ge=2**16, description="Largest request body.")
    max_bytes_in_flight: int = Field(
        32 * 2**20,
        ge=2**16,
        description="Bytes of large request bodies that the process holds at once; beyond them, 503 with `Retry-After`."
        " A byte of a body costs up to 12 bytes of memory while it is worked on.",
    )
    max_items: int = Field(
        200_000,
        ge=1000,
        description="Most JSON values (texts, numbers, objects, lists) in one request body.",
    )
    max_path: int = Field(10_000, ge=64, description="Most messages of one path in one request.")
    max_connections: int = Field(
        1000,
        ge=1,
        description="Most connections that are open at once; beyond them, 503 with `Retry-After`.",
    )
    request_timeout: float = Field(
        10.0,
        gt=0,
        description="Seconds in which the head of a request, and then each next part of its body, has to arrive;"
        " beyond them, 408.",
    )
    log_format: Literal["console", "json"] = Field(
        "console", description="Log lines for people or for machines."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least level that is logged."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - not read, so that nothing is set in secret
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - `_FILE` replaces it
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Explicit arguments, files that variables name, and the environment; nothing else."""
        return init_settings, _FromFiles(settings_cls), env_settings

    @model_validator(mode="after")
    def _one_body_fits(self) -> "Settings":
        if self.max_bytes_in_flight < self.max_body_bytes:
            raise ValueError(
                f"{PREFIX}MAX_BYTES_IN_FLIGHT has to be {PREFIX}MAX_BODY_BYTES at least"
            )
        return self

    @model_validator(mode="after")
    def _summariser_is_complete(self) -> "Settings":
        if self.summariser != "extractive" and not (self.summariser_url and self.summariser_model):
            raise ValueError(
                f"{PREFIX}SUMMARISER={self.summariser} needs {PREFIX}SUMMARISER_URL and {PREFIX}SUMMARISER_MODEL"
            )
        return self

    def of_model(self, model: str) -> ModelSettings:
        """What is set for one model alone."""
        return self.models.get(model, _ANY_MODEL)

    def apply_share(self, model: str) -> float:
        """The share of a model's window above which its requests are served with a summary."""
        return self.of_model(model).apply_at or self.apply_at

    def policy(self, model: str, window: int | None, overhead: int = 0) -> Policy:
        """The budgets for a chat of a model.

        Args:
            model: its name.
            window: its window; None when Open WebUI does not know it.
            overhead: tokens of each request that are no messages.
        """
        own = self.of_model(model)
        return Policy.sized(
            window or own.window or self.window,
            self.summariser_window,
            overhead=overhead,
            apply_share=self.apply_share(model),
            keep_messages=own.keep_messages or self.keep_messages,
            summary_share=own.summary_share or self.summary_share,
        )


def load(**explicit: Any) -> Settings:  # noqa: ANN401 - any setting
    """The settings from the environment; `explicit` ones win.

    Raises:
        ConfigurationError: one or more are wrong; the message names each variable and what is wrong
            with it.
    """
    try:
        return Settings(**explicit)
    except ValidationError as error:
        raise ConfigurationError(
            "; ".join(_told(one["loc"], one["msg"]) for one in error.errors())
        ) from error


def _told(place: tuple[int | str, ...], message: str) -> str:
    """One error; inside a variable that holds an object, `place` goes on with the keys."""
    if not place:
        return message
    variable, *keys = map(str, place)
    inside = f"{' → '.join(keys)}: " if keys else ""
    return f"{PREFIX}{variable.upper()}: {inside}{message}"


def unknown() -> list[str]:
    """Variables with our prefix that are no settings: most likely misspelt."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    given = (name for name in os.environ if name.startswith(PREFIX))
    return sorted(name for name in given if name.removesuffix("_FILE") not in known)


def redacted(settings: Settings) -> dict[str, str]:
    """Every setting as text, secrets and passwords hidden."""
    shown = {}
    for name, value in settings:
        secret = value.get_secret_value() if isinstance(value, SecretStr) else None
        shown[name] = "" if value is None or secret == "" else _shown(value)
    return shown


def _shown(value: Any) -> str:  # noqa: ANN401 - any setting
    """A value as the environment takes it."""
    if not isinstance(value, dict):
        return str(value)
    return json.dumps({name: one.model_dump(exclude_none=True) for name, one in value.items()})


def as_markdown() -> str:
    """The reference page of all settings."""
    lines = [
        "# Settings",
        "",
        "From the environment only. A secret may come from a file: `PRECIS_X_FILE` names it.",
        "This page is made by `precis config --markdown`.",
        "",
        "| variable | default | meaning |",
        "|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        default = _default(field)
        shown = f"`{default}`" if default else ""
        lines.append(f"| `{PREFIX}{name.upper()}` | {shown} | {field.description} |")
    return "\n".join(lines) + "\n"


_ENV_HEAD = """\
# Everything that can be set. Copy this file to .env; what is commented out is the default.
# This file is made by `precis config --env`.

# ---- For docker-compose.yml alone ----

# CHANGEME: the database's password. Letters and digits, for it becomes part of a URL: `openssl rand -hex 24`
POSTGRES_PASSWORD=

# CHANGEME: Valkey's password, likewise.
VALKEY_PASSWORD=

# Where the API is published. 127.0.0.1 is this machine alone.
#API_ADDRESS=127.0.0.1
#API_PORT=8377

# ---- For every Precis ----
# docker-compose.yml itself sets PRECIS_HOST, PRECIS_PORT, PRECIS_DATABASE_URL and PRECIS_REDIS_URL.
"""


def as_env() -> str:
    """The example of a `.env` file, for docker compose and systemd."""
    lines = [_ENV_HEAD]
    for name, field in Settings.model_fields.items():
        lines += textwrap.wrap(
            field.description or "", 118, initial_indent="# ", subsequent_indent="# "
        )
        lines.append(f"#{PREFIX}{name.upper()}={_default(field)}\n")
    return "\n".join(lines).rstrip() + "\n"


def _default(field: FieldInfo) -> str:
    default = (
        field.default.get_secret_value() if isinstance(field.default, SecretStr) else field.default
    )
    return "" if default is None else str(default)
