"""Installs versions of Open WebUI: `python -m tests.e2e [VERSION ...]`; without a version, the newest."""

import logging
import sys

from tests.e2e.versions import NEWEST, installed

logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
for version in sys.argv[1:] or [NEWEST]:
    sys.stdout.write(f"{version} {installed(version)}\n")
