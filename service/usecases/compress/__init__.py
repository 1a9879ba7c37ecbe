"""The one use case of workers: claim the chat whose turn it is, plan, summarise, judge, publish.

`rounds` tells it from top to bottom; `claims` has what a worker holds, `host_models` the summariser
that is a host's model, `outcomes` what each end means.
"""

from service.usecases.compress.claims import WorkerContext
from service.usecases.compress.rounds import WorkResult, compress

__all__ = ["WorkResult", "WorkerContext", "compress"]
