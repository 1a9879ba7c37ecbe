"""Settings of the property tests: no deadline on slow machines, the same examples in every run, nothing on disk."""

from hypothesis import settings

from tests.effort import examples

settings.register_profile("pure", deadline=None, derandomize=True, database=None, max_examples=examples(60))
settings.load_profile("pure")
