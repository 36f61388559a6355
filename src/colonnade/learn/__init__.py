"""What computes: the learners that the programs ask, and all that they are built from.

May import record, models, data, job, methods, policies, compress, protect, cipher, wire.
"""
