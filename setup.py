"""The addresses that the package index shows, and the wheel's example DAGs. All else of the package is in setup.cfg."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

#: The only place to fill in: the public repository on GitHub or GitLab, such as "https://github.com/example/project".
#: While it is empty, the package index gets no project URLs, and of the README's links into the repository the text.
REPOSITORY = ""
_FILES = f"{REPOSITORY}/blob/main"
#: Of links and images, those without a scheme; a link to a heading of the README itself stays.
_RELATIVE_LINK = re.compile(r"(!?)\[([^\]]+)\]\((?!\w+:|#)([^)\s]+)\)")


def _project_urls() -> dict[str, str]:
    return {
        "Source": REPOSITORY,
        "Documentation": f"{_FILES}/docs/README.md",
        "Changelog": f"{_FILES}/CHANGELOG.md",
        "Issues": f"{REPOSITORY}/issues",
    }


def _readme() -> str:
    text = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    return _RELATIVE_LINK.sub(_absolute, text)


def _absolute(link: re.Match[str]) -> str:
    image, text, target = link.groups()
    if not REPOSITORY:
        return text
    return f"{image}[{text}]({f'{REPOSITORY}/raw/main' if image else _FILES}/{target})"


class BuildWithExamples(build_py):
    """The wheel has the example DAGs, which ``airflow kafka-spark example`` prints. They are no modules to import."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            folder = Path(self.build_lib) / "airflow_provider_kafka_spark/example_dags"
            folder.mkdir(parents=True, exist_ok=True)
            for file in sorted(Path(__file__).parent.glob("dags/*.py")):
                shutil.copy(file, folder)


if __name__ == "__main__":
    setup(
        long_description=_readme(),
        project_urls=_project_urls() if REPOSITORY else {},
        cmdclass={"build_py": BuildWithExamples},
    )
