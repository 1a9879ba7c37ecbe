"""Becomes a server: leaves the terminal and root, ties its life to ours, then execs.

    python -I -S tied.py PARENT_PID DEATH_SIGNAL UID GID COMMAND...      (UID -1: stay who we are)

Why a program and not `preexec_fn`: that would run Python between fork and exec in a process with
threads, where any lock may be held for ever, and forbids vfork. Here the process has one thread,
and what goes wrong is a line in the server's log. It costs 15 ms. Imports the standard library
only: it runs without site-packages.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1

# Nothing of ours leaks to the servers: no keys of the service, no PGPORT or PGDATA of the operator.
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "PATH": os.defpath}


def tie_to_parent(uid: int, gid: int) -> None:
    """Leave root for good, and every group of root's with it."""
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


def die_with_parent(parent: int, signal_number: int) -> None:
    """Have the kernel signal us when the thread that started us ends.

    Call it after `tie_to_parent`: a change of user clears the setting. It survives exec.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, signal_number) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:  # it died before we asked: no signal will come
        sys.exit("the process that started this server is gone")


def main(argv: list[str]) -> None:
    """Read the command line above and turn into its COMMAND."""
    parent, signal_number, uid, gid = (int(argument) for argument in argv[:4])
    os.setsid()  # Ctrl-C in the terminal is for Precis, which stops its servers in its own time
    os.umask(0o077)
    tie_to_parent(uid, gid)
    die_with_parent(parent, signal_number)
    os.execve(argv[4], argv[4:], ENVIRONMENT)  # noqa: S606 - the embedded server


if __name__ == "__main__":
    main(sys.argv[1:])
