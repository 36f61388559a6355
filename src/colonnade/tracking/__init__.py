"""Tracking: what a training tells, kept where other tools look for it: TensorBoard and MLflow.

May import record, job.
"""
