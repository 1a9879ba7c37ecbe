"""PostgreSQL: tables, and the statements that read and write them, grouped by who needs them.

Every function takes a connection; whoever calls it opens and commits the transaction. No decision
is made here that the pure core could make.
"""
