-- The organization whose administrators look after the installation: the one that the set-up made.
ALTER TABLE organizations ADD COLUMN installation boolean NOT NULL DEFAULT false;
UPDATE organizations SET installation = true WHERE id = (SELECT id FROM organizations ORDER BY created_at, id LIMIT 1);
CREATE UNIQUE INDEX organizations_installation ON organizations (installation) WHERE installation;
