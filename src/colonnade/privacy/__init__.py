"""What a party's recorded traffic tells others: attacks, each a function of what an attacker has,
and what is said of the results.

May import record, data.
"""
