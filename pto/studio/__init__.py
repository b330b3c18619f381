# SPDX-License-Identifier: Apache-2.0
"""The studio: one self-contained page that shows a program and a run of it, all parts linked.

    from pto import studio
    text = studio.page(studio.document_of(json))     # HTML: no server, no network

pto/pages.py reads files for it, for `python -m pto studio t.json` and `report.html(path)` of a
program's and of a runtime's report. It needs Bokeh, whose scripts the page holds.
"""

from pto.studio.document import Document, document_of, no_trace
from pto.studio.layout import page

__all__ = ["Document", "document_of", "no_trace", "page"]
