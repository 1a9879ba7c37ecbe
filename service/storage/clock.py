"""The database's time: the only one that decides, so workers' clocks may differ."""

from datetime import datetime

from sqlalchemy import ColumnElement, Interval, func


def in_seconds(seconds: float | ColumnElement[float]) -> ColumnElement[datetime]:
    """The database's time in so many seconds."""
    return func.now() + func.make_interval(0, 0, 0, 0, 0, 0, seconds, type_=Interval)
