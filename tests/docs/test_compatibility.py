"""The page of versions says what the last runs found, of files of scenarios that there are."""

from tests.e2e import matrix
from tests.e2e.versions import VERSIONS


def test_the_table_is_that_of_the_results() -> None:
    page, results = matrix.PAGE.read_text("utf-8"), matrix.read(matrix.JSON)

    assert page == matrix.page(page, results), "run `python -m tests.e2e.matrix`"
    assert set(results) <= set(VERSIONS)
    for version, found in results.items():
        assert set(found) <= set(matrix.files()), f"run `scripts/e2e --version {version}` again"
        assert set(found.values()) <= set(matrix.RESULTS)
