"""One verb a file: what the entrances call, each in a transaction of its own."""
