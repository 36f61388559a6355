"""The independent choices a method is made of, one file an axis.

Every axis has a protocol, a neutral element and its variants. Policies are frozen values without
state: what they decide from is the `View` that a party keeps of itself.

Imports no other room.
"""
