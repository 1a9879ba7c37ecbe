"""Installs LiteLLM's proxy: `python -m tests.hosts`. A test cannot install it, because tests read no certificates."""

from tests.hosts.litellm_proxy import installed

installed()
