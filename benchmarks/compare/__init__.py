"""Precis beside Open WebUI's own compaction, on a real Open WebUI.

`scenario` is the conversation with what is planted in it, `honest` the summariser that both ask, `stand` runs it,
`lookups` asks Precis for what a request lacks, `page` writes docs/comparison.md.
"""
