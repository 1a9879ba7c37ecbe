"""`python -m benchmarks [--quick] [--json PATH]`: all of them, one after the other."""

from benchmarks import compress, filter_cpu, ingest, lookup, memory
from benchmarks.report import command

if __name__ == "__main__":
    command(lookup.measure, compress.measure, filter_cpu.measure, ingest.measure, memory.measure)
