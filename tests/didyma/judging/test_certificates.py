"""A certificate that states what none does is refused, even where its seal fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from didyma.judging import certificate
from didyma.judging.request import kept
from didyma.refimpl.errors import DidymaError

BODY: dict[str, Any] = {
    "format": certificate.FORMAT, "asked": {"file": "k.cu"}, "kernel": {"sha256": "1"},
    "spec": {"sha256": "2"}, "rounds": [], "versions": {},
}  # fmt: skip


def sealed(path: Path, body: dict[str, Any]) -> Path:
    text = json.dumps(body, sort_keys=True, ensure_ascii=False)
    path.write_text(json.dumps({**body, "sha256": certificate.digest(text)}))
    return path


def test_what_a_certificate_has_is_read(tmp_path: Path) -> None:
    found = certificate.read(sealed(tmp_path / "c.json", BODY))
    assert kept(found["asked"], tmp_path / "c.json").file == str(tmp_path / "k.cu")


@pytest.mark.parametrize("key", ["asked", "kernel", "spec", "rounds", "versions"])
def test_a_part_of_another_kind_is_named(key: str, tmp_path: Path) -> None:
    with pytest.raises(DidymaError, match=f"`{key}` = 7") as e:
        certificate.read(sealed(tmp_path / "c.json", {**BODY, key: 7}))
    assert e.value.code == "bad-certificate"


def test_a_kernel_without_its_digest_is_none(tmp_path: Path) -> None:
    with pytest.raises(DidymaError, match="a kernel without `sha256`"):
        certificate.read(sealed(tmp_path / "c.json", {**BODY, "kernel": {}}))


@pytest.mark.parametrize(
    "asked", [{}, {"file": ""}, {"file": "k.cu", "grid": 7}, {"file": "k.cu", "arg": "x=y"}]
)
def test_options_that_the_command_does_not_write_are_refused(
    asked: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(DidymaError, match="in `asked`") as e:
        kept(asked, tmp_path / "c.json")
    assert e.value.code == "bad-certificate"
