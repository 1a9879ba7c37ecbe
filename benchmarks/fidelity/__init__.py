"""Fidelity: what of a conversation is still in the summary after five rounds, and what else stands there.

`generator` makes chats with planted items, `systems` summarises them by the service's own code and by simpler means,
`scoring` looks for the items, `page` writes docs/fidelity.md.
"""
