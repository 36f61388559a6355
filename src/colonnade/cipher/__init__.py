"""Numbers that others can add up without seeing them: Paillier's cryptosystem, packed, and CKKS.

    scheme     what a cryptosystem has to do for that, and Paillier as one
    big        gmpy2, or the sentence that says how to get it
    powers     powers of one number, from a table
    paillier   keys, encryption, decryption; what can be done to a ciphertext
    slots      whole numbers side by side in one plaintext, and fixed point
    linear     a known matrix times encrypted rows
    tensor     a tensor of ciphertexts: sums and multiples whose range is known, and its bytes
    ckks       another cryptosystem, for sums of wide tensors
    seal       what it takes of TenSEAL, or the sentence that says how to get it

What is computed under encryption is exact: it equals the same sums and products of whole numbers,
bit for bit. Nothing here runs in constant time, so it does not withstand somebody who can measure
the party's processor.

Imports no other room.
"""
