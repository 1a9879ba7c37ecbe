"""The page of versions and scenarios says what the last runs found."""

from tests.e2e import matrix
from tests.e2e.versions import VERSIONS


def test_the_table_is_that_of_the_results() -> None:
    page = matrix.PAGE.read_text("utf-8")

    assert page == matrix.page(page, matrix.read(matrix.JSON)), "run `python -m tests.e2e.matrix`"


def test_the_results_are_of_scenarios_and_versions_that_there_are() -> None:
    results = matrix.read(matrix.JSON)

    assert set(results) <= set(VERSIONS)
    for version, found in results.items():
        assert set(found) <= set(matrix.scenarios()), f"run `scripts/e2e --version {version}` again"
        assert set(found.values()) <= set(matrix.RESULTS)
