"""Tasks of one word: `nox -l` lists them, `nox -s quick` runs one, in the virtual environment that nox is in."""

import nox

nox.options.sessions = ["lint", "quick"]
nox.options.default_venv_backend = "none"


@nox.session
def quick(session: nox.Session) -> None:
    """Tests for the loop of writing code: fast and pure."""
    session.run("python", "-m", "pytest", "-m", "quick", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """All tests but the slow ones; `nox -s tests -- --everything` runs those too."""
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Format, then check style and types."""
    session.run("python", "-m", "ruff", "format", ".")
    session.run("python", "-m", "ruff", "check", "--fix", ".")
    session.run("python", "-m", "mypy")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation into site/; a wrong link fails."""
    session.run("python", "-m", "mkdocs", "build", "--strict", *session.posargs)


@nox.session
def serve(session: nox.Session) -> None:
    """Show the documentation at http://127.0.0.1:8000 while you write it."""
    session.run("python", "-m", "mkdocs", "serve", *session.posargs)


@nox.session
def pictures(session: nox.Session) -> None:
    """Draw the pictures of the documentation again."""
    session.run("python", "docs/make_pictures.py", *session.posargs)


@nox.session
def ci(session: nox.Session) -> None:
    """What must pass before a change lands (Linux)."""
    session.run("bash", ".ci/run", external=True)
