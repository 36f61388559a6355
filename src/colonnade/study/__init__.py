"""Experiments of papers as declarations, and the engine that trains, judges and tells them.

May import run, record, data, job, methods.
"""
