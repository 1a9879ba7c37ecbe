"""Benchmarks: ratios between variants that are measured side by side, in one run on one machine.

Each module is one command (`python -m benchmarks.lookup`), `python -m benchmarks` runs them all. A module has one
`measure(quick)`, which starts what it needs and gives a `report.Report`.
"""
