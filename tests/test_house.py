"""The house is in order: what CONTRIBUTING says of files, packages and errors."""

from __future__ import annotations

import configparser
import importlib
import re
import tomllib
from pathlib import Path

import pytest

from didyma.refimpl.errors import DidymaError
from tests.error_codes import raised

ROOT = Path(__file__).parents[1]
PARTS = ("refimpl", "codegen", "oracle", "fuzz")  # packages of didyma, by links in its folder
PACKAGES = (*PARTS, "didyma")
FOLDERS = (*PACKAGES, "tests", "docs", "typings", ".ci")
WORDS = ("README.md", "CONTRIBUTING.md", "noxfile.py", "setup.cfg", "pyproject.toml")
SUFFIXES = {".py", ".pyi", ".c", ".h", ".md", ".dym", ".txt", ".cu", ".cfg", ".toml", ""}


def sources(*folders: str, suffixes: set[str]) -> list[Path]:
    found = [p for f in folders for p in sorted((ROOT / f).rglob("*")) if p.suffix in suffixes]
    return [p for p in found if p.is_file() and "__pycache__" not in p.parts]


def setup() -> configparser.ConfigParser:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config


@pytest.mark.parametrize("name", PARTS)
def test_a_folder_of_the_repository_is_a_package_of_didyma(name: str) -> None:
    file = importlib.import_module(f"didyma.{name}").__file__
    assert file is not None
    assert Path(file) == ROOT / "didyma" / name / "__init__.py"
    assert Path(file).resolve() == ROOT / name / "__init__.py"


def test_the_package_is_typed() -> None:
    assert (ROOT / "didyma" / "py.typed").is_file()


BELOW = (*PARTS, "onnx", "composites")  # what a part may import; import-linter says which part what
_FACE = re.compile(rf"^\s*(?:from|import) didyma(?!\.(?:{'|'.join(BELOW)})\b)", re.MULTILINE)


def test_no_part_imports_the_face() -> None:
    for path in sources(*PARTS, "didyma/onnx", "didyma/composites", suffixes={".py"}):
        assert not _FACE.search(path.read_text(encoding="utf-8")), path


def test_every_import_begins_at_didyma() -> None:
    bare = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(PARTS)})\b", re.MULTILINE)
    for path in sources(*PACKAGES, "tests", suffixes={".py"}):
        assert not bare.search(path.read_text(encoding="utf-8")), path


def test_every_folder_with_modules_is_a_package() -> None:
    for path in sources(*PACKAGES, "tests", suffixes={".py"}):
        assert (path.parent / "__init__.py").is_file(), path


def test_setup_names_the_packages_and_all_that_they_need_beside_modules() -> None:
    config = setup()
    include = config["options.packages.find"]["include"].split()
    assert include == ["didyma*"]
    assert config["options"]["package_dir"].split() == ["=", "."]
    patterns = {k: v.replace(",", " ").split() for k, v in config["options.package_data"].items()}
    for name in PACKAGES:
        package = name if name == "didyma" else f"didyma.{name}"
        kept = {p for x in patterns.get(package, ()) for p in (ROOT / name).glob(x)}
        others = [p for p in (ROOT / name).rglob("*") if p.is_file() and p.suffix != ".py"]
        lost = [p for p in others if p not in kept and "__pycache__" not in p.parts]
        assert not lost, "a wheel would not hold these"


def test_the_classifiers_and_the_tools_speak_of_one_python() -> None:
    config = setup()
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    lowest = config["options"]["python_requires"].removeprefix(">=")
    assert f"Python :: {lowest}" in config["metadata"]["classifiers"]
    assert config["mypy"]["python_version"] == lowest
    assert tools["basedpyright"]["pythonVersion"] == lowest
    assert tools["ruff"]["target-version"] == f"py{lowest.replace('.', '')}"


def test_no_file_is_long() -> None:
    for path in sources(*PACKAGES, "tests", "typings", suffixes={".py", ".pyi", ".c"}):
        lines = path.read_text(encoding="utf-8").count("\n")
        assert lines <= 500, f"{path.relative_to(ROOT)} has {lines} lines: it is two things"


# Folders of one machine; put together, so that this file does not hold them.
_MACHINE = re.compile("|".join("/" + x for x in ("work/", "tmp/[a-z]", "home/", "root/", "Users/")))


def test_no_path_of_a_machine() -> None:
    words = [ROOT / w for w in WORDS if (ROOT / w).exists()]
    for path in [*sources(*FOLDERS, suffixes=SUFFIXES), *words]:
        for i, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert not _MACHINE.search(line), f"{path.relative_to(ROOT)}:{i}: {line}"


def test_every_silenced_check_says_why() -> None:
    silenced = re.compile(r"# (?:type: ignore|pyright: ignore|noqa)(\[[\w, -]+\]|: [A-Z0-9, ]+)?")
    for path in sources(*PACKAGES, "tests", "typings", suffixes={".py", ".pyi"}):
        for i, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = silenced.search(line)
            if found and path != Path(__file__):
                where = f"{path.relative_to(ROOT)}:{i}"
                assert found[1], f"{where}: silences all"
                assert re.search(r"\w", line[found.end() :]), f"{where}: {line.strip()}"


def test_every_error_code_is_tested() -> None:
    """Each code that the source can raise stands in a test or in the name of a case."""
    texts = [p.read_text(encoding="utf-8") for p in sources("tests", suffixes={".py"})]
    whole = "\n".join(texts)
    cases = {p.stem.split(".")[0] for p in (ROOT / "tests").rglob("*.txt")}
    codes = raised(ROOT, PACKAGES)
    assert {"unknown-engine", "G-unknown-op", "not-a-finding", "file-missing"} <= codes
    told = set(re.findall(r"\w+(?:-\w+)*", whole))
    assert sorted(codes - cases - told) == []


def test_a_code_is_a_hyphenated_word() -> None:
    for code in raised(ROOT, PACKAGES):
        assert re.fullmatch(r"([DGLP]-)?[a-z]+(-[a-z]+)*", code), code
    assert issubclass(DidymaError, Exception)
