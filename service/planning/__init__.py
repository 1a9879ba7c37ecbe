"""Plans what is summarised of a chat, and when, by the budgets of its model."""
