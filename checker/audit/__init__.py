"""Audit: evidence that a log, a result or a round gives against itself.

`evidence` writes down what was compared, `replayed` hands a log to `checker.replay`, `answer_log` reads
accuracy logs. `traces` is what travels from each run to the rules that compare runs, `tracing` makes
it, `field` indexes it and `copies` finds runs that are one. `selection` draws results to audit, `join`
audits one or several trees and `explain` shows all that was compared of one result. The rules are in ``checker.rules.audit``.
"""
