"""Finds covered messages and results of tools again, and shows them exactly. Pure.

`words` and `passages` split a text, `parts` cut a message into blocks that a search finds,
`ranking` finds the best passages, `references` resolves `T12`, and `display` renders the answer.
"""
