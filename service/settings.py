"""Every setting, from the environment only: `PRECIS_X`, or `PRECIS_X_FILE` to read it from a file.

`docs/settings.md` and `.env.example` are made of this module by `scripts/settings`.
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
OF_COMMANDS = ("url", "key")  # no settings: by them commands find a service (`cli.client`)
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
_PerMillion = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Prices = Annotated[Json[dict[str, _PerMillion]], NoDecode]


class Settings(BaseSettings):
    """The settings in force. `load` reads them; nothing else reads the environment."""

    # No `.env` from the current folder: nobody would know where a value came from.
    # `extra="ignore"`: `unknown` reports misspelt variables, which need not stop the service.
    # Defaults are not validated: those of objects are no JSON.
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="ignore", validate_default=False
    )

    # What you must set: where it runs, and what writes summaries.
    host: str = Field("127.0.0.1", description="Address that the service listens on.")
    port: int = Field(
        8377, ge=0, le=65535, description="Port that the service listens on; 0 takes a free one."
    )
    data_dir: Path = Field(
        Path("precis-data"),
        description="Folder of the embedded PostgreSQL and Valkey."
        " Not used when both URLs below are set.",
    )
    database_url: SecretStr | None = Field(
        None,
        description="PostgreSQL, as `postgresql://user:password@host/database`; with TLS,"
        " `?sslmode=verify-full&sslrootcert=FILE` behind it. Unset: the embedded one.",
    )
    redis_url: SecretStr | None = Field(
        None,
        description="Redis or Valkey, as `redis://:password@host:6379/0`; with TLS,"
        " `rediss://:password@host:6379/0?ssl_ca_certs=FILE&ssl_check_hostname=true`."
        " Unset: the embedded one.",
    )
    summariser: Literal["extractive", "openai", "ollama"] = Field(
        "extractive",
        description="Which endpoint of its own writes summaries: an OpenAI-compatible server"
        " (`openai`), or `ollama`. With `extractive`, it is none: models of Open WebUI write, as"
        " `precis install-filter --summariser` has chosen, or code alone.",
    )
    summariser_url: str = Field(
        "",
        description="Base URL of the summariser, such as `http://localhost:8000/v1` (openai) or"
        " `http://localhost:11434` (ollama).",
    )
    summariser_model: str = Field("", description="Name of the model at the summariser.")
    summariser_key: SecretStr = Field(
        SecretStr(""), description="Bearer key of the summariser, if it needs one."
    )

    # What you may set: when summaries begin, whose data may meet, how long it is kept.
    window: Window = Field(
        DEFAULT_WINDOW,
        description="Context window of a model in tokens, when Open WebUI does not know it.",
    )
    apply_at: ApplyAt = Field(
        APPLY_AT,
        description="Share of the window, from 0.3 to 0.95, above which a request is served with a"
        " summary. Work on the summary begins at two thirds of that, at half the window at the"
        " latest. The default is 100,000 tokens of 131,072. Lower: requests are cheaper, and the"
        " model sees fewer messages word for word. Higher: less room for the answer, and requests"
        " may be cut while a summary is being written.",
    )
    keep_messages: KeepMessages = Field(
        KEEP_MESSAGES,
        description="Newest messages, from 2 to 200, that are sent word for word beside a summary;"
        " fewer when they take more than an eighth of what a request may have. More of them cost"
        " their tokens in each request and leave less to summarise.",
    )
    summary_share: SummaryShare = Field(
        SUMMARY_SHARE,
        description="Share of a window of 16,384 tokens, from 0.05 to 0.4, that a summary may take:"
        " 4,688 tokens; 2,344 of 8,192 and 16,682 of 131,072; more if it covers very much. Up to"
        " 60 % of it, 4,000 tokens at most, is the state that a summariser writes; the rest is"
        " users' words and tool calls, which code copies. Higher: more is kept, each request costs"
        " more, and in a small window summaries are written more often.",
    )
    models: Models = Field(
        {},
        description='Settings of single models, as JSON: `{"llama3:8b": {"window": 8192,'
        ' "apply_at": 0.7, "keep_messages": 6, "summary_share": 0.25}}`. The name is the'
        " model's id in Open WebUI, or its name in LiteLLM. `window` is used when the host does not"
        " tell it."
        " `summariser_model` names another model at PRECIS_SUMMARISER_URL for this model's chats."
        " The settings above apply to whatever is left out.",
    )
    encryption_keys: SecretStr = Field(
        SecretStr(""),
        description="Keys that stored texts are sealed with, as `id:base64`, separated by commas or"
        " line ends: the first writes, all read; with `none` before them, new texts are stored as"
        " they are. `precis keys new-encryption-key` makes one."
        " Unset: texts are stored as they are. Without its key, a sealed text is lost.",
    )
    # The default shows nothing to anybody else.
    share_forks: Literal["user", "tenant"] = Field(
        "user",
        description="Whose summaries a fork, a clone or an imported chat may reuse for the messages"
        " that it has in common with another chat: only the same `user`'s, or anybody's in the"
        " `tenant` (one Open WebUI).",
    )
    mask_secrets: bool = Field(
        True,
        description="Whether API keys, bearer tokens, passwords and private keys are masked in"
        " stored tool results and in summaries.",
    )
    keep_bodies: Days = Field(
        30,
        description="Days without new messages after which the texts of a chat are deleted, or"
        " `forever`; also the days that replaced versions of summaries are kept. One month: time to"
        " find out that a summary is wrong.",
    )
    keep_chats: Days = Field(
        "forever",
        description="Days without new messages after which a chat is deleted with everything"
        " stored for it, or `forever`. Forever: its summaries were paid for, and Open WebUI still"
        " has the chat.",
    )
    keep_history: Days = Field(
        365,
        description="Days that audit rows, records of work on chats and daily figures of tokens are"
        " kept, or `forever`. One year: audits usually come late.",
    )
    prices: Prices = Field(
        {},
        description="Price of a million input tokens by model, as JSON:"
        ' `{"gpt-4o": 2.5, "gpt-4o-mini": 0.15}`, in any one currency. The name is the model\'s id'
        " in Open WebUI, for tokens that were not sent, or that of PRECIS_SUMMARISER_MODEL, for"
        " tokens that summaries cost. A model without a price is shown in tokens only.",
    )
    openwebui_url: str = Field(
        "",
        description="Address of Open WebUI, such as `https://chat.example.org`. A chat's page in"
        " Precis leads to its page there. With it and"
        " PRECIS_OPENWEBUI_KEY, a worker asks once a night for the chats that are stored for the"
        " tenant `default`, and deletes those that Open WebUI has no more, as `precis reconcile`"
        " does. Unset: it does not.",
    )
    openwebui_key: SecretStr = Field(
        SecretStr(""),
        description="API key of an admin of Open WebUI, for `precis install-filter` and"
        " `precis reconcile`.",
    )
    metrics_token: SecretStr = Field(
        SecretStr(""),
        description="Bearer token with which `/metrics` may be read. Unset: nobody may.",
    )
    log_format: Literal["console", "json"] = Field(
        "console", description="Log lines for people (`console`) or for machines (`json`)."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest level that is logged."
    )

    # What you will rarely set.
    summariser_window: int = Field(
        32_768,
        ge=4096,
        description="Context window of the summariser in tokens. The size of its prompts follows"
        " from it; those of a chat's own model are never larger than its window either.",
    )
    # Long enough for a slow model: no user waits for a summary.
    summariser_timeout: float = Field(
        300.0, gt=0, description="Seconds that one summariser call may take."
    )
    summariser_calls: int = Field(
        4,
        ge=1,
        description="Most chats that all workers together let the summariser work on at a time.",
    )
    worker_jobs: int = Field(
        4,
        ge=1,
        description="Chats that one worker works on at the same time, beside those that wait for"
        " the summariser.",
    )
    # Off, because several workers of one machine cannot share a port.
    worker_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Port on PRECIS_HOST on which `precis worker` serves `/livez` and `/metrics`; 0"
        " means none.",
    )
    max_body_bytes: int = Field(
        8 * 2**20,
        ge=2**16,
        description="Largest request body in bytes; above it, 413. A process holds four of them at"
        " a time, a byte of which takes up to 23 bytes of memory; above it, 503 with"
        " `Retry-After`.",
    )
    use_proxy: bool = Field(
        False,
        description="Whether the summariser is asked through the proxy that `HTTP_PROXY`,"
        " `HTTPS_PROXY` or `ALL_PROXY` names, which then sees what it is asked.",
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
        """The keys that texts are sealed with."""
        text = self.encryption_keys.get_secret_value()
        return encryption.keys_of(text) if text.strip() else EncryptionKeys()

    def of_model(self, model: str) -> ModelSettings:
        """What `PRECIS_MODELS` sets for one model."""
        return self.models.get(model, _ANY_MODEL)

    def apply_share(self, model: str) -> float:
        """The share of a model's window above which its requests are served with a summary."""
        return self.of_model(model).apply_at or self.apply_at

    def lender_to(self, user: str) -> str | None:
        """Whose summaries a user's forks may reuse; None for anybody's in the tenant."""
        return None if self.share_forks == "tenant" else user

    def policy(
        self, model: str, window: int | None, overhead: int = 0, read: int | None = None
    ) -> Policy:
        """The budgets for a chat of a model.

        Args:
            model: its id in Open WebUI.
            window: its window in tokens; None when Open WebUI does not know it.
            overhead: tokens of each request beside its messages, such as tool specifications.
            read: tokens that a call of the model which writes summaries may have, with its answer;
                never more than the setting says, and that for None.
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
    """The settings from the environment; files that variables name win, and `explicit` ones more.

    Raises:
        ConfigurationError: one or more are wrong; the message names each variable and what is wrong
            with it.
    """
    try:
        return Settings(**(_from_files() | explicit))
    except ValidationError as error:
        reasons = [_reason(one["loc"], one["msg"]) for one in error.errors()]
        raise ConfigurationError("; ".join(reasons)) from error


def _from_files() -> dict[str, str]:
    """`PRECIS_X_FILE=/run/secrets/x` sets X to the content of that file, less its last line end."""
    values = {}
    for name in Settings.model_fields:
        path = os.environ.get(f"{variable(name)}_FILE")
        if path is None:
            continue
        try:
            # Editors and `echo` end a file with a line end, which no secret contains.
            values[name] = Path(path).read_text().rstrip("\n")
        except OSError as error:
            raise ConfigurationError(
                f"{variable(name)}_FILE names {path}, which cannot be read: {error.strerror}."
                " Correct the path, or let the user that Precis runs as read the file"
            ) from error
    return values


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"{PREFIX}{name.upper()}"


def _reason(place: tuple[int | str, ...], message: str) -> str:
    """One error with its variable, and the keys inside of it when its value is an object."""
    # An error about several settings has no place, and names its variables itself.
    if not place:
        return message
    name, *keys = map(str, place)
    inside = f"{' → '.join(keys)}: " if keys else ""
    return f"{variable(name)}: {inside}{message}"


def unknown() -> list[str]:
    """Variables with our prefix that nobody reads: most likely misspelt."""
    names = {variable(name) for name in (*Settings.model_fields, *OF_COMMANDS)}
    ours = (name for name in os.environ if name.startswith(PREFIX))
    return sorted(name for name in ours if name.removesuffix("_FILE") not in names)


def warnings(settings: Settings) -> list[str]:
    """What is allowed, and probably not meant."""
    if settings.summariser == "extractive" and settings.summariser_url:
        return [
            f"{PREFIX}SUMMARISER_URL is set, but {PREFIX}SUMMARISER is extractive, so nobody asks"
            f" it. Set {PREFIX}SUMMARISER to openai or ollama"
        ]
    return []


def redacted(settings: Settings) -> dict[str, str]:
    """Every setting as text, secrets and passwords hidden."""
    return {name: _shown(value) for name, value in settings}


def _shown(value: Any) -> str:  # noqa: ANN401 - any setting
    """A value as the environment takes it; a secret as stars."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return json.dumps({name: one.model_dump(exclude_none=True) for name, one in value.items()})
    # `SecretStr` hides itself, and shows an empty secret as empty text: it is not set.
    return str(value)
