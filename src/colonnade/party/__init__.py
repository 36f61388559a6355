"""The party programs: what an active and a passive party do, in whichever world they run.

May import planning, learn, record, data, job, methods, policies, compress, protect, wire.
"""
