-- What is sealed cannot be put back by SQL: with it, the table stays where it is needed and the step fails, and nothing is lost.
ALTER TABLE manifests ADD CONSTRAINT sealed_segments_would_be_lost CHECK (state = 'replaced');
DROP TABLE manifests;
