# SPDX-License-Identifier: Apache-2.0
"""The studio: one self-contained page that shows a program and a run of it, all parts linked.

    from pto import studio
    text = studio.page(studio.read("t.json"))     # HTML: no server, no network

`python -m pto studio t.json` writes it to a file, and so do `report.html(path)` of a program's and
of a runtime's report. The studio reads JSON and draws; it imports nothing of the other rooms. It
needs Bokeh, whose scripts the page holds: pip install bokeh.
"""

from pto.studio.document import Document, document_of, read
from pto.studio.layout import page

__all__ = ["Document", "document_of", "page", "read"]
