# SPDX-License-Identifier: Apache-2.0
"""The search of the site, opened from disk in a browser, finds what a page says."""

from test_site import site  # noqa: F401 a fixture
from test_studio_pages import browser, until  # noqa: F401 skips where no browser is installed


def test_the_search_of_a_page_from_disk_finds_a_variable(browser, site):  # noqa: F811
    browser.get((site / "cpp/1_tiles.html").as_uri())
    until(browser, "document.readyState === 'complete'")
    box = browser.find_element("css selector", "input.md-search__input")
    browser.execute_script("document.querySelector('#__search').click()")
    until(browser, "document.querySelector('#__search').checked")
    box.send_keys("PTO_SPIN_US")
    link = "document.querySelector('.md-search-result__link')"
    assert "configuration.html" in until(browser, f"{link} && {link}.href")
    assert [one for one in browser.get_log("browser") if one["level"] == "SEVERE"] == []
