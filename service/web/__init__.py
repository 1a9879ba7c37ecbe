"""The operators' pages: templates over use cases, no logic of their own."""
