"""`python -m benchmarks [--quick] [--json PATH]`: all of them, one after the other; `inlet` where Open WebUI is."""

from benchmarks import context_http, estimates, ingest, inlet, lookup, memory
from benchmarks.report import command

if __name__ == "__main__":
    needing_nothing = (
        lookup.measure,
        context_http.measure,
        ingest.measure,
        memory.measure,
        estimates.measure,
    )
    command(*needing_nothing, *([inlet.measure] if inlet.possible() else []))
