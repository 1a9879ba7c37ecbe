"""What of a chat is summarised, and when: the budgets of its model, and the plan they allow."""
