"""The dashboard: all runs of a folder in a browser, those that go on live, and what a job would
cost. Whatever lies in the folder may have come from anybody: it is read within limits, and nothing
of it runs.

May import page, serve, run, net, record, methods, job.
"""
