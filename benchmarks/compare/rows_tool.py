"""title: Rows
description: A table whose rows can be foretold.
version: 1.0.0
"""

# Installed in Open WebUI by the comparison, which imports `rows` to know what the model has to see.
import json
import zlib

COUNT = 24


def serial(page: int, row: int) -> str:
    """Of one row of one page."""
    return f"SN{page:03d}-{zlib.crc32(f'{page} {row}'.encode()) % 10**7:07d}"


def cells(page: int, row: int) -> dict[str, object]:
    """One row of one page."""
    return {
        "serial": serial(page, row),
        "site": ("north", "harbour", "mill", "west")[(page + row) % 4],
        "hours": page * 7 + row * 13 % 97,
        "due": f"2027-{row % 12 + 1:02d}-{page % 27 + 1:02d}",
    }


def rows(page: int) -> str:
    """One page of the table."""
    return json.dumps([cells(page, row) for row in range(COUNT)])


class Tools:
    async def query_rows(self, page: int) -> str:
        """Reads one page of the table of machines.
        :param page: Its number.
        """
        return rows(int(page))
