"""The interpreters: forward (dual), reverse (tape), batched (batch), writing down (stage).

Called, `ad.trace(f, *, seed=None, tangents=None)`, it is the function that runs f and returns its evaluation trace, to be
printed: values, adjoints and tangents, step by step. It is written in `adjoint.evaluation`.
"""
