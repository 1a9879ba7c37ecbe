"""Precis beside Open WebUI's own compaction, on a real Open WebUI.

`scenario` is the conversation with what is planted in it, `honest` the summariser that both ask, `stand` runs it,
`page` writes docs/comparison.md.
"""
