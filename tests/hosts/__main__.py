"""Installs LiteLLM's proxy: `python -m tests.hosts`. Tests cannot, because they look at no certificates."""

from tests.hosts.litellm_proxy import installed

installed()
