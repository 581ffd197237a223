DROP INDEX audit_deletions;
