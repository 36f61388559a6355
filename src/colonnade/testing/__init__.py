"""For those who build on this package: what a new world, method or encoding is tried with.

May import run, net, sim, party, learn, record, models, data, job, methods, policies, compress,
wire.
"""
