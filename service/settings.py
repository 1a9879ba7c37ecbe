"""Every setting: the environment has it in `PRECIS_X`, or names its file in `PRECIS_X_FILE`.

`scripts/settings` writes `docs/settings.md` and `.env.example` from this module.
"""

import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    Json,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from service import encryption
from service.encryption import EncryptionKeys
from service.errors import ConfigurationError
from service.planning.policy import APPLY_AT, DEFAULT_WINDOW, KEEP_MESSAGES, SUMMARY_SHARE, Policy

PREFIX = "PRECIS_"
OF_COMMANDS = ("url", "key")  # not settings: commands find a service by them (`cli.client`)
_MOST_DAYS = 36_500  # a hundred years: what is longer is a mistake, or means `forever`


# A word, because half of the readers would take 0 days for "never" and half for "at once".
Days = Annotated[int, Field(ge=1, le=_MOST_DAYS)] | Literal["forever"]

ApplyAt = Annotated[float, Field(ge=0.3, le=0.95)]
KeepMessages = Annotated[int, Field(ge=2, le=200)]
SummaryShare = Annotated[float, Field(ge=0.05, le=0.4)]
Window = Annotated[int, Field(ge=2048)]


class ModelSettings(BaseModel):
    """The settings of one model in `PRECIS_MODELS`; null means the general setting."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    window: Window | None = None
    apply_at: ApplyAt | None = None
    keep_messages: KeepMessages | None = None
    summary_share: SummaryShare | None = None
    summariser_model: str | None = Field(None, min_length=1)


_ANY_MODEL = ModelSettings()

# `NoDecode`: pydantic-settings would decode it with an error that names the variable in lower case.
Models = Annotated[Json[dict[str, ModelSettings]], NoDecode]


class Settings(BaseSettings):
    """The settings in force. `load` reads them; nothing else reads the environment."""

    # No `.env` from the current folder: nobody would know where a value came from.
    # `extra="ignore"`: `list_unknown` reports misspelt variables, which need not stop the service.
    # Defaults are not validated, because those of objects are not JSON.
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="ignore", validate_default=False
    )

    # First settings: where it runs, and what writes summaries.
    host: str = Field("127.0.0.1", description="Address that the service listens on.")
    port: int = Field(
        8377, ge=0, le=65535, description="Port that the service listens on; 0 takes a free one."
    )
    data_dir: Path = Field(
        Path("precis-data"),
        description="Folder of the embedded PostgreSQL and Valkey, if one of them has no URL.",
    )
    database_url: SecretStr | None = Field(
        None,
        description="URL of PostgreSQL: `postgresql://user:password@host/database`. If it is not"
        " set, Precis starts its own PostgreSQL. For TLS, append"
        " `?sslmode=verify-full&sslrootcert=FILE`.",
    )
    redis_url: SecretStr | None = Field(
        None,
        description="URL of Redis or Valkey: `redis://:password@host:6379/0`. If it is not set,"
        " Precis starts its own Valkey. For TLS:"
        " `rediss://:password@host:6379/0?ssl_ca_certs=FILE&ssl_check_hostname=true`.",
    )
    summariser: Literal["extractive", "openai", "ollama"] = Field(
        "extractive",
        description="What writes summaries. `openai`: an OpenAI-compatible server. `ollama`: an"
        " Ollama server. `extractive`: no server of yours. Then `precis install-filter"
        " --summariser` decides: the chat's own model (the default), another model of Open WebUI,"
        " or none.",
    )
    summariser_url: str = Field(
        "",
        description="Base URL of the summariser, such as `http://localhost:8000/v1` for `openai` or"
        " `http://localhost:11434` for `ollama`.",
    )
    summariser_model: str = Field("", description="Name of the summariser's model.")
    summariser_key: SecretStr = Field(
        SecretStr(""), description="Bearer key of the summariser, if it needs one."
    )

    # Common settings: when summaries begin, how long data is kept.
    window: Window = Field(
        DEFAULT_WINDOW,
        description="Context window, in tokens, of models whose window Open WebUI does not know.",
    )
    apply_at: ApplyAt = Field(
        APPLY_AT,
        description="A request that takes more than this share of the window is sent with a"
        " summary; 0.3 to 0.95 is allowed. Precis begins to write the summary earlier: at two"
        " thirds of this share, or at half of the window if that comes first. A lower share makes"
        " requests cheaper and shows the model fewer messages word for word. A higher share leaves"
        " less room for the answer and less time to write the summary.",
    )
    keep_messages: KeepMessages = Field(
        KEEP_MESSAGES,
        description="How many of the newest messages are sent word for word after a summary; 2 to"
        " 200 is allowed. Precis sends fewer if they take more than an eighth of what tools and the"
        " system prompt leave of the window.",
    )
    summary_share: SummaryShare = Field(
        SUMMARY_SHARE,
        description="Largest size of a summary, as a share of a window of 16,384 tokens; 0.05 to"
        " 0.4 is allowed. It grows with the square root of the window, and leaves half of a"
        " request to other messages: the default allows 2,344 tokens in a window of 8,192, and"
        " 16,682 in one of 131,072. Only a very long chat gets more. A higher value keeps more,"
        " costs more in each request, and makes summaries more frequent in small windows.",
    )
    models: Models = Field(
        {},
        description='Settings of single models, as JSON: `{"llama3:8b": {"window": 8192,'
        ' "apply_at": 0.7, "keep_messages": 6, "summary_share": 0.25}}`. Use the model\'s id in'
        " Open WebUI, or its name in LiteLLM. `window` is used if Open WebUI or LiteLLM reports no"
        " window. `summariser_model` names the model at PRECIS_SUMMARISER_URL that writes the"
        " summaries of these chats. A value that is missing comes from the general setting.",
    )
    encryption_keys: SecretStr = Field(
        SecretStr(""),
        description="Keys that encrypt stored texts, as `id:base64`, separated by commas or line"
        " ends. The first key encrypts new texts, all keys decrypt. Put `none` first to store new"
        " texts unencrypted. `precis keys new-encryption-key` makes a key. Without a key, texts are"
        " stored unencrypted. If you lose a key, nobody can read the texts that it encrypted.",
    )
    mask_secrets: bool = Field(
        True,
        description="Mask API keys, bearer tokens, passwords and private keys in stored arguments"
        " and results of tools, and in summaries.",
    )
    keep_bodies: Days = Field(
        30,
        description="Precis deletes the messages of a chat that has had no new message for so many"
        " days, and a version of a summary that was replaced so many days ago. `forever`: never.",
    )
    keep_chats: Days = Field(
        "forever",
        description="Precis deletes a chat, with everything stored for it, that has had no new"
        " message for so many days. `forever`: never.",
    )
    keep_history: Days = Field(
        365,
        description="Days that Precis keeps the audit log and records of its work, or `forever`.",
    )
    openwebui_url: str = Field(
        "",
        description="Address of Open WebUI, such as `https://chat.example.org`, for links to chats."
        " If PRECIS_OPENWEBUI_KEY is set too, a worker runs `precis reconcile` every night for the"
        " tenant `default`: this deletes from Precis the chats that Open WebUI no longer has.",
    )
    openwebui_key: SecretStr = Field(
        SecretStr(""),
        description="API key of an Open WebUI admin, for `precis install-filter` and"
        " `precis reconcile`.",
    )
    metrics_token: SecretStr = Field(
        SecretStr(""),
        description="Bearer token to read `/metrics`. Without it, nobody can read them.",
    )
    log_format: Literal["console", "json"] = Field(
        "console", description="Format of log lines: `console` for people, `json` for machines."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest level of log lines."
    )

    # Rare settings.
    summariser_window: int = Field(
        32_768,
        ge=4096,
        description="Context window of the summariser in tokens; Precis sizes its prompts to fit."
        " If the chat's own model writes, the smaller one of the two windows is used.",
    )
    # Long enough for a slow model: no user waits for a summary.
    summariser_timeout: float = Field(
        300.0, gt=0, description="Seconds that a call to the summariser may take."
    )
    summariser_calls: int = Field(
        4,
        ge=1,
        description="Number of chats that the summariser works on at the same time, for all"
        " workers together.",
    )
    worker_jobs: int = Field(
        4,
        ge=1,
        description="Number of chats that one worker works on at the same time. Chats that wait for"
        " the summariser are not counted.",
    )
    # Off by default, because several workers of one machine cannot share a port.
    worker_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Port on PRECIS_HOST where `precis worker` serves `/livez` and `/metrics`. With"
        " 0, it serves none.",
    )
    max_body_bytes: int = Field(
        8 * 2**20,
        ge=2**16,
        description="Largest request body in bytes; a larger one is refused with 413. All bodies"
        " in a process together may have four times this size. One byte of a body takes up to 23"
        " bytes of memory.",
    )
    use_proxy: bool = Field(
        False,
        description="Connect to the summariser through the proxy in `HTTP_PROXY`, `HTTPS_PROXY` or"
        " `ALL_PROXY`. The proxy can read the chats unless the summariser's URL is an `https` one.",
    )

    @model_validator(mode="after")
    def _summariser_is_complete(self) -> "Settings":
        if self.summariser == "extractive":
            return self
        if not (self.summariser_url and self.summariser_model):
            raise ValueError(
                f"{PREFIX}SUMMARISER={self.summariser} needs"
                f" {PREFIX}SUMMARISER_URL and {PREFIX}SUMMARISER_MODEL"
            )
        return self

    @model_validator(mode="after")
    def _encryption_keys_are_keys(self) -> "Settings":
        try:
            _ = self.sealing_keys
        except ValueError as error:
            raise ValueError(f"{PREFIX}ENCRYPTION_KEYS: {error}") from None
        return self

    @property
    def sealing_keys(self) -> EncryptionKeys:
        """The keys of `encryption_keys`."""
        text = self.encryption_keys.get_secret_value()
        return encryption.parse_keys(text) if text.strip() else EncryptionKeys()

    def of_model(self, model: str) -> ModelSettings:
        """The settings of one model in `PRECIS_MODELS`."""
        return self.models.get(model, _ANY_MODEL)

    def apply_share(self, model: str) -> float:
        """The share of a model's window above which a request is sent with a summary."""
        return self.of_model(model).apply_at or self.apply_at

    def policy(
        self, model: str, window: int | None, overhead: int = 0, read: int | None = None
    ) -> Policy:
        """The budgets for a chat of a model.

        Args:
            model: its id in Open WebUI.
            window: its window in tokens; None if Open WebUI does not know it.
            overhead: tokens of each request that are not messages, such as tool specifications.
            read: tokens that a call of the summarising model may have, with its answer; at most,
                and by default, `summariser_window`.
        """
        own = self.of_model(model)
        return Policy.sized(
            window or own.window or self.window,
            min(self.summariser_window, read or self.summariser_window),
            overhead=overhead,
            apply_share=self.apply_share(model),
            keep_messages=own.keep_messages or self.keep_messages,
            summary_share=own.summary_share or self.summary_share,
        )


