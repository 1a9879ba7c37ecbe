"""`python -m benchmarks [--quick] [--json PATH]`: all of them, one after the other."""

from benchmarks import context_http, ingest, llm_tokens, lookup, planning
from benchmarks.report import command

if __name__ == "__main__":
    command(lookup.measure, context_http.measure, planning.measure, ingest.measure, llm_tokens.measure)
