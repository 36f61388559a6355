"""A party of several processes: a model computed over all of them, slice by slice.

Imports no other room.
"""
