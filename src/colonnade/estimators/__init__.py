"""Trainings behind the interface of scikit-learn: frames in, predictions out.

May import run, learn, record, data, job.
"""
