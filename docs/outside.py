# SPDX-License-Identifier: Apache-2.0
"""Puts pages that lie outside of docs on the site; a hook of mkdocs.yml.

A page of docs links to them as files of the repository, [Changes](../CHANGELOG.md), which works on
the site too.
"""

from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGES = {"CHANGELOG.md": "changelog.md", "examples/README.md": "examples.md"}


def on_files(files: Any, config: Any) -> Any:
    """mkdocs: adds the pages."""
    from mkdocs.structure.files import File  # only the environment of the site has it

    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """mkdocs: links to the files lead to the pages."""
    up = "../" * page.file.src_uri.count("/")
    for source, name in PAGES.items():
        markdown = markdown.replace(f"]({up}../{source})", f"]({up}{name})")
    return markdown
