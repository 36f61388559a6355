"""What a run looks like in a browser: facts from run folders, and one self-contained HTML file.

A folder may have come from anybody: it is read within limits, nothing of it runs, and whatever
text is in it is shown as text.

May import run, record, methods, policies, compress, protect, job, wire.
"""
