"""
title: Look up
description: A tool for the end-to-end tests whose results can be foretold.
version: 1.0.0
"""

# Installed in Open WebUI by the end-to-end tests, which import `result` to know what the model has to see.


def result(topic: str, size: int) -> str:
    """About `size` tokens on a topic, each line different."""
    return "\n".join(
        f"{topic} line {number}: reading {number * 7 % 101} of valve {number}" for number in range(size // 14)
    )


class Tools:
    async def look_up(self, topic: str, size: int) -> str:
        """
        Looks something up.
        :param topic: What to look up.
        :param size: How much to return, in tokens.
        """
        return result(topic, int(size))
