"""Alignment: which rows all parties have in common, found without showing anybody an id.

May import party, learn, record, data, job, protect, wire, tls.
"""
