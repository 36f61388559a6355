"""Serving: rows that are scored on demand, by whoever asks over HTTP; figures for Prometheus.

May import predict, learn, record, data, job.
"""
