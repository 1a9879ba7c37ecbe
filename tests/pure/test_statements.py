"""Statements in files, as asyncpg takes them."""

from service.storage import statements


def test_parameters_are_numbered_by_their_first_place_and_casts_and_slices_stay() -> None:
    sql = "select line[1:n - 1], :leaf::text, (:new::bigint[])[place] from t where id in (:leaf, :above) and x[:]"

    statement = statements.numbered(sql)

    assert statement.sql == "select line[1:n - 1], $1::text, ($2::bigint[])[place] from t where id in ($1, $3) and x[:]"
    assert statement.given({"above": 3, "new": [2], "leaf": 1, "other": 4}) == [1, [2], 3]


def test_each_statement_of_a_file_is_there_by_name_without_its_comments() -> None:
    found = statements.load("work")

    assert list(found) == ["one_by_one", "next_chat", "lease"]
    assert not any("--" in statement for statement in found.values())
    assert all(statement.split()[0] in ("select", "update") for statement in found.values())
