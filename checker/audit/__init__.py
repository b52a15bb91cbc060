"""Audit: evidence that a log, a result or a round gives against itself.

`evidence` writes down what was compared, `replayed` hands a log to `checker.replay`, `traces` is
what travels from each run to the rules that compare runs, `selection` draws results to audit and
`join` audits one or several trees. The rules are in ``checker.rules.audit``.
"""
