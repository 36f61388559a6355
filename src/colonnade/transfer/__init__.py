"""Federated transfer learning between two parties under encryption, as FedBCD's section VII has it.

The guest has labels and columns of its own, the host columns of some of the same rows. Each has a
key of its own, encrypts what the other needs, and gets its gradients decrypted by the other, under
a mask, in every update. It is here to be measured and shown (`colonnade reproduce fedbcd-he`):
`leak` says why nobody should rely on it.

    setting   what both agree on, and how many bits each number has
    rows      the rows of both parties, from the credit data
    bottom    a layer of tanh units with Adam
    sides     the guest and the host: what they send, and how they learn
    clear     the gradients in whole numbers
    sealed    the same under encryption, and under masks
    training  all of it in one process, without encryption
    program   over a world, with encryption
    leak      what each side finds out about the other

May import cipher, party, record, data, job, wire.
"""
