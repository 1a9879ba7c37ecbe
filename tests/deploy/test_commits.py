"""`scripts/commits`: which messages of commits pass, in clones of any depth and without git."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "commits"
GOOD = "Say → in a subject\n\nBecause it has one character, and three bytes."

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


class Repository:
    """A repository whose second commit adds the rule; the first one breaks it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("before the rule.")
        self.git("branch", "older")
        (folder / "scripts").mkdir()
        shutil.copy(SCRIPT, folder / "scripts" / "commits")
        self.commit("Add the rule\n\nSo that the history can be read.")

    def git(self, *arguments: str) -> None:
        """A git command; its author is nobody."""
        author = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")
        subprocess.run(["git", *author, *arguments], cwd=self.folder, check=True, timeout=120)

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)

    def checked(self) -> str:
        """What the script complains about; empty when it passes."""
        return checked(self.folder)


def checked(folder: Path) -> str:
    finished = subprocess.run([folder / "scripts" / "commits"], capture_output=True, text=True, timeout=120)
    assert bool(finished.returncode) == bool(finished.stderr)
    return finished.stderr


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def test_older_commits_than_the_rule_and_branches_from_before_it_may_break_it(repository: Repository) -> None:
    repository.git("checkout", "--quiet", "older")
    repository.commit("beside the rule.")
    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-edit", "older")
    repository.commit(GOOD)
    assert repository.checked() == ""


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ("lower case\n\nWhy.", "capital letter"),
        ("A stop at the end.\n\nWhy.", "full stop"),
        ("Nothing but a subject", "body"),
        ("WIP: it does not work yet\n\nWhy.", "not finished"),
        ("fixup! Add the rule\n\nWhy.", "not finished"),
        ("Ä" * 73 + "\n\nWhy.", "73 characters"),
    ],
)
def test_a_message_that_breaks_the_rule_is_named(repository: Repository, message: str, complaint: str) -> None:
    repository.commit(message)
    repository.commit(GOOD)
    assert complaint in repository.checked()
