"""From a job to a run: what is made ready, started, compared, forecast and kept.

May import tracking, planning, privacy, serve, predict, align, parallel, net, tls, sim, party,
learn, record, models, data, job, methods, policies, compress, protect, cipher, transfer, wire.
"""
