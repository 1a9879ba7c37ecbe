"""Work on texts of unknown size and content, in processes of their own.

`pool` starts them, `child` is their program, `materials` is what runs there, beside
`service.processes.intake` and `summarising`.
"""

from service.processes.pool import Texts

__all__ = ["Texts"]
