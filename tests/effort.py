"""How much a run of the tests does.

`scripts/test` leaves out what is marked `slow`, and tries an eighth of the examples of a property.
`scripts/test --all`, which is what CI runs, does all of it.
"""

import os

ALL = bool(os.environ.get("TEST_ALL"))
_FEWEST = 8


def examples(number: int) -> int:
    """How many examples of a property are tried of the `number` that a whole run tries."""
    return number if ALL else min(number, max(number // 8, _FEWEST))
