"""For those who build on this package: tools to test a new world, method or encoding.

May import run, net, sim, party, learn, record, models, data, job, methods, policies, compress,
wire.
"""
