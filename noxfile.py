"""Tasks of one word: `nox -l` lists them, `nox -s quick` runs one, in the virtual environment that nox is in."""

import sys

import nox

nox.options.sessions = ["lint", "quick"]
nox.options.default_venv_backend = "none"


@nox.session
def quick(session: nox.Session) -> None:
    """Tests for the loop of writing code: fast and pure."""
    session.run(sys.executable, "-m", "pytest", "-m", "quick", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """All tests but the slow ones; `nox -s tests -- --everything` runs those too."""
    session.run(sys.executable, "-m", "pytest", *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """Plant about a hundred mistakes one by one: tests must find each; `nox -s mutants -- doctor` plants some."""
    session.run(sys.executable, "-m", "tests.mutants", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Format, then check style and types."""
    session.run(sys.executable, "-m", "ruff", "format", ".")
    session.run(sys.executable, "-m", "ruff", "check", "--fix", ".")
    session.run(sys.executable, "-m", "mypy")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation into build/site; a wrong link fails."""
    session.run(sys.executable, "-m", "docs.website.build")


@nox.session
def serve(session: nox.Session) -> None:
    """Show the documentation at http://127.0.0.1:8000 while you write it."""
    session.run(sys.executable, "-m", "docs.website.build", "serve")


@nox.session
def pictures(session: nox.Session) -> None:
    """Draw the pictures of the documentation again; with `-- --check`, list those that are not current."""
    session.run(sys.executable, "-m", "docs.website.pictures", *session.posargs)


@nox.session
def ci(session: nox.Session) -> None:
    """What must pass before a change lands (Linux)."""
    session.run("bash", ".ci/run", external=True)
