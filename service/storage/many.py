"""Terms for any number of values.

These are one array, because a statement has at most 32,767 parameters.
"""

from collections.abc import Collection
from typing import TypeVar

from sqlalchemy import ARRAY, ColumnElement, all_, any_, literal

Value = TypeVar("Value", int, str, bytes)


def among(column: ColumnElement[Value], values: Collection[Value]) -> ColumnElement[bool]:
    """Whether the column's value is one of these."""
    return column == any_(_array(column, values))


def not_among(column: ColumnElement[Value], values: Collection[Value]) -> ColumnElement[bool]:
    """Whether the column's value is none of these."""
    return column != all_(_array(column, values))


def _array(column: ColumnElement[Value], values: Collection[Value]) -> ColumnElement[list[Value]]:
    return literal(list(values), ARRAY(column.type))
