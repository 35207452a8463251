"""The page's modules in a real JavaScript engine, without a page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.chromium import Chromium
from tests.coverage_page.stub_api import StubApi

MODULES = ("words", "offsets", "entries", "pairs", "compact", "export", "replay_conf")


class Engine:
    """A browser whose page has nothing but the modules."""

    def __init__(self, browser: Chromium, address: str) -> None:
        self._browser = browser
        browser.visit(f"{address}/kafka-coverage/words.js")
        browser.wait_for("location.pathname.endsWith('words.js')")
        self._imports = ", ".join(f"import('{address}/kafka-coverage/{name}.js')" for name in MODULES)

    def run(self, body: str, argument: Any = None) -> Any:
        """The result of a function body, with all exports as ``m`` and an argument as ``a``; a BigInt is a string."""
        text = json.dumps(json.dumps(argument))
        return json.loads(
            self._browser.evaluate(
                f"Promise.all([{self._imports}]).then((all) => {{ const m = Object.assign({{}}, ...all);"
                f"const a = JSON.parse({text}); const r = (() => {{ {body} }})();"
                "return JSON.stringify(r ?? null, (_, v) => typeof v === 'bigint' ? String(v) : v); })"
            )
        )


@contextmanager
def page_modules() -> Iterator[Engine]:
    with StubApi() as api, Chromium() as browser:
        yield Engine(browser, api.url)
