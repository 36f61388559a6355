"""What a method costs on given links and at given speeds, worked out without a run of it.

May import learn, record, models, data, job, methods, policies, compress, protect, wire.
"""
