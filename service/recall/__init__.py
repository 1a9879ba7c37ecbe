"""Finds covered messages and results of tools again, and shows them exactly. Pure.

`passages` are what is found as one, `parts` what a message is searched by, `ranking` finds,
`references` says what `T12` means, and `shown` is what a model or an operator reads.
"""
