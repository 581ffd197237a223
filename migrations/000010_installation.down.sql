DROP INDEX organizations_installation;
ALTER TABLE organizations DROP COLUMN installation;
