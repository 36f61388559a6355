"""Serving: rows that are scored on demand, by whoever asks over HTTP.

May import predict, learn, record, data, job.
"""
