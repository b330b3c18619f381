# SPDX-License-Identifier: Apache-2.0
"""A browser for tests of the studio's pages: opens a page, and reads what it says and selects.

./dev test --site installs what it needs; elsewhere the tests that import it are skipped.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

selenium = pytest.importorskip("selenium.webdriver", reason="./dev test --site installs it")
pytest.importorskip("bokeh", reason="./dev test --site installs it")
CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
if not CHROMIUM.exists() or not DRIVER.exists():
    pytest.skip("./dev test --site installs Debian's chromium", allow_module_level=True)

SHAPES_MAX, SECONDS = 4000, 30


def start() -> Iterator[Any]:
    """A browser for a module's tests: browser = pytest.fixture(scope="module")(start)."""
    options = selenium.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1600,1200"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = selenium.Chrome(options=options, service=selenium.ChromeService(str(DRIVER)))
    yield driver
    driver.quit()


def until(browser, script):
    """The value of a script once it is neither null, false nor -1."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        found = browser.execute_script(f"return {script}")
        if found not in (None, False, -1):
            return found
        time.sleep(0.05)
    raise AssertionError(f"{script} is still {found}")


def open_page(browser, path):
    browser.get(path.as_uri())
    until(browser, "typeof studio !== 'undefined' && studio.shapes() >= 0")
    wrong = [one for one in browser.get_log("browser") if one["level"] == "SEVERE"]
    assert wrong == []


def all_of(browser, selector):
    return browser.find_elements("css selector", selector)


def about(browser):
    """What the page says of what is selected, by name."""
    rows = all_of(browser, "#about tr")
    cells = [[cell.text for cell in row.find_elements("css selector", "td")] for row in rows]
    found = {}
    for name, value in cells:
        found.setdefault(name, []).append(value)
    return found


def selected_lines(browser):
    return [one.get_attribute("textContent") for one in all_of(browser, ".line.selected")]
