"""What is done to labels and tensors so that others learn less from them (`[method.protect]`).

    labels      flip(epsilon)              randomised response, once for all
    gradient    marvell(error), max_norm() noise that hides the class of a row, of one round
    embedding   gauss(clip, sigma)         clipped, with noise; dcor(weight): less like the columns
    sum         pairwise(bits, fraction)   masks that cancel in the sum of all parties' embeddings
    cipher      paillier(bits), ckks(degree)  training under a key that the active party has not

Each says in its docstring what it guarantees and what it does not; `docs/privacy.md` has what each
costs.

May import cipher, wire.
"""