def load(**explicit: Any) -> Settings:  # noqa: ANN401 - any setting
    """The settings: `explicit` ones first, then those in files, then those in variables.

    Raises:
        ConfigurationError: some are wrong; the message names each variable and its error.
    """
    try:
        return Settings(**(_read_files() | explicit))
    except ValidationError as error:
        reasons = [_explain_error(one["loc"], one["msg"]) for one in error.errors()]
        raise ConfigurationError("; ".join(reasons)) from error


def _read_files() -> dict[str, str]:
    """Reads the files that variables such as `PRECIS_X_FILE=/run/secrets/x` name."""
    values = {}
    for name in Settings.model_fields:
        path = os.environ.get(f"{name_variable(name)}_FILE")
        if path is None:
            continue
        try:
            # Editors and `echo` add a line end, which is in no secret.
            values[name] = Path(path).read_text().rstrip("\n")
        except OSError as error:
            raise ConfigurationError(
                f"{name_variable(name)}_FILE names {path}, which cannot be read: {error.strerror}."
                " Correct the path, or let the user that Precis runs as read the file"
            ) from error
    return values


def name_variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"{PREFIX}{name.upper()}"


def _explain_error(place: tuple[int | str, ...], message: str) -> str:
    """An error with its variable, and with the keys inside of it if its value is an object."""
    # An error about several settings has no place, and names its variables itself.
    if not place:
        return message
    name, *keys = map(str, place)
    inside = f"{' → '.join(keys)}: " if keys else ""
    return f"{name_variable(name)}: {inside}{message}"


def list_unknown() -> list[str]:
    """Variables with our prefix that are not settings: probably misspelt."""
    names = {name_variable(name) for name in (*Settings.model_fields, *OF_COMMANDS)}
    ours = (name for name in os.environ if name.startswith(PREFIX))
    return sorted(name for name in ours if name.removesuffix("_FILE") not in names)


def list_warnings(settings: Settings) -> list[str]:
    """Settings that are allowed, but probably not meant."""
    if settings.summariser == "extractive" and settings.summariser_url:
        return [
            f"{PREFIX}SUMMARISER_URL is set, but not used, because {PREFIX}SUMMARISER is"
            f" extractive. Set {PREFIX}SUMMARISER to openai or ollama"
        ]
    return []


def redact_settings(settings: Settings) -> dict[str, str]:
    """Every setting as text, secrets and passwords hidden."""
    return {name: _format_value(value) for name, value in settings}


def _format_value(value: Any) -> str:  # noqa: ANN401 - any setting
    """A value as the environment takes it; a secret as stars."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return json.dumps({name: one.model_dump(exclude_none=True) for name, one in value.items()})
    # `SecretStr` hides itself, and shows an empty secret as empty text: it is not set.
    return str(value)
