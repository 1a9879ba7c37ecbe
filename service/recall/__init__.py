"""Finds covered messages and results of tools again, and shows them exactly. Pure.

`parts` is what a message is searched by, in `passages`, `ranking` finds, `references` says what `T12` means, and
`shown` is what a model or an operator reads.
"""
