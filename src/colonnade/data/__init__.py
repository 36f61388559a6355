"""Tables, batches, named data sets, and each party's part of them.

May import job.
"""
