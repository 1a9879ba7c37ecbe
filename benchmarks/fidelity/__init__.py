"""Fidelity: what of a conversation is still in the summary after five rounds, and whether it is still right.

`generator` makes chats with planted items, `systems` summarises them in rounds by the service's own code and by simpler
means, `scoring` looks for the items, `marks` compares with what was promised, `page` writes docs/fidelity.md.
"""
