"""Certificates: made, signed, read, checked, revoked and renewed.

Imports no other room.
"""
