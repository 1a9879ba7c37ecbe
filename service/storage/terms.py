"""Terms of statements: the database's time, and one of any number of values.

Values are one array, because a statement has at most 32,767 parameters.
"""

from collections.abc import Collection
from datetime import datetime
from typing import TypeVar

from sqlalchemy import ARRAY, ColumnElement, Interval, all_, any_, func, literal

Value = TypeVar("Value", int, str, bytes)


def in_values(column: ColumnElement[Value], values: Collection[Value]) -> ColumnElement[bool]:
    """Whether the column's value is one of these."""
    return column == any_(literal(list(values), ARRAY(column.type)))


def not_in_values(column: ColumnElement[Value], values: Collection[Value]) -> ColumnElement[bool]:
    """Whether the column's value is none of these."""
    return column != all_(literal(list(values), ARRAY(column.type)))


def after_seconds(seconds: float | ColumnElement[float]) -> ColumnElement[datetime]:
    """The database's time in so many seconds: the only one that decides, as clocks may differ."""
    return func.now() + func.make_interval(0, 0, 0, 0, 0, 0, seconds, type_=Interval)
