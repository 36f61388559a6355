"""Certificates: created, signed, read, checked, denied and renewed.

Imports no other room.
"""
