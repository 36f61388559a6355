"""The simulator: all parties in one process, in virtual time, deterministically.

May import party, record, job, wire.
"""
