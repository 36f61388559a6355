"""The network: one party in this process, its peers over connections that may break.

May import tls, party, record, job, wire.
"""
