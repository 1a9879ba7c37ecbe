"""From the newly covered steps to a narrative and a ledger: prompt, summariser, gate, ledger."""
