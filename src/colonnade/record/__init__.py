"""What a run leaves behind: events, history, checkpoints, ledgers on disk, tables, run folders.

May import data, job, policies, wire.
"""
