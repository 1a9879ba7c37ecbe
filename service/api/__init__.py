"""The HTTP interface: parse, call one function, answer. No decision is made here."""
