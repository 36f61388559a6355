"""Prediction: rows that all parties score together, each with its part of a trained model.

May import align, party, learn, record, data, job, wire.
"""
