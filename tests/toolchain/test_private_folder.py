from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.toolchain.private_folder import check_private, check_trusted, make_private

_SOMEBODY_ELSE = 4242
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One that passes, below a folder of the test."""
    below = tmp_path / "above" / "cache"
    make_private(below)
    check_private(below)
    return below


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_missing_parents_are_private_too(tmp_path: Path) -> None:
    make_private(tmp_path / "a" / "b" / "c")

    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b", "a/b/c")]
    assert modes == [0o700, 0o700, 0o700]


@pytest.mark.parametrize("check", [check_private, check_trusted])
@pytest.mark.parametrize("mode", [0o777, 0o757, 0o772], ids=oct)
def test_a_folder_below_one_that_others_write_is_refused(
    folder: Path, check: Callable[[Path], None], mode: int
) -> None:
    """They could put another in its place."""
    if mode == 0o772:
        os.chown(folder.parent, -1, _group_of_others())
    folder.parent.chmod(mode)

    with pytest.raises(PermissionError, match=f"^{folder.parent} must belong.* has mode {mode:04o}.*chmod go-w"):
        check(folder)


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777], ids=oct)
def test_a_folder_that_others_may_write_is_refused(folder: Path, mode: int) -> None:
    folder.chmod(mode)

    with pytest.raises(PermissionError, match=f"^{folder} must belong.* has mode {mode:04o}.*chmod go-w {folder}"):
        check_private(folder)


def test_of_a_sticky_folder_others_replace_nothing(folder: Path) -> None:
    """As ``/tmp`` is; but what is loaded may not lie in it beside the files of others."""
    folder.parent.chmod(0o1777)

    check_private(folder)
    with pytest.raises(PermissionError, match=f"^{folder.parent} must belong"):
        check_trusted(folder.parent)


@needs_root
@pytest.mark.parametrize("part", ["folder", "parent"])
def test_a_folder_of_another_user_is_refused(folder: Path, part: str) -> None:
    path = folder if part == "folder" else folder.parent
    os.chown(path, _SOMEBODY_ELSE, -1)

    with pytest.raises(PermissionError, match=f"^{path} must belong.* belongs to user 4242 .*run: chown -h 0 {path}"):
        check_private(folder)


@needs_root
@pytest.mark.parametrize("part", ["folder", "parent"])
def test_the_link_of_another_user_is_refused(folder: Path, tmp_path: Path, part: str) -> None:
    """It leads elsewhere tomorrow."""
    link = tmp_path / "link"
    link.symlink_to(folder if part == "folder" else folder.parent)
    path = link if part == "folder" else link / "cache"
    check_private(path)
    os.chown(link, _SOMEBODY_ELSE, -1, follow_symlinks=False)

    with pytest.raises(PermissionError, match=f"^{link} must belong"):
        check_private(path)


@pytest.mark.parametrize("way", ["absolute", "relative", "second-link", "back"])
def test_a_link_is_followed(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """What it leads to is looked at as well, whatever its way."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "open" / "cache").mkdir()
    monkeypatch.chdir(folder)
    target = {
        "absolute": tmp_path / "open" / "cache",
        "relative": Path("../../open/cache"),
        "second-link": tmp_path / "second",
        "back": Path("../../open/cache/../cache"),
    }[way]
    (tmp_path / "second").symlink_to("open/cache")
    (folder / "link").symlink_to(target)

    with pytest.raises(PermissionError, match=f"^{tmp_path}/open must belong"):
        check_private(Path("link"))


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    """What is missing passes."""
    check_private(tmp_path / "missing" / "cache")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    with pytest.raises(PermissionError, match="more than 40 links"):
        check_trusted(tmp_path / "a" / "cache")


def _group_of_others() -> int:
    return _SOMEBODY_ELSE if os.geteuid() == 0 else next((group for group in os.getgroups() if group), os.getgid())
