"""What lies in a folder for a moment only is found too."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

from tests.e2e.secret_search import FolderWatch, SecretSearch, Seed
from tests.waiting import until

SECRET = "Zq3vK8sWmT1xRb"


def test_files_that_come_and_go(tmp_path: Path) -> None:
    """Those that grow, that are gone with their folder, that are packed, and that are written last."""
    (tmp_path / "before").write_text(SECRET)
    with FolderWatch(SecretSearch([Seed("secret", SECRET)]), tmp_path) as watch:
        folder = tmp_path / "app" / "0"
        folder.mkdir(parents=True)
        (folder / "clean").touch()
        (folder / "gone.gz").write_bytes(gzip.compress(SECRET.encode()))
        (folder / SECRET).write_text("named")
        _wait_for(watch, "app/0/gone.gz", "app/0/clean", f"app/0/{SECRET}")
        shutil.rmtree(folder)
        grows = tmp_path / "grows"
        grows.write_text("nothing yet")
        _wait_for(watch, "grows")
        grows.write_text(f"now {SECRET}")
        (tmp_path / "last").write_text(SECRET)

    assert {hit.where for hit in watch.hits} == {
        "before",
        "app/0/gone.gz (unpacked)",
        f"app/0/{SECRET}",
        "grows",
        "last",
    }


def test_which_users_can_read_a_file(tmp_path: Path) -> None:
    """The folders on the way count, and the watched one itself does not."""
    modes = {"open/open": (0o755, 0o644), "open/private": (0o755, 0o640), "closed/open": (0o750, 0o644)}
    tmp_path.chmod(0o700)
    for name, (of_folder, of_file) in modes.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        path.chmod(of_file)
        path.parent.chmod(of_folder)
    with FolderWatch(SecretSearch([]), tmp_path) as watch:
        pass
    assert watch.names == set(modes)
    assert watch.open_to_others == {"open/open"}


def _wait_for(watch: FolderWatch, *names: str) -> None:
    until(lambda: set(names) <= watch.names, f"{names} are seen", 30.0)
