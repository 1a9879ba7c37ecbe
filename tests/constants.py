"""The constants of the service that tests change: so that nobody waits, and so that limits are near.

change(fallback_after=NEVER)                # in this process, until the end of the test
precis(lease=4, debounce=0.1), "worker"     # a command line of another one
"""

import sys

from service.api import litellm
from service.processes import pool
from service.storage import jobs, prompts, work
from service.usecases.compress import outcomes
from workers import worker

NEVER = 32_000  # as a small integer of the database
PLACES = {
    "debounce": (work, "DEBOUNCE"),
    "lease": (work, "LEASE"),
    "fallback_after": (work, "FALLBACK_AFTER"),
    "breaker_after": (jobs, "OPENED_BY"),
    "breaker_pause": (jobs, "PAUSE"),
    "untaken": (prompts, "UNTAKEN"),
    "max_attempts": (outcomes, "MOST_ATTEMPTS"),
    "sweep_every": (worker, "SWEEP_EVERY"),
    "text_seconds": (pool, "SECONDS"),
    "litellm_seconds": (litellm, "SECONDS"),
}
USUAL = {name: getattr(*place) for name, place in PLACES.items()}
USUAL |= {"debounce": 0, "lease": 60}  # a busy machine may stand still for long


def change(**constants: float) -> None:
    """These constants from now on, and the usual ones of all others."""
    for name, value in (USUAL | constants).items():
        setattr(*PLACES[name], value)


def precis(**constants: float) -> tuple[str, ...]:
    """The command `precis` with these constants."""
    lines = ["from service.cli import app"]
    for name, value in constants.items():
        module, constant = PLACES[name]
        lines.append(f"import {module.__name__}; {module.__name__}.{constant} = {value!r}")
    return sys.executable, "-c", "\n".join([*lines, "app()"])
