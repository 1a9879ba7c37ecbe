"""`python -m tests.faults.skewed SECONDS ARGUMENT...`: Precis on a machine whose clock is off by so many seconds."""

import sys
import time

import time_machine

from service.cli import app
from tests.constants import change
from tests.faults.fleet import CONSTANTS

if __name__ == "__main__":
    change(**CONSTANTS)
    with time_machine.travel(time.time() + float(sys.argv[1]), tick=True):
        app(sys.argv[2:])
