-- Reconciliation asks for the organizations that were deleted in the last days, which is all but nothing of the audit log.
CREATE INDEX audit_deletions ON audit (at) WHERE action = 'organization.delete' AND outcome = 'ok';
